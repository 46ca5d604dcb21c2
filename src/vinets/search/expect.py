"""How long a search will take, and how much memory, from a few steps of training."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
import torch

from vinets.core.progress import Progress, progress_of
from vinets.runs.context import CutContext
from vinets.runs.setup import Setup
from vinets.runs.trial import Trial
from vinets.search.space import Candidate
from vinets.training import fine_tune

try:
    import resource
except ImportError:  # Windows does not have it: there, plans do not say the memory of the CPU
    resource = None  # type: ignore[assignment]

STEPS = 6  # of training that are timed behind a cut
PLACES = 3  # cuts that are timed


def expected(
    setup: Setup,
    start: Trial,
    candidates: Sequence[Candidate],
    macs: Mapping[str, int],
    rounds: Sequence[tuple[int, int]],
    progress: Progress,
) -> tuple[float, int | None]:
    """Seconds and bytes, from a few steps of training behind some cuts.

    Bytes are None where the system does not tell. What lies between these cuts is interpolated by
    the operations ``macs`` of each. The ``rounds`` are how many are trained for how many epochs.
    """
    cuts = sorted(macs, key=lambda cut: macs[cut])
    last = len(cuts) - 1
    places = [cuts[i] for i in sorted({round(i * last / (PLACES - 1)) for i in range(PLACES)})]
    progress.start("cuts at which steps are timed", len(places))
    costs = []
    for cut in places:
        costs.append(_seconds_an_example(setup, start, candidates, cut))
        progress.advance(1, cut)
    known = [macs[cut] for cut in places]
    rates = [float(np.interp(macs[one.cut], known, costs)) for one in candidates]
    epochs = sum(count * length for count, length in rounds)
    return epochs * len(setup.train) * fmean(rates), _memory(setup.device)


def _seconds_an_example(
    setup: Setup, start: Trial, candidates: Sequence[Candidate], cut: str
) -> float:
    one = next(candidate for candidate in candidates if candidate.cut == cut)
    trial = one.trial(start, 1)
    network, _ = CutContext(setup, trial, progress_of(None)).network(trial)
    count = min(STEPS * trial.recipe.batch_size, len(setup.train))
    some = setup.train.subset(torch.arange(count))
    for _ in range(2):  # in the first, libraries choose their kernels
        begin = time.perf_counter()
        fine_tune(
            network,
            some,
            recipe=trial.recipe,
            tuning=trial.tuning,
            teacher=setup.model,
            progress=None,
        )
        took = time.perf_counter() - begin
    return took / count


def _memory(device: torch.device) -> int | None:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if resource is None:
        return None
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else 1024 * used
