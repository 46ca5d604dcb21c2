"""Trials: disturb a command, let it go on, compare what came of it with an undisturbed run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import torch

from chaos.commands import BASE, COMMANDS, Command, prepare
from chaos.compare import differences
from chaos.process import PATIENCE, Process, command_line, gone, kill, start

LINGER = 60.0  # seconds that processes may outlive the one that started them; they may just import
ROOM = 256  # megabytes of a disk that has been made larger


@dataclass
class Report:
    """What came of a number of trials."""

    seed: int
    trials: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)  # by what was killed
    full: int = 0  # commands that found no room and said so
    refused: int = 0  # second writers
    workers: int = 0  # processes that were running beside a parent when it was killed
    outlived: float = 0.0  # seconds, at most
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(self.trials.items()))
        killed = ", ".join(f"{count} of {name}" for name, count in sorted(self.kills.items()))
        return "\n".join(
            [
                f"seed {self.seed}: {self.trials.total()} trials ({kinds})",
                f"{self.kills.total()} kills ({killed or 'none'}), {self.full} full disks, "
                f"{self.refused} second writers refused",
                f"{self.workers} workers lost their parent and outlived it by at most "
                f"{self.outlived:.2f} s; {len(self.failures)} failures",
                *self.failures,
            ]
        )


class Fault(Exception):
    """What was not as it should be."""


@dataclass
class Bench:
    """A place for trials, with undisturbed runs to compare them with."""

    top: Path
    report: Report
    took: dict[str, float] = field(default_factory=dict)

    def place(self, name: str) -> Path:
        """A fresh folder with the files that commands need."""
        folder = self.top / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for shared in ("base", "data", "weights"):
            if (self.top / shared).exists():
                (folder / shared).symlink_to(self.top / shared)
        return folder

    def reference(self, command: Command) -> Path:
        """The folder of an undisturbed run."""
        folder = self.top / f"reference {command.name}"
        if command.name not in self.took:
            self.place(folder.name)
            begin = time.monotonic()
            self.finish(start(command.words, folder, folder / "log"))
            self.took[command.name] = time.monotonic() - begin
        return folder / "out"

    def finish(self, process: Process, codes: tuple[int, ...] = (0,), *, clean: bool = True) -> int:
        """Wait for the end of a command and of all that it started; ``clean``: no traceback."""
        if not process.wait(PATIENCE):
            process.kill_all()
            raise Fault(f"hangs: {process.said[-500:]}")
        self.end_of(process)
        said = process.said
        if process.code not in codes or (clean and "Traceback" in said):
            raise Fault(f"ends with code {process.code}: {said[-1500:]}")
        return process.code

    def end_of(self, process: Process) -> None:
        """No process may stay behind."""
        seconds = gone(process.pid, LINGER)
        if seconds is None:
            left = len(process.others())
            process.kill_all()
            raise Fault(f"{left} processes stayed")
        self.report.outlived = max(self.report.outlived, seconds)

    def compare(self, folder: Path, command: Command) -> None:
        found = list(differences(folder / "out", self.reference(command)))
        found += [f"stray file {path}" for path in (folder / "tmp").rglob("*") if path.is_file()]
        if found:
            raise Fault("; ".join(found[:6]))


def killed(bench: Bench, command: Command, folder: Path, random: Random) -> None:
    """SIGKILL at random moments: of the program, of all its processes, or of a worker."""
    for _ in range(random.choice((1, 2, 2, 3))):
        process = start(command.words, folder, folder / "log")
        moment = random.uniform(0, bench.took[command.name])
        way = random.choice(("program", "program", "group"))
        if "jobs" in command.name and random.random() < 0.3:
            way = "worker"
        if process.wait(moment):
            bench.finish(process)  # it was quicker than expected
            continue
        others = process.others()
        if way == "worker" and others:
            one = random.choice(others)
            # Python starts this one, starts it again when it is gone, and prints what it makes of
            # that; the command has to go on all the same
            tracker = "resource_tracker" in command_line(one)
            kill(one)
            bench.report.kills["tracker" if tracker else "worker"] += 1
            # the program says so, or did not need it any more
            bench.finish(process, (0, 2), clean=not tracker)
            continue
        if way == "group":
            process.kill_all()
        else:
            kill(process.pid)
            bench.report.workers += len(others)
        bench.report.kills[f"{command.name} ({'group' if way == 'group' else 'program'})"] += 1
        process.wait(LINGER)
        bench.end_of(process)
    bench.finish(start(command.words, folder, folder / "log"))
    bench.compare(folder, command)


def full(bench: Bench, command: Command, folder: Path, random: Random) -> None:
    """A disk with too little room, or one file that cannot grow; then enough room."""
    sizes = [path.stat().st_size for path in bench.reference(command).rglob("*") if path.is_file()]
    small = random.random() < 0.5
    if small and _can_mount():
        (folder / "out").mkdir()
        with _disk(folder / "out", random.randrange(4096, sum(sizes))):
            process = start(command.words, folder, folder / "log")
            bench.report.full += _said_so(bench, process)
            _mount("-o", f"remount,size={ROOM}m", str(folder / "out"))
            bench.finish(start(command.words, folder, folder / "log"))
            bench.compare(folder, command)
        return
    process = start(command.words, folder, folder / "log", room=random.randrange(max(sizes)))
    bench.report.full += _said_so(bench, process)
    bench.finish(start(command.words, folder, folder / "log"))
    bench.compare(folder, command)


def _said_so(bench: Bench, process: Process) -> bool:
    """Whether a command found no room, which it must say in one sentence."""
    code = bench.finish(process, (0, 2))
    lines = process.said.strip().splitlines()
    if code and not (len(lines) == 1 and "could not be written" in lines[0]):
        raise Fault(f"no sentence about the full disk: {process.said[-800:]}")
    return bool(code)


def doubled(bench: Bench, command: Command, folder: Path, random: Random) -> None:
    """Two writers to one folder: one of them is refused, waits, or finds everything done."""
    wait = random.random() < 0.3
    words = [*command.words, "--wait"] if wait else command.words
    first = start(words, folder, folder / "log")
    first.wait(random.uniform(0, 0.7 * bench.took[command.name]))
    second = start(words, folder, folder / "log 2")
    codes = [bench.finish(one, (0,) if wait else (0, 2)) for one in (first, second)]
    for one in (first, second):
        if one.code and "Another process is writing into" not in one.said:
            raise Fault(f"refused, but not for the other writer: {one.said[-500:]}")
    bench.report.refused += sum(map(bool, codes))
    if all(codes):
        raise Fault("both writers are refused")
    bench.compare(folder, command)


WAYS: dict[str, tuple[Callable[[Bench, Command, Path, Random], None], float]] = {
    "killed": (killed, 0.7),
    "full disk": (full, 0.18),
    "two writers": (doubled, 0.12),
}


def run(
    seed: int,
    trials: int | None = None,
    kills: int | None = None,
    only: tuple[str, ...] = (),
    ways: tuple[str, ...] = tuple(WAYS),
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """So many trials, or as many as so many kills take."""
    torch.set_num_threads(1)
    _import_all()
    report = Report(seed)
    commands = [one for one in COMMANDS if not only or one.name in only]
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        bench = Bench(Path(name).resolve(), report)
        if any(one.name != "train" for one in commands):
            prepare(bench.top)
            folder = bench.place("first")
            bench.finish(start(BASE.words, folder, folder / "log"))
            (folder / "out").rename(bench.top / "base")
        number = 0
        while (trials is None or number < trials) and (
            kills is None or report.kills.total() < kills
        ):
            random = Random(f"{seed}-{number}")
            (command,) = random.choices(commands, [one.share for one in commands])
            (way,) = random.choices(ways, [WAYS[one][1] for one in ways])
            report.trials[f"{command.name}, {way}"] += 1
            about = f"trial {number} ({command.name}, {way})"
            try:
                bench.reference(command)
                folder = bench.place("trial")
                WAYS[way][0](bench, command, folder, random)
                say(f"{about}: same")
            except Fault as fault:
                report.failures.append(f"{about}: {fault}")
                say(report.failures[-1])
            number += 1
    return report


def _import_all() -> None:
    """What commands import when they run, so that a trial has little else to do than its work."""
    import vinets.cli.app
    import vinets.paper.reproduce
    import vinets.runs.scratch
    import vinets.search.compress  # noqa: F401


# --- disks --------------------------------------------------------------------------------------


def _mount(*words: str) -> bool:
    done = subprocess.run(["mount", *words], capture_output=True, check=False)
    return done.returncode == 0


def _can_mount() -> bool:
    return os.getuid() == 0 and shutil.which("mount") is not None


@contextmanager
def _disk(folder: Path, size: int) -> Iterator[None]:
    """A disk of so many bytes at ``folder``, where that may be made."""
    made = _mount("-t", "tmpfs", "-o", f"size={size}", "none", str(folder))
    try:
        yield
    finally:
        if made:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
