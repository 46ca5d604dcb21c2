"""From points of all classes to the polynomials of a layer: fit, score, prune, share."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.algebra.shared import SharedPolynomials, count_monomials, term_moments
from vinets.core.progress import Progress
from vinets.core.settings import Pruning
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.ideals.base import NoGeneratorsWarning, VanishingIdeal
from vinets.ideals.classwise import ClassIdeals, fit_class_ideals
from vinets.ideals.pruning import PrunedIdeals, PruningScores, as_polynomials, prune, score
from vinets.measure.speed import Clock
from vinets.runs.variables import Variables

MOST = 150_000  # polynomials of a head; what is beyond it is pruned


@dataclass(frozen=True, eq=False)
class ClassGenerators:
    """Generators of every class before pruning, with their scores."""

    ideals: ClassIdeals
    scores: PruningScores  # on points that the ideals were not fitted to
    monomials: int  # that evaluation of all generators needs, without the constant
    seconds: float  # wall-clock time of the fits alone


@dataclass(frozen=True, eq=False)
class PrunedLayer:
    """A polynomial layer and what it was made of; ``capped`` if there was no room for more."""

    layer: PolynomialLayer | BlockPolynomialLayer
    pruned: PrunedIdeals
    owners: Tensor
    capped: bool


def find_generators(
    variables: Variables,
    fit: Tensor,
    check: Tensor,
    ideal: VanishingIdeal,
    kind: str = "separation",
    progress: Progress | None = None,
) -> ClassGenerators:
    """Fit one ideal per class, and score its generators on other points.

    The masks ``fit`` and ``check`` (m,) tell which points are for the one and for the other;
    ``kind`` is the score, see :class:`vinets.core.settings.Pruning`; ``progress`` hears of
    the fits.
    """
    points, labels = variables.points, variables.labels
    fit, check = fit.to(points.device), check.to(points.device)
    ideals, seconds = timed_ideals(points[fit], labels[fit], ideal, progress)
    if ideals.n_generators == 0:
        raise ValueError(
            f"{type(ideal).__name__} found no generators for any class: raise psi or max_degree."
        )
    scores = score(ideals, points[check], labels[check], kind)
    monomials = count_monomials([as_polynomials(i.generators_) for i in ideals.ideals])
    return ClassGenerators(ideals, scores, monomials, seconds)


def timed_ideals(
    points: Tensor, labels: Tensor, ideal: VanishingIdeal, progress: Progress | None = None
) -> tuple[ClassIdeals, float]:
    """One ideal per class, and the seconds that the fits took until the device was done."""
    clock = Clock(points.device)
    clock.wait()  # what the device was doing before is not the time of the fits
    begin = clock.mark()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoGeneratorsWarning)  # the caller tells
        # Points on a CPU stay there, because the caller has chosen it.
        device = "auto" if points.is_cuda else None
        ideals = fit_class_ideals(points, labels, ideal, device=device, progress=progress)
    end = clock.mark()
    clock.wait()
    return ideals, clock.between(begin, end)


def make_layer(
    generators: ClassGenerators, points: Tensor, pruning: Pruning, *, local: bool = False
) -> PrunedLayer:
    """A layer of the generators that stay; ``points`` (m, n) standardise its monomials.

    In a local head the layer is batch-normalised. In a global one coefficients are kept class by
    class where all monomials stay and that takes fewer parameters.
    """
    wanted, most = pruning.counts(local, len(generators.ideals.ideals))
    keep = 1.0 if wanted is None else wanted
    capped = isinstance(keep, float) and keep * generators.ideals.n_generators > MOST
    if capped:  # the best of every class, as many as there is room for
        keep = MOST // len(generators.ideals.ideals)
    pruned = prune(generators.ideals, generators.scores, keep)
    if not local and most is None and _blocks_are_smaller(pruned):
        block = BlockPolynomialLayer.from_polynomials(pruned.polynomials, points)
        owners = torch.repeat_interleave(torch.tensor(block.counts))
        return PrunedLayer(block, pruned, owners, capped)
    shared = SharedPolynomials.of(pruned.polynomials)
    if most is not None and most < len(shared.terms):
        # coefficients weigh by how much their monomials vary
        _, spread = term_moments(shared.terms, points)
        shared = shared.restrict(most, spread)
    layer = PolynomialLayer.from_polynomials(
        shared,
        term_moments(shared.terms, points),
        classes=len(generators.ideals.ideals),
        sparse=pruning.sparse,
        normalized=local,
    )
    return PrunedLayer(layer, pruned, shared.owners, capped)


def _blocks_are_smaller(pruned: PrunedIdeals) -> bool:
    sets = [p.compact() for p in pruned.polynomials]
    if min(map(len, sets)) == 0:  # a block for every class, or none
        return False
    own = sum(len(p) * (len(p.terms) + 1) for p in sets)
    return own < len(pruned) * count_monomials(sets)
