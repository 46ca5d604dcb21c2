"""The paper's baseline: the same head with monomials and coefficients drawn at random."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import numpy as np
import torch
from torch import Tensor

from vinets.algebra.shared import term_moments
from vinets.algebra.terms import TermSet
from vinets.nn.blocks import BlockPolynomialLayer
from vinets.nn.heads.local import LocalHead
from vinets.nn.heads.vanishing import VanishingHead
from vinets.nn.polynomial import PolynomialLayer

__all__ = ["LocalRandomMonomials", "RandomMonomials", "random_like", "random_terms"]


class RandomMonomials(VanishingHead):
    """A vanishing head whose monomials and coefficients are random; see :func:`random_like`."""

    kind = "random-monomials"


class LocalRandomMonomials(LocalHead):
    """A local head whose monomials and coefficients are random; see :func:`random_like`."""

    kind = "local-random-monomials"


def random_like(
    head: VanishingHead | LocalHead,
    points: Tensor,
    *,
    max_degree: int | None = 5,
    seed: int = 0,
) -> RandomMonomials | LocalRandomMonomials:
    """The random baseline of ``head``: as many monomials and polynomials, everything else alike.

    Parameters
    ----------
    head : VanishingHead or LocalHead
        What is to be compared with.
    points : Tensor of shape (m, n)
        Variables of its polynomials on training data, to standardise the random monomials.
    max_degree : int or None, default=5
        Degrees are drawn uniformly up to this. None draws as many monomials of each degree as
        ``head`` has: what its algorithm found out about degrees is then given away.
    seed : int, default=0
        Seed of the draws.
    """
    own = head.polynomials
    terms = random_terms(own.monomials.terms, max_degree=max_degree, seed=seed)
    layer: PolynomialLayer | BlockPolynomialLayer
    if isinstance(own, BlockPolynomialLayer):  # the same blocks, of other monomials
        columns = [own.get_buffer(f"columns_{k}").cpu() for k in range(len(own.sizes))]
        layer = BlockPolynomialLayer(terms, columns, own.leading.cpu(), own.counts)
    else:
        layer = PolynomialLayer(terms, len(own.bias), normalized=own.norm is not None)
    layer.draw(torch.Generator().manual_seed(seed))
    mean, std = term_moments(terms, points)
    layer.set_moments(mean.cpu(), std.cpu())
    if isinstance(head, LocalHead):
        assert isinstance(layer, PolynomialLayer)
        return LocalRandomMonomials.like(head, layer)
    return RandomMonomials.like(head, layer)


def random_terms(like: TermSet, *, max_degree: int | None = 5, seed: int = 0) -> TermSet:
    """As many distinct random terms as ``like`` has, without the constant."""
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
                list(combinations_with_replacement(range(like.n_variables), degree)),
                dtype=np.int64,
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
