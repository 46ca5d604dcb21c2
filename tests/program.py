"""The program ``vinets`` inside of this process."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any, NamedTuple

import pytest

from vinets.__main__ import main


class Done(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """What it printed, which must be one JSON value and nothing else."""
        assert self.code == 0, self.err
        return json.loads(self.out)


def run(*words: object) -> Done:
    """Run the program; an exception that it makes no sentence of is raised."""
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("COLUMNS", "160")
        patch.setattr(sys, "argv", ["vinets", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
    return Done(int(end.value.code or 0), out.getvalue(), err.getvalue())
