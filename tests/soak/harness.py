"""The loop, and the slope of its memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from vinets import build
from vinets.data import digits
from vinets.models import digits_cnn
from vinets.networks import CutNetwork

SMALL = {"per_class": 20, "components": 6, "keep": 3, "monomials": 24, "max_degree": 2}
MOST = 0.02  # megabytes an iteration; less than a single copy of what an iteration holds


@dataclass
class Report:
    """Memory in megabytes after every iteration, the first ones left out."""

    memory: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def slope(self) -> float:
        """Megabytes an iteration, by the median of slopes: a single step upwards is no leak."""
        y = np.array(self.memory)
        if len(y) < 4:
            return 0.0
        x = np.arange(len(y))
        half = len(y) // 2  # each point of the first half against one of the second
        return float(np.median((y[-half:] - y[:half]) / (x[-half:] - x[:half])))

    def __str__(self) -> str:
        if not self.memory:
            return "too short for a slope"
        return (
            f"{len(self.memory)} iterations in {self.seconds:.0f} s: {self.memory[0]:.1f} MB at "
            f"first, {self.memory[-1]:.1f} MB at last, at most {max(self.memory):.1f} MB; slope "
            f"{self.slope:+.5f} MB an iteration (at most {MOST})"
        )


def soak(
    folder: Path,
    seconds: float,
    say: Callable[[str], None] = lambda text: None,
    warm: int = 10,
    iterations: int | None = None,
) -> Report:
    """Build, save, load and predict for so many seconds, or so many times."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, data = digits_cnn(10).eval(), digits()
    images = next(iter(data.test.batches(32)))[0]
    report, begin, number, expected = Report(), time.monotonic(), 0, None
    while time.monotonic() - begin < seconds and (iterations is None or number < iterations):
        network = build(model, data.train, "relu3", progress=None, **SMALL)[0].eval()
        network.save_pretrained(folder / str(number % 2))
        loaded = CutNetwork.from_pretrained(folder / str(number % 2)).eval()
        with torch.no_grad():
            logits, again = network(images), loaded(images)
        assert torch.equal(logits, again), "what was loaded is not what was saved"
        expected = logits if expected is None else expected
        assert torch.equal(logits, expected), "another result"
        number += 1
        gc.collect()
        if number > warm:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            report.memory.append(pages * 4096 / 1e6)
            report.seconds = time.monotonic() - begin
            if number % 50 == 0:
                say(str(report))
    return report
