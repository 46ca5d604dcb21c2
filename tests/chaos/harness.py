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
from typing import NamedTuple

import torch

from chaos.compare import differences
from chaos.process import Process, kill, start

MAX_SECONDS = 180.0  # until a command counts as hanging
LINGER_SECONDS = 60.0  # that processes may outlive the one that started them; they may just import
LARGE_DISK = 256  # megabytes

BUILD = (
    "--data digits --cut relu3 --per-class 40 --components 8 --keep 4 "
    "--monomials 32 --max-degree 2 --epochs 2 --seconds 0.01 --repeats 2 --batch 16 "
    "--baselines --views 1"
)
COMPRESS = "--data digits --budget params=30% --limit 300 --cuts 1 --epochs 2 --no-int8"
PAPER = "fig-monomials table-choices --on digits --quick --seeds 1 --json"


class Command(NamedTuple):
    """One command line; it writes into ``out``, below the folder where it is run."""

    name: str
    line: str
    share: float = 1.0  # of the trials


COMMANDS = (
    Command("train", "train --model digits_cnn --data digits --epochs 4"),
    Command("build", f"build base {BUILD}"),
    Command("compress", f"compress base {COMPRESS}"),
    Command("reproduce", f"reproduce {PAPER}", 0.5),
    Command("reproduce, 2 jobs", f"reproduce {PAPER} --jobs 2", 0.7),
)
BASE = Command("base", "train --model digits_cnn --data digits --epochs 1")


@dataclass
class Report:
    """What came of a number of trials."""

    seed: int
    trials: Counter[str] = field(default_factory=Counter)  # by command and way
    kills: Counter[str] = field(default_factory=Counter)  # by what was killed
    others: Counter[str] = field(default_factory=Counter)  # full disks, second writers, workers
    outlived: float = 0.0  # seconds that workers outlived the program, at most
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.trials.total()} trials, {self.kills.total()} kills"]
        for counts in (self.trials, self.kills, self.others):
            lines.append("  " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
        lines.append(f"outlived by at most {self.outlived:.2f} s; {len(self.failures)} failures")
        return "\n".join([*lines, *self.failures])


class Fault(Exception):
    """Something was not as it should be."""


@dataclass
class Bench:
    """A place for trials of one command, with an undisturbed run to compare them with."""

    top: Path
    report: Report
    command: Command = BASE
    took: dict[str, float] = field(default_factory=dict)  # seconds of undisturbed runs

    def __post_init__(self) -> None:
        self.folder = self.top / "trial"

    @property
    def reference(self) -> Path:
        return self.top / f"reference {self.command.name}"

    def begin(self, command: Command) -> None:
        """Make a fresh folder for a command, after its undisturbed run."""
        self.command = command
        if command.name not in self.took:
            self._clear()
            begin = time.monotonic()
            self.finish()
            self.took[command.name] = time.monotonic() - begin
            (self.folder / "out").rename(self.reference)
        self._clear()

    def _clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        if (self.top / "base").exists():
            (self.folder / "base").symlink_to(self.top / "base")

    def start(self, *words: str, log: str = "log", room: int | None = None) -> Process:
        line = ["vinets", *self.command.line.split(), "--out", "out", "--device", "cpu", "--quiet"]
        return start([*line, *words], self.folder, self.folder / log, room)

    def finish(
        self, process: Process | None = None, codes: tuple[int, ...] = (0,), *, clean: bool = True
    ) -> int:
        """Wait for a command, or a new one, and all that it started; ``clean``: no traceback."""
        process = process or self.start()
        if not process.wait(MAX_SECONDS):
            process.kill_all()
            raise Fault(f"hangs: {process.output[-500:]}")
        self.wait_for_others(process)
        if process.code not in codes or (clean and "Traceback" in process.output):
            raise Fault(f"ends with code {process.code}: {process.output[-1500:]}")
        return process.code

    def wait_for_others(self, process: Process) -> None:
        """Raise if a process stays behind."""
        seconds = process.outlived(LINGER_SECONDS)
        if seconds is None:
            left = len(process.others())
            process.kill_all()
            raise Fault(f"{left} processes stayed")
        self.report.outlived = max(self.report.outlived, seconds)

    def compare(self) -> None:
        """Raise if the folder of the command is not that of the undisturbed run."""
        faults = list(differences(self.folder / "out", self.reference))
        left = (path for path in (self.folder / "tmp").rglob("*") if path.is_file())
        faults += [f"stray file {path}" for path in left]
        if faults:
            raise Fault("; ".join(faults[:6]))


def killed(bench: Bench, random: Random) -> None:
    """SIGKILL at random moments: of the program, of all its processes, or of a worker."""
    name = bench.command.name
    for _ in range(random.choice((1, 2, 2, 3))):
        process = bench.start()
        moment = random.uniform(0, bench.took[name])
        way = random.choice(("program", "program", "group"))
        if "jobs" in name and random.random() < 0.3:
            way = "worker"
        if process.wait(moment):
            bench.finish(process)  # it was quicker than expected
            continue
        others = process.others()
        if way == "worker" and others:
            one = random.choice(others)
            # Python starts its tracker of resources, starts it again when it is gone, and prints
            # what it makes of that; the command has to go on all the same.
            try:
                tracker = "resource_tracker" in Path(f"/proc/{one}/cmdline").read_text()
            except OSError:  # it has ended
                tracker = False
            kill(one)
            bench.report.kills["tracker" if tracker else "worker"] += 1
            # The program says so, or did not need it any more.
            bench.finish(process, (0, 2), clean=not tracker)
            continue
        if way == "group":
            process.kill_all()
        else:
            kill(process.child.pid)
            bench.report.others["workers without a parent"] += len(others)
        bench.report.kills[f"{name} ({'group' if way == 'group' else 'program'})"] += 1
        process.wait(LINGER_SECONDS)
        bench.wait_for_others(process)
    bench.finish()
    bench.compare()


def full(bench: Bench, random: Random) -> None:
    """A disk with too little room, or one file that cannot grow; then enough room."""
    sizes = [path.stat().st_size for path in bench.reference.rglob("*") if path.is_file()]
    small = random.random() < 0.5 and os.getuid() == 0 and shutil.which("mount") is not None
    with _small_disk(bench.folder / "out", random.randrange(4096, sum(sizes)), small) as enlarge:
        process = bench.start(room=None if small else random.randrange(max(sizes)))
        if bench.finish(process, (0, 2)):
            lines = process.output.strip().splitlines()
            if len(lines) != 1 or "could not be written" not in lines[0]:
                raise Fault(f"no sentence about the full disk: {process.output[-800:]}")
            bench.report.others["full disks"] += 1
        enlarge()
        bench.finish()
        bench.compare()


@contextmanager
def _small_disk(folder: Path, size: int, wanted: bool) -> Iterator[Callable[[], object]]:
    """Mount a disk of so many bytes at a folder, where that may be done; yield what enlarges it."""

    def mount(*words: str) -> bool:
        return subprocess.run(["mount", *words], capture_output=True, check=False).returncode == 0

    if wanted:
        folder.mkdir()
    mounted = wanted and mount("-t", "tmpfs", "-o", f"size={size}", "none", str(folder))
    try:
        yield lambda: mounted and mount("-o", f"remount,size={LARGE_DISK}m", str(folder))
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def doubled(bench: Bench, random: Random) -> None:
    """Two writers to one folder: one of them is refused, waits, or finds everything done."""
    wait = random.random() < 0.3
    words = ("--wait",) if wait else ()
    first = bench.start(*words)
    first.wait(random.uniform(0, 0.7 * bench.took[bench.command.name]))
    second = bench.start(*words, log="log 2")
    codes = [bench.finish(one, (0,) if wait else (0, 2)) for one in (first, second)]
    for one in (first, second):
        if one.code and "Another process is writing into" not in one.output:
            raise Fault(f"refused, but not for the other writer: {one.output[-500:]}")
    bench.report.others["second writers refused"] += sum(map(bool, codes))
    if all(codes):
        raise Fault("both writers are refused")
    bench.compare()


# What is done to a command, by name, and its share of the trials.
WAYS = {"killed": (killed, 0.7), "full disk": (full, 0.18), "two writers": (doubled, 0.12)}


def run(
    seed: int,
    trials: int | None = None,
    kills: int | None = None,
    only: tuple[str, ...] = (),
    ways: tuple[str, ...] = tuple(WAYS),
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Make so many trials, or as many as so many kills take."""
    # What commands import when they run, so that a trial has little else to do than its work.
    import vinets.cli.app
    import vinets.paper.reproduce
    import vinets.runs.scratch
    import vinets.search.compress  # noqa: F401

    torch.set_num_threads(1)
    report = Report(seed)
    commands = [one for one in COMMANDS if not only or one.name in only]
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        bench = Bench(Path(name).resolve(), report)
        if any(one.name != "train" for one in commands):
            bench.begin(BASE)
            bench.reference.rename(bench.top / "base")
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
                bench.begin(command)
                WAYS[way][0](bench, random)
                say(f"{about}: same")
            except Fault as fault:
                report.failures.append(f"{about}: {fault}")
                say(report.failures[-1])
            number += 1
    return report
