"""Run a command in a process of its own, and know all processes that come of it."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 180.0  # seconds until a command counts as hanging


@dataclass
class Process:
    """A command that runs; its session has the number of the process."""

    pid: int
    log: Path
    status: int | None = None

    def poll(self) -> bool:
        """Whether it has ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def wait(self, seconds: float) -> bool:
        """Whether it ends within so many seconds."""
        end = time.monotonic() + seconds
        while not self.poll() and time.monotonic() < end:
            time.sleep(0.005)
        return self.status is not None

    @property
    def code(self) -> int:
        """Exit code, or minus the signal that ended it."""
        assert self.status is not None
        return os.waitstatus_to_exitcode(self.status)

    @property
    def said(self) -> str:
        """What it printed, errors included."""
        return self.log.read_text(errors="replace")

    def others(self) -> list[int]:
        """Processes of its session beside itself."""
        return [pid for pid in session(self.pid) if pid != self.pid]

    def kill_all(self) -> None:
        """End everything that it started."""
        for pid in session(self.pid):
            kill(pid)


def start(words: list[str], folder: Path, log: Path, room: int | None = None) -> Process:
    """Run a command line of ``vinets`` in a folder; no file may grow beyond ``room`` bytes.

    The process is forked, so that everything is imported already: what is disturbed is the work.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return Process(pid, log)
    try:
        os.setsid()
        with log.open("w") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        # whatever stood in their place, in a test for instance
        sys.stdout, sys.stderr = (open(at, "w", closefd=False) for at in (1, 2))  # noqa: SIM115
        os.chdir(folder)
        (folder / "tmp").mkdir(exist_ok=True)
        os.environ["TMPDIR"] = str(folder / "tmp")
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        _main(words)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    os._exit(70)


def _main(words: list[str]) -> None:
    import tempfile

    from vinets.__main__ import main

    tempfile.tempdir = None  # of the process that this one was forked from
    sys.argv = words
    try:
        main()
    except SystemExit as end:
        code = end.code
    else:
        code = 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1 if code else 0)


def session(number: int) -> list[int]:
    """Living processes of a session."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            told = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended in the meantime
            continue
        if int(told[3]) == number and told[0] not in "ZX":
            found.append(int(entry))
    return found


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def gone(number: int, seconds: float) -> float | None:
    """Seconds until a session has no process left; None if some stay."""
    begin = time.monotonic()
    while session(number):
        if time.monotonic() - begin > seconds:
            return None
        time.sleep(0.01)
    return time.monotonic() - begin
