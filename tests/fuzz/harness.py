"""Run readers on damaged files in a process of their own, and judge what comes of it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any

import torch

from fuzz.readers import Reader, damage, readers

SECONDS = 5.0  # of the processor, for one input
PATIENCE = 60  # seconds by the clock, for what waits without computing
MEGABYTES = 512  # that the process may grow by
EACH = 5_000  # inputs of a process: memory that inputs leave in pieces counts for none of them
EXPECTED = (ValueError, OSError)  # what callers are told to expect of a file


@dataclass
class Report:
    """What came of a number of inputs."""

    seed: int
    named: Counter[str] = field(default_factory=Counter)  # by reader: refused in one sentence
    accepted: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    largest: tuple[float, str] = (0.0, "")  # growth of the process in megabytes

    @property
    def inputs(self) -> int:
        return self.named.total() + self.accepted.total() + len(self.failures)

    def __str__(self) -> str:
        names = sorted(self.named.keys() | self.accepted.keys())
        rows = [f"  {n:28} {self.named[n]:7,} refused {self.accepted[n]:7,} read" for n in names]
        return "\n".join(
            [
                *rows,
                f"seed {self.seed}: {self.inputs:,} inputs, {self.named.total():,} refused in one "
                f"sentence, {self.accepted.total():,} read, {len(self.failures)} failures",
                f"slowest {self.slowest[0]:.2f} s ({self.slowest[1]}), largest growth "
                f"{self.largest[0]:.0f} MB ({self.largest[1]})",
                *self.failures[:50],
            ]
        )


def fuzz(
    seed: int,
    inputs: range,
    only: str = "",
    seconds: float | None = None,
    libraries: bool = False,
) -> Report:
    """Inputs by number: the same number and seed give the same input, whatever ran before."""
    torch.set_num_threads(1)
    report = Report(seed)
    end = None if seconds is None else time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        top = Path(folder)
        (top / "good").mkdir()
        every = [one for one in readers(top / "good", libraries) if only in one.name]
        shutil.copytree(top / "good", top / "spare")
        _warm(every)
        start = inputs.start
        while start < inputs.stop and (end is None or time.monotonic() < end):
            start = _run_child(
                report, every, top, range(start, min(start + EACH, inputs.stop)), end
            )
    return report


def _run_child(
    report: Report, every: list[Reader], top: Path, inputs: range, end: float | None
) -> int:
    """Let a child go through inputs until one of them ends it; the next input."""
    log = top / "log"
    for reader in every:
        _restore(reader, top)  # an input that ends a process leaves its file behind
    child = os.fork()
    if not child:
        with log.open("w") as out, open(os.devnull, "w") as quiet:
            os.dup2(quiet.fileno(), 1)
            os.dup2(quiet.fileno(), 2)
            _work(report.seed, every, top, inputs, end, out)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    last, began = inputs.start - 1, ""
    for line in log.read_text().splitlines():
        told = json.loads(line)
        if "begins" in told:
            last, began = told["at"], told["begins"]
            continue
        began = ""
        _count(report, told)
    if began:  # the child did not come back from it
        kind = "hangs" if os.WTERMSIG(status) == signal.SIGALRM else f"ends the process ({status})"
        report.failures.append(f"input {last} ({began}) {kind}")
    return last + 1 if last >= inputs.start else inputs.stop  # the time was over


def _count(report: Report, told: dict[str, Any]) -> None:
    where = f"{told['reader']}, input {told['at']}"
    report.slowest = max(report.slowest, (told["seconds"], where))
    report.largest = max(report.largest, (told["grown"], where))
    faults = [
        *([told["fault"]] if told["fault"] else []),
        *([f"takes {told['seconds']:.1f} s"] if told["seconds"] > SECONDS else []),
        *([f"takes {told['grown']:.0f} MB"] if told["grown"] > MEGABYTES else []),
    ]
    if faults:
        report.failures.append(f"input {told['at']} ({told['reader']}): {'; '.join(faults)}")
    else:
        (report.named if told["refused"] else report.accepted)[told["reader"]] += 1


def _work(
    seed: int, every: list[Reader], top: Path, inputs: range, end: float | None, out: IO[str]
) -> None:
    """Go through inputs in this process, and write down what comes of each."""
    for name in ("connect", "connect_ex"):
        setattr(socket.socket, name, _refuse)
    socket.getaddrinfo = _refuse
    _warm(every)
    base = _peak()
    for at in inputs:
        if end is not None and time.monotonic() > end:
            return
        rng = Random(f"{seed}-{at}")
        (reader,) = rng.choices(every, [one.share for one in every])
        out.write(json.dumps({"at": at, "begins": reader.name}) + "\n")
        out.flush()
        damage(reader, rng)
        began = time.process_time()
        signal.alarm(PATIENCE)
        refused, fault = judge(reader)
        signal.alarm(0)
        took = time.process_time() - began
        _restore(reader, top)
        grown = (_peak() - base) / 1024
        row = {"at": at, "reader": reader.name, "refused": refused, "fault": fault}
        out.write(json.dumps(row | {"seconds": took, "grown": grown}) + "\n")
        out.flush()
        if grown > MEGABYTES:
            return  # a fresh process, for the peak stays


def _refuse(*arguments: object, **options: object) -> Any:
    raise AssertionError("asked for the network")


def judge(reader: Reader) -> tuple[bool, str]:
    """Whether a reader refuses its folder, and what is wrong with how it does."""
    try:
        reader.read(reader.folder)
    except EXPECTED as error:
        text = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            return True, ""  # the system says which file and why
        sound = text.strip().endswith((".", "?")) and "\n" not in text and len(text) < 1500
        return True, "" if sound else f"{type(error).__name__} without a sentence: {text[:300]!r}"
    except BaseException as error:
        last = traceback.extract_tb(sys.exc_info()[2])[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return True, f"{type(error).__name__} at {where}: {str(error)[:200]!r}"
    return False, ""


def _restore(reader: Reader, top: Path) -> None:
    """Put the good files of a reader back."""
    shutil.rmtree(reader.folder)
    shutil.copytree(top / "spare" / reader.folder.relative_to(top / "good"), reader.folder)


def _warm(every: list[Reader]) -> None:
    """Read what is good once, so that imports and caches count for no input."""
    for reader in every:
        if "Llava" not in reader.name:  # is never built from a record
            reader.read(reader.folder)


def _peak() -> float:
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def shown(seed: int, at: int, only: str = "", libraries: bool = False) -> Iterator[str]:
    """What one input is and what comes of it, in this process."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        every = [one for one in readers(Path(folder), libraries) if only in one.name]
        rng = Random(f"{seed}-{at}")
        (reader,) = rng.choices(every, [one.share for one in every])
        name, content = damage(reader, rng)
        yield f"{reader.name}, {name}: {content[:2000] if content is not None else 'no file'!r}"
        try:
            yield f"read: {reader.read(reader.folder)!r:.500}"
        except BaseException:
            yield traceback.format_exc()
