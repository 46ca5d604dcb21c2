"""Tell users how far long work is: by bars on a terminal, lines in a log, or not at all.

Functions that take ``progress`` accept None (say nothing), ``"auto"`` (lines with the time left, on
terminals and in notebooks and logs alike, once work takes longer than some seconds), or an object
with the two methods of :class:`Progress`.
"""

from __future__ import annotations

import math
import re
import sys
import time
from contextlib import AbstractContextManager
from typing import Any, Protocol

# Control characters but those of colours, and but those that draw bars as well.
CONTROL = re.compile(r"(?!\x1b\[[\d;]*m)[\x00-\x08\x0b-\x1f\x7f-\x9f]")
NO_DRAWING = re.compile(r"(?!\x1b\[[\d;?]*[A-Za-z])[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class SafeStream:
    """A stream without control characters: names from files could command a terminal with them.

    Whatever else is asked of it, the stream itself answers.
    """

    def __init__(self, stream: Any, without: re.Pattern[str] = CONTROL) -> None:
        self.stream, self.without = stream, without

    def write(self, text: str) -> int:
        self.stream.write(self.without.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class Progress(Protocol):
    """Receives stages of work, and steps within them."""

    def start(self, stage: str, total: int) -> None:
        """Begin a stage of ``total`` steps, 0 if unknown, and end the one before."""
        return None

    def advance(self, count: int = 1, note: str = "") -> None:
        """Count steps that are done; ``note`` says how the work goes."""
        return None


class Silent(Progress):
    """Progress that says nothing."""


class Lines:
    """A line when a stage begins, and one at most every few seconds: for logs.

    Nothing is said in the first ``patience`` seconds of the work.
    """

    def __init__(self, every: float = 10.0, patience: float = 0.0) -> None:
        self.every, self.patience = every, patience
        self.stage, self.total, self.done = "", 0, 0
        self.created = self.begun = self.last = time.monotonic()

    def start(self, stage: str, total: int) -> None:
        self.stage, self.total, self.done = stage, total, 0
        self.begun = self.last = time.monotonic()
        if self.begun - self.created >= self.patience:
            self._say(f"{self.stage} ({self.total})" if self.total else self.stage)

    def advance(self, count: int = 1, note: str = "") -> None:
        self.done += count
        now = time.monotonic()
        if now - self.last < self.every or (self.done == 0 and not note):
            return
        self.last = now
        text = f"{self.stage} {self.done}" + (f"/{self.total}" if self.total else "")
        if 0 < self.done < self.total:
            left = (now - self.begun) * (self.total - self.done) / self.done
            text += f", {left:.0f} s left"
        self._say(f"{text} {note}".rstrip())

    def _say(self, text: str) -> None:
        if sys.stderr is not None:  # print takes None for stdout
            print(text, file=sys.stderr, flush=True)


class Notes(Lines):
    """The stages of a part, as notes on a step of the whole."""

    def __init__(self, whole: Progress) -> None:
        super().__init__(every=0.0, patience=math.inf)
        self.whole = whole

    def _say(self, text: str) -> None:
        self.whole.advance(0, text)


class Bars(AbstractContextManager["Bars"]):
    """A bar for every stage on the terminal, with the time left; a context manager."""

    def __init__(self) -> None:
        from rich import progress as rich
        from rich.console import Console

        own: Any = SafeStream(getattr(sys.stderr, "stream", sys.stderr), NO_DRAWING)
        self.display = rich.Progress(
            rich.TextColumn("{task.description}"),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TimeElapsedColumn(),
            rich.TextColumn("left"),
            rich.TimeRemainingColumn(),
            rich.TextColumn("{task.fields[note]}"),
            console=Console(file=own),
            # Text that is printed meanwhile goes above the bars, but stays in a file or a pipe.
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
        )
        self.task: Any = None

    def __exit__(self, *error: object) -> None:
        if self.task is not None:
            self.display.stop()

    def start(self, stage: str, total: int) -> None:
        if self.task is None:  # a command that never starts a stage leaves the terminal alone
            self.display.start()
        else:  # a stage may end before its last step
            self.display.update(self.task, completed=self.display.tasks[-1].total)
        self.task = self.display.add_task(CONTROL.sub("", stage), total=total or None, note="")

    def advance(self, count: int = 1, note: str = "") -> None:
        if self.task is not None:
            self.display.update(self.task, advance=count, note=CONTROL.sub("", note))


def progress_of(progress: Progress | str | None, *, short: bool = False) -> Progress:
    """Return the receiver that ``progress`` stands for; ``short`` work is over in a moment."""
    if not isinstance(progress, str | None):
        return progress
    if progress not in (None, "auto"):
        raise ValueError(f"progress must be None, 'auto' or a Progress. Got {progress!r} instead.")
    if progress is None or sys.stderr is None:  # None if it was closed
        return Silent()
    return Lines(every=2.0, patience=2.0) if short else Lines(patience=5.0)
