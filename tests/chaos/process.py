"""Run a command in a process of its own, and know all processes that come of it."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Process:
    """A command that runs; its session has the number of the process."""

    pid: int
    log: Path
    status: int | None = None

    def wait(self, seconds: float) -> bool:
        """Say whether it ends within so many seconds."""
        end = time.monotonic() + seconds
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
            elif time.monotonic() > end:
                return False
            else:
                time.sleep(0.005)
        return True

    @property
    def code(self) -> int:
        """Exit code, or minus the signal that ended it."""
        assert self.status is not None
        return os.waitstatus_to_exitcode(self.status)

    @property
    def output(self) -> str:
        """What it printed, errors included."""
        return self.log.read_text(errors="replace")

    def others(self) -> list[int]:
        """List living processes of its session, without itself."""
        return [pid for pid in self._session() if pid != self.pid]

    def _session(self) -> list[int]:
        alive = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):  # it has ended in the meantime
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.pid and fields[0] not in "ZX":
                    alive.append(int(entry))
        return alive

    def kill_all(self) -> None:
        """End everything that it started."""
        for pid in self._session():
            kill(pid)

    def outlived(self, seconds: float) -> float | None:
        """Wait until its session has no process left, and return how long; None if some stay."""
        begin = time.monotonic()
        while self._session():
            if time.monotonic() - begin > seconds:
                return None
            time.sleep(0.01)
        return time.monotonic() - begin


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def start(words: list[str], folder: Path, log: Path, room: int | None = None) -> Process:
    """Run a command line of ``vinets`` in a folder; no file may grow beyond ``room`` bytes.

    The process is forked, so that everything is imported already and the work is what is disturbed.
    """
    from vinets.__main__ import main

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
        tempfile.tempdir = None  # that of the process from which this one was forked
        if room is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        sys.argv, code = words, None
        try:
            main()
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else bool(code))
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    os._exit(70)
