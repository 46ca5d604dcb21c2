"""From points of all classes to the polynomials of a layer: fit, score, prune, share."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from vinets.algebra.shared import SharedPolynomials, count_monomials, term_moments
from vinets.ideals.base import NoGeneratorsWarning, ScaleWarning, VanishingIdeal
from vinets.ideals.classwise import ClassIdeals, fit_class_ideals
from vinets.ideals.pruning import PrunedIdeals, PruningScores, as_polynomials, prune, score
from vinets.measure.timing import Clock
from vinets.nn.blocks import BlockPolynomialLayer
from vinets.nn.polynomial import PolynomialLayer

__all__ = [
    "Found",
    "Generators",
    "Labelled",
    "Pruning",
    "class_means",
    "find_generators",
    "find_polynomials",
    "make_layer",
    "timed_ideals",
]


@dataclass(frozen=True)
class Pruning:
    """Which polynomials and monomials stay.

    Parameters
    ----------
    keep : int, float or None
        Generators per class, a share of them, or all.
    monomials : int or None
        The most monomials over all classes.
    score : {"separation", "normalized"}
        How generators are ranked.
    sparse : bool
        Zero coefficients stay zero in training.
    """

    keep: int | float | None = 128
    monomials: int | None = 512
    score: str = "separation"
    sparse: bool = False


@dataclass(frozen=True, eq=False)
class Generators:
    """Generators of every class before pruning, with their scores.

    Parameters
    ----------
    ideals : ClassIdeals
        The fitted ideals.
    scores : PruningScores
        On points that the ideals were not fitted to.
    monomials : int
        Monomials that evaluation of all generators needs, without the constant.
    seconds : float
        Wall-clock time of the fits alone.
    """

    ideals: ClassIdeals
    scores: PruningScores
    monomials: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Found:
    """A polynomial layer and what it was made of."""

    layer: PolynomialLayer | BlockPolynomialLayer
    scores: PruningScores
    pruned: PrunedIdeals
    monomials_found: int
    owners: Tensor


Labelled: TypeAlias = tuple[Tensor, Tensor]  # points (m, n) and labels (m,)


def find_polynomials(
    fit: Labelled,
    check: Labelled,
    ideal: VanishingIdeal,
    pruning: Pruning,
    *,
    normalized: bool = False,
    blocks: bool = True,
) -> Found:
    """Fit one ideal per class and make a layer of what separates the classes.

    Parameters
    ----------
    fit : pair of Tensor
        Points (m, n) and labels (m,) that the ideals are fitted to.
    check : pair of Tensor
        Other points and labels, on which the generators are scored.
    ideal : ABM, OAVI or VCA
        The algorithm.
    pruning : Pruning
        What stays.
    normalized, blocks
        As for :func:`make_layer`.
    """
    generators = find_generators(fit, check, ideal, pruning.score)
    points = torch.cat([fit[0], check[0]])
    return make_layer(generators, points, pruning, normalized=normalized, blocks=blocks)


def find_generators(
    fit: Labelled, check: Labelled, ideal: VanishingIdeal, kind: str = "separation"
) -> Generators:
    """Fit one ideal per class to ``fit``, and score its generators on ``check``."""
    ideals, seconds = timed_ideals(*fit, ideal)
    if ideals.n_generators == 0:
        raise ValueError(
            f"{type(ideal).__name__} found no generators for any class: raise psi or max_degree."
        )
    scores = score(ideals, check[0], check[1], kind)
    monomials = count_monomials([as_polynomials(i.generators_) for i in ideals.ideals])
    return Generators(ideals, scores, monomials, seconds)


def timed_ideals(
    points: Tensor, labels: Tensor, ideal: VanishingIdeal
) -> tuple[ClassIdeals, float]:
    """One ideal per class, and the seconds that the fits took until the device was done."""
    clock = Clock(points.device)
    clock.wait()
    begin = clock.mark()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScaleWarning)  # unit variance is the scale meant here
        warnings.simplefilter("ignore", NoGeneratorsWarning)  # the caller tells
        ideals = fit_class_ideals(points, labels, ideal)
    end = clock.mark()
    clock.wait()
    return ideals, clock.between(begin, end)


def make_layer(
    generators: Generators,
    points: Tensor,
    pruning: Pruning,
    *,
    normalized: bool = False,
    blocks: bool = True,
) -> Found:
    """A layer of the generators that stay.

    Parameters
    ----------
    generators : Generators
        From :func:`find_generators`.
    points : Tensor of shape (m, n)
        Of all classes, to standardise the monomials.
    pruning : Pruning
        What stays; its ``score`` was chosen before.
    normalized : bool, default=False
        Batch normalisation inside the layer; see :class:`PolynomialLayer`.
    blocks : bool, default=True
        Keep coefficients class by class where all monomials stay and that takes fewer numbers.
    """
    keep = 1.0 if pruning.keep is None else pruning.keep
    pruned = prune(generators.ideals, generators.scores, keep)
    facts = generators.scores, pruned, generators.monomials
    if blocks and pruning.monomials is None and _blocks_are_smaller(pruned):
        block = BlockPolynomialLayer.from_polynomials(pruned.polynomials, points)
        return Found(block, *facts, torch.repeat_interleave(torch.tensor(block.counts)))
    shared = SharedPolynomials.of(pruned.polynomials)
    if pruning.monomials is not None and pruning.monomials < len(shared.terms):
        _, spread = term_moments(shared.terms, points)
        shared = shared.restrict(pruning.monomials, spread)
    layer = PolynomialLayer.from_polynomials(
        shared,
        term_moments(shared.terms, points),
        sparse=pruning.sparse,
        normalized=normalized,
    )
    return Found(layer, *facts, shared.owners)


def _blocks_are_smaller(pruned: PrunedIdeals) -> bool:
    sets = [p.compact() for p in pruned.polynomials]
    if min(map(len, sets)) == 0:
        return False
    own = sum(len(p) * (len(p.terms) + 1) for p in sets)
    return own < len(pruned) * count_monomials(sets)


@torch.no_grad()
def class_means(layer: torch.nn.Module, points: Tensor, labels: Tensor) -> np.ndarray:
    """Mean output of a layer on the points of every class: (K, N)."""
    layer.eval()
    groups = [points[labels == k].float() for k in labels.unique().tolist()]
    return np.stack([layer(group).mean(0).cpu().double().numpy() for group in groups])
