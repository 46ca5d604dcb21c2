"""Seconds and peak memory of the stages of one process.

Other work on a machine makes the clock run ahead; what a growth is computed from is CPU time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def peak() -> int:
    """Largest resident memory of this process, in bytes; that of ``getrusage`` is inherited."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


class Stages:
    """Seconds of every stage, by the clock and of the CPU, and the peak memory at its end."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self.begin = time.perf_counter(), time.process_time()

    def end(self, stage: str, **facts: Any) -> None:
        clock, cpu = time.perf_counter() - self.begin[0], time.process_time() - self.begin[1]
        row = {"stage": stage, "seconds": clock, "cpu_seconds": cpu, "peak_GiB": peak() / 2**30}
        row |= facts
        print(json.dumps(row), file=sys.stderr, flush=True)
        self.found.append(row)
        self.begin = time.perf_counter(), time.process_time()
