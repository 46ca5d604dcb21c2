"""The paper's baseline: the same head with monomials and coefficients drawn at random."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb
from typing import ClassVar, Self

import numpy as np
import torch

from vinets.algebra.shared import term_moments
from vinets.algebra.terms import TermSet
from vinets.heads.base import Reference
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.local import LocalPolynomials
from vinets.heads.polynomial import PolynomialHead
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.heads.vanishing import GlobalPolynomials


class _Drawn(PolynomialHead):
    """As many monomials and polynomials as the generators have, drawn; everything else alike."""

    same_degrees: ClassVar[bool] = False

    @classmethod
    def beside(cls, reference: Reference) -> Self | None:
        head, seed = reference.head, reference.seed
        if not isinstance(head, PolynomialHead) or head.local != cls.local:
            return None
        own, degree = head.polynomials, None if cls.same_degrees else reference.max_degree
        terms = random_terms(own.monomials.terms, max_degree=degree, seed=seed)
        layer: PolynomialLayer | BlockPolynomialLayer
        if isinstance(own, BlockPolynomialLayer):  # the same blocks, of other monomials
            columns = [own.get_buffer(f"columns_{k}").cpu() for k in range(len(own.sizes))]
            layer = BlockPolynomialLayer(terms, columns, own.leading.cpu(), own.counts)
        else:
            layer = PolynomialLayer(terms, len(own.bias), normalized=own.norm is not None)
        layer.draw(torch.Generator().manual_seed(seed))
        mean, std = term_moments(terms, reference.points)
        layer.set_moments(mean.cpu(), std.cpu())
        return cls.like(head, layer)


class RandomMonomials(_Drawn, GlobalPolynomials):
    """Monomials of random degrees, with random coefficients, in the same variables."""

    kind, label, rank = "random", "random monomials", 40
    stands_beside = ("global",)


class SameDegrees(_Drawn, GlobalPolynomials):
    """As many random monomials of each degree as the vanishing head has.

    What its algorithm found out about degrees is given away to this baseline.
    """

    kind, label, rank = "same-degrees", "random, same degrees", 50
    stands_beside = ("global",)
    same_degrees = True


class LocalRandomMonomials(_Drawn, LocalPolynomials):
    """:class:`RandomMonomials` at every position."""

    kind, label, rank = "local-random", "random monomials", 40
    stands_beside = ("local",)


class LocalSameDegrees(_Drawn, LocalPolynomials):
    """:class:`SameDegrees` at every position."""

    kind, label, rank = "local-same-degrees", "random, same degrees", 50
    stands_beside = ("local",)
    same_degrees = True


def random_terms(like: TermSet, *, max_degree: int | None = 5, seed: int = 0) -> TermSet:
    """As many distinct random terms as ``like`` has, without the constant.

    Degrees are drawn uniformly up to ``max_degree``; None takes the degrees of ``like``.
    """
    rng = np.random.default_rng(seed)
    if max_degree is None:
        wanted = [len(block) for block in like.blocks]
    else:
        wanted = [0, *np.bincount(rng.integers(max_degree, size=len(like)), minlength=max_degree)]
    blocks = [np.zeros((0, 0), dtype=np.int64)]
    spare = 0  # what a low degree cannot hold moves up
    for degree in range(1, len(wanted)):
        count = int(wanted[degree]) + spare
        if comb(like.n_variables + degree - 1, degree) < 4 * count:  # draws would miss rare ones
            found = np.array(
                list(combinations_with_replacement(range(like.n_variables), degree)), dtype=np.int64
            )
        else:
            found = np.zeros((0, degree), dtype=np.int64)
            while len(found) < count:
                draw = rng.integers(like.n_variables, size=(2 * count + 8, degree))
                found = np.unique(np.concatenate([found, np.sort(draw, axis=1)]), axis=0)
        keep = np.sort(rng.permutation(len(found))[:count])
        spare = count - len(keep)
        blocks.append(found[keep])
    return TermSet.of_blocks(like.n_variables, blocks)
