"""What can be said of a cut before anything is trained behind it."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from vinets.data.interface import Source
from vinets.data.labels import choose_per_class
from vinets.pipeline.context import CutContext
from vinets.pipeline.setup import CHUNK, Setup
from vinets.pipeline.trial import Trial
from vinets.progress import progress_of
from vinets.running import call
from vinets.settings import Collecting, Finding, Projecting

EXAMPLES = 4_000  # of training data in all
PER_CLASS = 10, 200  # of them, at least and at most
LABELLED = 2_000  # validation examples
COMPONENTS = 8
PENALTIES = tuple(np.logspace(-2, 4, 13).tolist())


@dataclass(frozen=True)
class Signals:
    """Figures of a cut that cost seconds.

    Attributes
    ----------
    ridge : float
        Accuracy of a ridge classifier on the means of the channels, on validation examples.
    separation : float
        How large generators of the ideal of a class are on other classes, compared with their own:
        the median over generators, in principal components.
    generators : int
        How many there are.
    """

    ridge: float
    separation: float
    generators: int
    seconds: float


SIGNALS = tuple(one.name for one in fields(Signals) if one.name != "seconds")


def look_at(setup: Setup, cut: str, seed: int) -> Signals:
    """Measure the signals of a cut; ``setup`` has the validation examples as its test part."""
    begin = time.perf_counter()
    classes = len(setup.train.classes)
    low, high = PER_CLASS
    wanted = max(low, min(high, EXAMPLES // classes))
    trial = Trial(
        network=setup.name,
        cut=cut,
        seed=seed,
        collecting=Collecting(per_class=wanted, reuse=True),
        finding=Finding(psi=0.1, max_degree=2),
    )
    context = CutContext(setup, trial, progress_of(None))
    latents = context.latents
    values = min(latents.shape[0] * latents.shape[1], len(latents.store.labels))
    trial = replace(trial, projecting=Projecting(components=min(COMPONENTS, values)))
    x = latents.store.tensor().float().mean(-1).cpu().numpy()
    y = latents.store.labels.cpu().numpy()
    some = setup.test.subset(choose_per_class(setup.test.labels, max(1, LABELLED // classes), seed))
    ridge = make_pipeline(StandardScaler(), RidgeClassifierCV(PENALTIES)).fit(x, y)
    right = float(ridge.score(_means(context, some).numpy(), some.labels.numpy()))
    found = context.generators(trial)
    separation = float(np.median(np.concatenate([np.asarray(s) for s in found.scores.values])))
    seconds = time.perf_counter() - begin
    return Signals(right, separation, found.ideals.n_generators, seconds)


@torch.no_grad()
def _means(context: CutContext, source: Source) -> Tensor:
    latents, device = context.latents, context.setup.device
    batches = source.batches(CHUNK // 4, device=device)
    maps = (latents.reader(call(latents.backbone, inputs)) for inputs, _ in batches)
    return torch.cat([one.float().mean(-1).cpu() for one in maps])


def rank_correlation(signal: list[float], result: list[float]) -> float | None:
    """Spearman's, of what was known before with what came out; None where it says nothing."""
    if len(signal) < 3 or len(set(signal)) < 2 or len(set(result)) < 2:
        return None
    return float(spearmanr(signal, result).statistic)
