r"""Products of linear forms at every position: polynomials in factored form.

.. math:: p_j(h) = \prod_{i=1}^{d} (a_{ij}^\top h + b_{ij})

A generator of degree 2 with one positive and one negative eigenvalue is such a product. Training
moves the factors; :meth:`ProductsHead.to_polynomials` expands them into ordinary monomials.
"""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from vinets.algebra.shared import SharedPolynomials
from vinets.algebra.terms import TermSet
from vinets.core.checks import parameter_error
from vinets.core.settings import Shaping
from vinets.heads.polynomial_layer import own_share
from vinets.heads.units import NormalizedForms, UnitsHead, fitting, rank_of

COUNT = 512  # products, where nothing is said
MOST_TERMS = 200_000


class ProductsHead(UnitsHead):
    """Products of ``factors`` forms at every position, summed with spatial weights.

    Parameters
    ----------
    channels, positions, classes, count, rank
        See :class:`vinets.heads.units.UnitsHead`.
    factors : int, default=2
        Forms in a product, 1 to 5: the degree of the polynomials.
    offset : float, default=0.0
        What the factors but the first start from: 0 for products of centred forms, 1 to start near
        the first form alone.
    """

    kind, label, rank = "products", "product head", 0
    placement = "products"
    rectified = False

    def __init__(
        self,
        channels: int,
        positions: int,
        classes: int,
        *,
        count: int,
        rank: int,
        factors: int = 2,
        offset: float = 0.0,
        normalized: bool = True,
    ) -> None:
        if not 1 <= factors <= 5:
            raise parameter_error("ProductsHead", "factors", "an integer from 1 to 5", factors)
        super().__init__(
            channels,
            positions,
            classes,
            count=count,
            rank=rank,
            factors=factors,
            normalized=normalized,
        )
        # The class that each product is to vanish on; not stored, for only training asks for it.
        self.owners: Tensor
        self.register_buffer("owners", torch.arange(count) % classes, persistent=False)
        self.watched = False  # whether training wants to know how large products are
        self._sizes: list[Tensor] = []  # of the parts that a batch is run in
        if isinstance(self.forms, NormalizedForms) and offset:
            with torch.no_grad():
                self.forms.bias[count:] = offset
                self.forms.gain[count:] = 1 / (1 + offset)

    @classmethod
    def made_for(cls, shape: tuple[int, int], classes: int, shaping: Shaping) -> Self:
        """A head for latents of that shape: of the size asked for, or of :data:`COUNT` products."""
        rank, factors = rank_of(shape, shaping), shaping.factors
        budget = shaping.head_parameters
        count = COUNT if budget is None else fitting(shape, classes, rank, factors, budget)
        options: dict[str, Any] = {"factors": factors, "offset": shaping.offset}
        return cls(*shape, classes, count=count, rank=rank, **options)

    @torch.no_grad()
    def start_from(self, weight: Tensor, gain: Tensor, bias: Tensor, owners: Tensor) -> None:
        """Let the first products be those of given forms, the others as they are.

        Forms are ``gain * weight @ h + bias`` in standardised channels: ``weight`` (d, n, C) of
        variance one, ``gain`` and ``bias`` (d, n). ``owners`` (n,) are the classes that the
        products vanish on.
        """
        assert isinstance(self.forms, NormalizedForms)  # of a head that is to be trained
        shape, count = (self.factors, self.count), weight.shape[1]
        # A factor that is constant has no direction, so the random one stays, with a gain of zero.
        varies = (gain > 1e-4)[..., None]
        rows = self.forms.weight.unflatten(0, shape)[:, :count]  # views: these change the layer
        rows.copy_(torch.where(varies, weight.to(rows), rows))
        self.forms.gain.unflatten(0, shape)[:, :count].copy_(gain)
        self.forms.bias.unflatten(0, shape)[:, :count].copy_(bias)
        self.owners[:count] = owners

    def units(self, forms: Tensor) -> Tensor:
        first, *others = forms.split(self.count, -1)
        for other in others:
            first = first * other
        if self.watched and self.training:
            self._sizes.append(first.abs().mean(1))  # for the loss, which follows the forward pass
        return first

    def units_of_rows(self, forms: Tensor) -> Tensor:
        first, *others = forms.split(self.count, 1)
        for other in others:
            first = first.mul_(other)
        return first

    def forward(self, latents: Tensor) -> Tensor:
        if self.watched:  # an export is refused where a forward pass changes the module
            self._sizes = []
        return super().forward(latents)

    @property
    def sizes(self) -> Tensor | None:
        """Mean size of every product on every example of the last batch (B, N), where watched."""
        return torch.cat(self._sizes) if self._sizes else None

    def vanishing_loss(self, labels: Tensor) -> Tensor:
        """Mean size of products on their class, as a share of that on the others in the batch."""
        seen, self._sizes = self.sizes, []
        assert seen is not None
        return own_share(seen.float(), labels, self.owners)

    @property
    def lipschitz(self) -> float:
        return 1.0 if self.factors == 1 else math.inf  # a product of unbounded forms has no bound

    def config(self) -> dict[str, Any]:
        return super().config() | {"factors": self.factors}

    def to_polynomials(self) -> SharedPolynomials:
        """The products, expanded into monomials of the channels at a position."""
        plain = self.folded().double().cpu()
        assert isinstance(plain.forms, nn.Linear)
        channels = self.shape[0]
        size = math.comb(channels + self.factors, self.factors)
        if size > MOST_TERMS:
            raise ValueError(
                f"{self.factors} factors in {channels} channels expand to {size:,} monomials, more "
                f"than {MOST_TERMS:,}. Evaluate the head as it is, in factored form."
            )
        weight = plain.forms.weight.detach().unflatten(0, (self.factors, self.count))
        bias = plain.forms.bias.detach().unflatten(0, (self.factors, self.count))
        forms = torch.cat([bias[..., None], weight], -1)  # (d, N, 1 + C), the constant first
        terms: list[tuple[int, ...]] = [()]
        values = torch.ones(self.count, 1, dtype=torch.float64)
        for form in forms:
            terms, values = _times(terms, values, form, channels)
        blocks = _blocks(terms, self.factors)
        owners = torch.zeros(self.count, dtype=torch.int64)
        return SharedPolynomials(
            TermSet(channels, blocks), values[:, 1:].contiguous(), values[:, 0].clone(), owners
        )


def _times(
    terms: list[tuple[int, ...]], values: Tensor, form: Tensor, channels: int
) -> tuple[list[tuple[int, ...]], Tensor]:
    """Polynomials times affine forms (N, 1 + C); terms are sorted positions of variables."""
    degree = len(terms[-1]) + 1
    every = [
        t for d in range(degree + 1) for t in combinations_with_replacement(range(channels), d)
    ]
    place = {term: index for index, term in enumerate(every)}
    made = values.new_zeros(len(values), len(every))
    made[:, : len(terms)] = values * form[:, :1]
    for variable in range(channels):
        index = torch.tensor([place[tuple(sorted((*term, variable)))] for term in terms])
        made.index_add_(1, index, values * form[:, variable + 1, None])
    return every, made


def _blocks(terms: list[tuple[int, ...]], degree: int) -> tuple[np.ndarray, ...]:
    """Terms by degree, as positions of their variables; the constant is kept elsewhere."""
    found = [np.zeros((0, 0), dtype=np.int64)]
    for d in range(1, degree + 1):
        found.append(np.array([term for term in terms if len(term) == d], dtype=np.int64))
    return tuple(found)
