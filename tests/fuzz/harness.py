"""Run readers on damaged files in a process of their own, and judge what comes of it."""

from __future__ import annotations

import multiprocessing
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
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import torch

from fuzz.readers import Reader, damage, readers

MAX_SECONDS = 5.0  # of the processor, for one input
MAX_WAIT = 60  # seconds by the clock, for an input that waits without computing
MAX_MEGABYTES = 512  # growth of the process
MAX_INPUTS = 5_000  # of one process, so that memory left in pieces counts for few of them
FORK = multiprocessing.get_context("fork")


@dataclass
class Report:
    """Results of a number of inputs."""

    seed: int
    named: Counter[str] = field(default_factory=Counter)  # refused in one sentence, by reader
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
        told = (
            f"seed {self.seed}: {self.inputs:,} inputs, {self.named.total():,} refused in one "
            f"sentence, {self.accepted.total():,} read, {len(self.failures)} failures\n"
            f"slowest {self.slowest[0]:.2f} s ({self.slowest[1]}), largest growth "
            f"{self.largest[0]:.0f} MB ({self.largest[1]})"
        )
        return "\n".join([*rows, told, *self.failures[:50]])

    def count(self, row: dict[str, Any]) -> None:
        """Add the result of one input."""
        where, seconds, grown = f"{row['reader']}, input {row['at']}", row["seconds"], row["grown"]
        self.slowest = max(self.slowest, (seconds, where))
        self.largest = max(self.largest, (grown, where))
        faults = [row["fault"]] if row["fault"] else []
        faults += [f"takes {seconds:.1f} s"] if seconds > MAX_SECONDS else []
        faults += [f"takes {grown:.0f} MB"] if grown > MAX_MEGABYTES else []
        if faults:
            self.failures.append(f"{where}: {'; '.join(faults)}")
        else:
            (self.named if row["refused"] else self.accepted)[row["reader"]] += 1


def fuzz(
    seed: int,
    inputs: range,
    only: str = "",
    seconds: float | None = None,
    libraries: bool = False,
) -> Report:
    """Try inputs by number: equal numbers and seeds give equal inputs, whatever ran before."""
    torch.set_num_threads(1)
    report, start = Report(seed), inputs.start
    end = float("inf") if seconds is None else time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        top = Path(name)
        every = [one for one in readers(top / "good", libraries) if only in one.name]
        shutil.copytree(top / "good", top / "spare")
        _read_all(every)  # so that imports and caches count for no input
        while start < inputs.stop and time.monotonic() < end:
            for reader in every:
                _restore(reader, top)  # an input that ends a process leaves its file behind
            some = range(start, min(start + MAX_INPUTS, inputs.stop))
            ours, theirs = FORK.Pipe(duplex=False)
            child = FORK.Process(target=_work, args=(seed, every, top, some, end, theirs))
            child.start()
            theirs.close()
            row: dict[str, Any] = {"at": inputs.stop, "refused": None}  # no input: time is over
            with suppress(EOFError):
                while row := ours.recv():
                    if "refused" in row:
                        report.count(row)
            child.join()
            if "refused" not in row:  # the child did not come back from it
                hangs = child.exitcode == -signal.SIGALRM
                kind = "hangs" if hangs else f"ends the process ({child.exitcode})"
                report.failures.append(f"{row['reader']}, input {row['at']}: {kind}")
            start = row["at"] + 1
    return report


def _work(seed: int, every: list[Reader], top: Path, inputs: range, end: float, out: Any) -> None:
    """Go through inputs in this process, and send each, then its result."""

    def refuse(*arguments: object, **options: object) -> Any:
        raise AssertionError("asked for the network")

    for name in ("connect", "connect_ex"):
        setattr(socket.socket, name, refuse)
    socket.getaddrinfo = refuse
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    _read_all(every)
    base = _peak()
    for at in inputs:
        if time.monotonic() > end:
            return
        rng = Random(f"{seed}-{at}")
        (reader,) = rng.choices(every, [one.share for one in every])
        row: dict[str, Any] = {"at": at, "reader": reader.name}
        out.send(row)
        damage(reader, rng)
        begin = time.process_time()
        signal.alarm(MAX_WAIT)
        row["refused"], row["fault"] = judge(reader)
        signal.alarm(0)
        row["seconds"], row["grown"] = time.process_time() - begin, _peak() - base
        _restore(reader, top)
        out.send(row)
        if row["grown"] > MAX_MEGABYTES:
            return  # a fresh process goes on, because the peak stays


def judge(reader: Reader) -> tuple[bool, str]:
    """Say whether a reader refuses its folder, and what is wrong with how it does."""
    try:
        reader.read(reader.folder)
    except (ValueError, OSError) as error:  # as callers are told to expect of a file
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


def _read_all(every: list[Reader]) -> None:
    """Read the good files."""
    for reader in every:
        if "Llava" not in reader.name:  # is never built from a record
            reader.read(reader.folder)


def _peak() -> float:
    """Return the most megabytes that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def shown(seed: int, at: int, only: str = "", libraries: bool = False) -> Iterator[str]:
    """Tell what one input is and what comes of it, in this process."""
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
