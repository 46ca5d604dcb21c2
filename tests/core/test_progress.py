"""Who hears of long work: terminals, notebooks and logs alike, and what bars may write."""

from __future__ import annotations

import io

import pytest

from vinets.core import progress as module
from vinets.core.progress import Bars, Silent, progress_of


def test_logs_and_notebooks_hear_of_long_work_and_short_work_is_quiet(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    watch = progress_of("auto")  # stderr is no terminal here
    watch.start("quick", 10)
    watch.advance(10)
    assert capsys.readouterr().err == ""
    now[0] = 6.0
    watch.start("training", 100)
    for second in range(7, 30):
        now[0] = float(second)
        watch.advance(1)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["training (100)", "training 10/100, 90 s left", "training 20/100, 80 s left"]
    assert isinstance(progress_of(None), Silent)
    with pytest.raises(ValueError, match="progress must be None, 'auto' or a Progress"):
        progress_of("bars")


def test_bars_draw_and_names_in_them_command_nothing(monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: True
    monkeypatch.setattr(module.sys, "stderr", stream)
    with Bars() as bars:
        bars.start("cut\x1b[2J\x07", 2)
        bars.advance(1, "\x1b]0;title\x07")
    drawn = stream.getvalue()
    assert "\x1b[2K" in drawn and "\x1b[2J" not in drawn  # its own lines are drawn anew
    assert "\x1b]" not in drawn and "\x07" not in drawn
