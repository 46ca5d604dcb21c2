"""Run a command in a process of its own, and know all processes that come of it."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

# Forked, so that everything is imported already and the work is what is disturbed.
FORK = multiprocessing.get_context("fork")


@dataclass
class Process:
    """A command that runs; its session has the number of the process."""

    child: BaseProcess
    log: Path

    def wait(self, seconds: float) -> bool:
        """Say whether it ends within so many seconds."""
        self.child.join(seconds)
        return self.child.exitcode is not None

    @property
    def code(self) -> int:
        """Exit code, or minus the signal that ended it."""
        assert self.child.exitcode is not None
        return self.child.exitcode

    @property
    def output(self) -> str:
        """What it printed, errors included."""
        return self.log.read_text(errors="replace")

    def session(self) -> list[int]:
        """List living processes of its session."""
        alive = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):  # it has ended in the meantime
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.child.pid and fields[0] not in "ZX":
                    alive.append(int(entry))
        return alive

    def others(self) -> list[int]:
        """List living processes of its session, without itself."""
        return [pid for pid in self.session() if pid != self.child.pid]

    def kill_all(self) -> None:
        """End everything that it started."""
        for pid in self.session():
            kill(pid)

    def outlived(self, seconds: float) -> float | None:
        """Wait until its session has no process left, and return how long; None if some stay."""
        begin = time.monotonic()
        while self.session():
            if time.monotonic() - begin > seconds:
                return None
            time.sleep(0.01)
        return time.monotonic() - begin


def kill(pid: int | None) -> None:
    assert pid is not None
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def start(words: list[str], folder: Path, log: Path, room: int | None = None) -> Process:
    """Run a command line of ``vinets`` in a folder; no file may grow beyond ``room`` bytes."""
    child = FORK.Process(target=_run, args=(words, folder, log, room))
    child.start()
    return Process(child, log)


def _run(words: list[str], folder: Path, log: Path, room: int | None) -> None:
    from vinets.__main__ import main

    os.setsid()
    with log.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    # whatever stood in their place, in a test for instance
    sys.stdout, sys.stderr = (open(at, "w", closefd=False) for at in (1, 2))  # noqa: SIM115
    os.chdir(folder)
    (folder / "tmp").mkdir(exist_ok=True)
    os.environ["TMPDIR"] = str(folder / "tmp")
    tempfile.tempdir = None  # that of the process from which this one was forked
    if room is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    sys.argv = words
    main()
