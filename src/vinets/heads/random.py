"""Baselines of VI-Nets: the same heads with coefficients, and mostly monomials, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from vinets.algebra.common_terms import term_moments
from vinets.algebra.terms import TermSet
from vinets.core.options import option, whole
from vinets.heads.base import build_like
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.local import LocalOptions, LocalPolynomials
from vinets.heads.polynomial_head import PolynomialHead
from vinets.heads.polynomial_layer import MonomialLayer, PolynomialLayer
from vinets.heads.vanishing import BaselineOptions, GlobalPolynomials
from vinets.latent.collect import Latents

MAX_POINTS = 20_000  # points that standardise monomials


@dataclass(frozen=True)
class RandomOptions(BaselineOptions):
    """Options of random monomials next to a vanishing head."""

    degree: int = option(5, whole(), "Largest degree of a random monomial.")


@dataclass(frozen=True)
class LocalBaselineOptions(BaselineOptions):
    """Options of baselines that stand next to a local head: those of that head."""

    like: LocalOptions = LocalOptions()  # type: ignore[assignment]


@dataclass(frozen=True)
class LocalRandomOptions(LocalBaselineOptions, RandomOptions):
    """Options of random monomials next to a local head."""


class _Drawn(PolynomialHead):
    """Base of heads with as many monomials and polynomials as the generators have, but drawn."""

    same_degrees: ClassVar[bool] = False
    same_terms: ClassVar[bool] = False
    activation: ClassVar[str] = "abs"

    @classmethod
    def make(cls, latents: Latents, options: Any, seed: int) -> Self:
        head = build_like(latents, options.like, seed)
        assert isinstance(head, PolynomialHead)  # its options are those of a head of generators
        own, terms, moments = head.polynomials, head.polynomials.monomials.terms, None
        if not cls.same_terms:
            degree = None if cls.same_degrees else options.degree
            terms = random_terms(terms, max_degree=degree, seed=seed)
            moments = term_moments(terms, points_of(head, latents, seed))
        layer: MonomialLayer
        if isinstance(own, PolynomialLayer):
            form: Any = {"normalized": own.norm is not None, "activation": cls.activation}
            layer = PolynomialLayer(terms, len(own.bias), **form)
        else:  # the same blocks, of other monomials
            assert isinstance(own, BlockPolynomialLayer)
            columns = [own.get_buffer(f"columns_{k}").cpu() for k in range(len(own.sizes))]
            layer = BlockPolynomialLayer(terms, columns, own.leading.cpu(), own.counts)
        layer.draw(torch.Generator().manual_seed(seed))
        layer.set_moments(*(m.cpu() for m in moments or own.moments()))
        return cls.like(head, layer)


class RandomMonomials(_Drawn, GlobalPolynomials):
    """Monomials of random degrees, with random coefficients, in the same variables."""

    kind, label = "random", "random monomials"
    Options = RandomOptions


class SameDegrees(_Drawn, GlobalPolynomials):
    """As many random monomials of each degree as the vanishing head has."""

    kind, label = "same-degrees", "random, same degrees"
    Options = RandomOptions
    same_degrees = True


class LocalRandomMonomials(_Drawn, LocalPolynomials):
    """:class:`RandomMonomials` at every position."""

    kind, label = "local-random", "random monomials"
    Options = LocalRandomOptions


class LocalSameDegrees(_Drawn, LocalPolynomials):
    """:class:`SameDegrees` at every position."""

    kind, label = "local-same-degrees", "random, same degrees"
    Options = LocalRandomOptions
    same_degrees = True


class LocalReLUHead(_Drawn, LocalPolynomials):
    """A control: the same shape and monomials, random coefficients, ReLU for absolute values."""

    kind, label = "local-relu", "local ReLU"
    Options = LocalBaselineOptions
    same_terms = True
    activation = "relu"


def random_terms(like: TermSet, *, max_degree: int | None = 5, seed: int = 0) -> TermSet:
    """Draw as many distinct terms as ``like`` has, without the constant.

    Degrees are drawn uniformly up to ``max_degree``; None takes the degrees of ``like``.
    """
    rng = np.random.default_rng(seed)
    counts = [len(block) for block in like.blocks]
    if max_degree is not None:
        counts = [0, *np.bincount(rng.integers(max_degree, size=len(like)), minlength=max_degree)]
    blocks = [np.zeros((0, 0), dtype=np.int64)]
    spare = 0  # terms that a low degree has no room for move up
    for degree in range(1, len(counts)):
        count = int(counts[degree]) + spare
        if comb(like.n_variables + degree - 1, degree) < 4 * count:  # draws would miss rare ones
            every = combinations_with_replacement(range(like.n_variables), degree)
            terms = np.array(list(every), dtype=np.int64)
        else:
            terms = np.zeros((0, degree), dtype=np.int64)
            while len(terms) < count:
                draw = rng.integers(like.n_variables, size=(2 * count + 8, degree))
                terms = np.unique(np.concatenate([terms, np.sort(draw, axis=1)]), axis=0)
        keep = np.sort(rng.permutation(len(terms))[:count])
        spare = count - len(keep)
        blocks.append(terms[keep])
    return TermSet.of_blocks(like.n_variables, blocks)


@torch.no_grad()
def points_of(head: PolynomialHead, latents: Latents, seed: int) -> Tensor:
    """Return some of the points (m, n) that the polynomials of a head are evaluated at."""
    device = head.linear.weight.device
    parts = [head.variables(z.to(device)).flatten(0, -2) for z, _ in latents.store.chunks(256)]
    every = torch.cat(parts)
    # The order is drawn on the CPU, so that every device gets the same points.
    order = torch.randperm(len(every), generator=torch.Generator().manual_seed(seed))
    return every[order[:MAX_POINTS]]
