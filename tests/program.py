"""The program ``vinets`` inside of this process, and scripts in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
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


def python(
    script: str, *words: object, code: int = 0, **variables: str | None
) -> subprocess.CompletedProcess[str]:
    """Run a script that must end with this code; None takes a variable out of its environment."""
    environment = {k: v for k, v in (os.environ | variables).items() if v is not None}
    command = [sys.executable, "-c", script, *map(str, words)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == code, done.stderr
    return done
