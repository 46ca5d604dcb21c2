r"""Scores of generators by how well they tell a class from the others, and the choice by them.

A generator of class :math:`k` is small on that class by construction. It is worth keeping if it is
not small on the others: the paper ranks by

.. math:: s(p) = \min_{j \ne k} \frac{1}{|Z^j|} \sum_{z \in Z^j} |p(z)| .

Under the unit rule a generator can score high merely because it is large everywhere, so a second
score divides by the generator's own mean absolute value on points it was not fitted to.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from torch import Tensor

from vinets.algebra.polynomial import Polynomials
from vinets.algebra.polynomials import PolynomialSet
from vinets.core.checks import one_of, parameter_error
from vinets.ideals.base import VanishingIdeal
from vinets.ideals.classwise import ClassIdeals

SCORES = ("separation", "normalized")
MAX_CPU_VALUES = 1 << 18  # values of polynomials that are added up at once
MAX_GPU_VALUES = 1 << 26
MIN_OWN_VALUE = 1e-6  # a smaller value of a generator on its class is rounding, not noise


@dataclass(frozen=True, eq=False)
class PruningScores:
    """Scores of all generators, class by class."""

    kind: str  # one of SCORES: the paper's, or the same divided by the generator's own value
    values: tuple[NDArray[np.float64], ...]
    means: tuple[NDArray[np.float64], ...]  # (K, |G_k|) mean absolute values on every class


@dataclass(frozen=True, eq=False)
class PrunedIdeals:
    """The generators that were kept, class by class."""

    classes: NDArray[Any]  # (K,) labels
    polynomials: tuple[PolynomialSet, ...]  # in their old order: degrees stay sorted
    scores: tuple[NDArray[np.float64], ...]
    n_generators: int  # how many there were before

    def __len__(self) -> int:
        return sum(map(len, self.polynomials))


def mean_absolute_values(ideals: ClassIdeals, Z: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Average ``|p|`` over the points of every class: per class of generators, (K, |G_k|).

    On a CPU, classes go to several processes where a ``joblib.parallel_config`` says so.
    """
    codes = torch.as_tensor(np.searchsorted(ideals.classes, y.cpu().numpy()), device=Z.device)
    jobs = effective_n_jobs(None) if Z.is_cpu else 1
    # all points go to every process, so that there are as many jobs and no more
    bounds = np.linspace(0, len(ideals), 1 + min(jobs, len(ideals))).astype(int)
    parts = [ideals.ideals[a:b] for a, b in itertools.pairwise(bounds)]
    if len(parts) == 1:
        return tuple(_means(ideals.ideals, Z, codes, len(ideals)))
    found = Parallel()(delayed(_means)(part, Z, codes, len(ideals)) for part in parts)
    return tuple(itertools.chain.from_iterable(found))


def _means(
    ideals: Sequence[VanishingIdeal], Z: Tensor, codes: Tensor, classes: int
) -> list[Tensor]:
    counts = torch.bincount(codes, minlength=classes)
    by_class = Z[codes.argsort(stable=True)].split(counts.tolist())
    out = []
    for ideal in ideals:
        generators = ideal.generators_
        # A block of values that the cache of a CPU holds is added up several times as fast.
        limit = MAX_CPU_VALUES if Z.is_cpu else MAX_GPU_VALUES
        width = max(64, limit // max(1, len(generators)))
        total = Z.new_zeros(classes, len(generators))
        for row, points in zip(total, by_class, strict=True):
            for part in points.split(width):
                row += generators.evaluate(part).abs().sum(0)
        out.append(total / counts.clamp_min(1).to(Z)[:, None])  # absent classes: means of 0
    return out


def score(ideals: ClassIdeals, Z: Tensor, y: Tensor, kind: str = "separation") -> PruningScores:
    """Score every generator on the points ``Z`` (m, n) with labels ``y`` (m,).

    The points are best not those of the fit. ``kind="separation"`` is the smallest mean absolute
    value on another class, ``"normalized"`` that, divided by the one on the generator's own class.
    """
    one_of("score", "kind", kind, SCORES)
    means = [m.double().cpu().numpy() for m in mean_absolute_values(ideals, Z, y)]
    values = []
    for k, table in enumerate(means):
        others = np.delete(table, k, axis=0)
        # a single class has no others: its generators are ranked by their own values
        best = others.min(axis=0) if len(others) else table[k]
        values.append(best / np.maximum(table[k], MIN_OWN_VALUE) if kind == "normalized" else best)
    return PruningScores(kind, tuple(values), tuple(means))


def prune(ideals: ClassIdeals, scores: PruningScores, keep: float | int) -> PrunedIdeals:
    """Keep the generators of the highest scores, from :func:`score`, in every class.

    ``keep`` is a share in (0, 1] of each class's generators, or a number per class.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from vinets import ABM, fit_class_ideals
    >>> x = torch.linspace(-1, 1, 20, dtype=torch.float64)
    >>> Z, y = torch.cat([torch.stack([x, x], 1), torch.stack([x, -x], 1)]), torch.arange(40) // 20
    >>> ideals = fit_class_ideals(Z, y, ABM(psi=1e-6, max_degree=2))
    >>> kept = prune(ideals, score(ideals, Z, y), keep=1)
    >>> [str(p) for p in kept.polynomials]
    ['0.707*x1 - 0.707*x0', '0.707*x1 + 0.707*x0']
    """
    share = isinstance(keep, float)
    # 1 is one generator a class, 1.0 all of them; True is neither
    if isinstance(keep, bool) or not (0 < keep <= 1 if share else keep >= 1):
        accepted = "a share in (0, 1] or a positive number of generators per class"
        raise parameter_error("prune", "keep", accepted, keep)
    polynomials, kept_scores = [], []
    for ideal, values in zip(ideals.ideals, scores.values, strict=True):
        # less a little, because 0.07 * 100 is 7.000000000000001
        part = int(np.ceil(keep * len(values) - 1e-9))
        count = part if share else min(int(keep), len(values))
        # stable: of equal scores the generator of lower degree stays
        best = np.sort(np.argsort(-values, kind="stable")[:count])
        polynomials.append(as_polynomials(ideal.generators_).select(best))
        kept_scores.append(values[best])
    return PrunedIdeals(ideals.classes, tuple(polynomials), tuple(kept_scores), ideals.n_generators)


def as_polynomials(generators: Polynomials) -> PolynomialSet:
    """Return generators over monomials, whatever the algorithm that found them."""
    return generators.expanded
