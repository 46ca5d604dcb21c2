r"""Products of linear forms at every position: polynomials in factored form.

.. math:: p_j(h) = \prod_{i=1}^{d} (a_{ij}^\top h + b_{ij})

A generator of degree 2 with one positive and one negative eigenvalue is such a product. Training
moves the factors; :meth:`ProductsHead.to_polynomials` expands them into ordinary monomials.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from vinets.algebra.shared import SharedPolynomials, nearest_products
from vinets.algebra.terms import TermSet
from vinets.core.checks import parameter_error
from vinets.core.options import choice, count, option, optional, real, whole
from vinets.heads.base import HeadOptions, plain_facts
from vinets.heads.local import descriptors
from vinets.heads.polynomial_layer import batch_moments, own_share
from vinets.heads.units import NormalizedForms, UnitsHead, fitting, rank_of
from vinets.heads.vanishing import SizeOptions, Variables, project, score_generators
from vinets.ideals.abm import ABM
from vinets.ideals.pruning import prune
from vinets.latent.collect import Latents
from vinets.latent.rescale import Rescale

MAX_PRODUCTS = 512  # products of a head whose size is not given
MAX_TERMS = 200_000  # monomials that products are expanded into


@dataclass(frozen=True)
class ProductsOptions(HeadOptions):
    """Options of :class:`ProductsHead`."""

    kind: ClassVar[str] = "products"
    parameters: int | None = option(
        None,
        optional(whole()),
        "Parameters that the head may store, at most.",
        shown="those of 512 products",
    )
    factors: int = option(2, whole(1, 5), "Linear forms in a product, 1 to 5.")
    spatial_rank: int | None = option(
        16, count(), "Patterns of weights over the positions that sums share."
    )
    offset: float = option(
        0.0, real(0), "Where factors but the first start: 0 for pure products, 1 for a line."
    )
    start: str = option(
        "random",
        choice("random", "ideal"),
        "Where products start: at random, or at generators of the classes (2 factors).",
    )
    psi: float = option(0.1, real(0, 1), "Largest mean square of such a generator, in [0, 1).")
    components: int = option(32, whole(), "Components of the channels that these are found in.")

    def check(self, owner: str) -> None:
        super().check(owner)
        if self.start == "ideal" and self.factors != 2:
            raise parameter_error(owner, "factors", "2 with start='ideal'", self.factors)


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

    kind, label = "products", "product head"
    Options = ProductsOptions
    rivals = ("linear", "pooled", "mlp", "relu-units", "simkd")
    # The backbone is tuned with the head, and the uncut network teaches both.
    training_defaults: ClassVar[Mapping[str, Any]] = {
        "epochs": 24,
        "learning_rate": 0.1,
        "weight_decay": 1e-3,
        "nesterov": True,
        "schedule": "one-cycle",
        "precision": "auto",
        "validation": 0.0,
        "distill": 0.7,
        "trained": "backbone",
    }
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
    def make(cls, latents: Latents, options: ProductsOptions, seed: int) -> Self:
        begin = time.perf_counter()
        shape, classes = latents.shape, latents.n_classes
        rank = rank_of(shape, options.spatial_rank)
        count = MAX_PRODUCTS
        if options.parameters is not None:
            count = fitting(shape, classes, rank, options.factors, options.parameters)
        head = cls(
            *shape,
            classes,
            count=count,
            rank=rank,
            factors=options.factors,
            offset=options.offset,
        )
        more: dict[str, Any] = {}
        if options.start == "ideal":
            start = factored_generators(latents, options, seed)
            if start.bias.shape[1] > head.count:
                start = start.first(head.count)
            head.start_from(start.weight, start.gain, start.bias, start.owners)
            more = {
                "explained_variance": start.explained,
                "generators_found": start.found,
                "generators_kept": start.bias.shape[1],
            }
        terms = [math.comb(shape[0] + d - 1, d) for d in range(1, head.factors + 1)]
        head.facts = plain_facts(
            head,
            latents,
            begin,
            monomials_found=sum(terms),
            monomials_kept=sum(terms),
            coefficients_found=head.count * sum(terms),
            coefficients_kept=head.folded().parts()["coefficients"],
            degrees=dict(enumerate(terms, 1)),
            **more,
        )
        return head

    @classmethod
    def latent_defaults(cls, options: Any) -> dict[str, Any]:
        # Tokens are positions, of which a mean would leave one. A few latents tell their shape;
        # generators need more of them.
        few = {} if getattr(options, "start", "") == "ideal" else {"per_class": 8}
        return {"reuse": True, "read": "map", **few}

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
        if size > MAX_TERMS:
            raise ValueError(
                f"{self.factors} factors in {channels} channels expand to {size:,} monomials, more "
                f"than {MAX_TERMS:,}. Evaluate the head as it is, in factored form."
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


@dataclass(frozen=True)
class UnitsOptions(SizeOptions):
    """Options of :class:`ReLUUnits`."""

    spatial_rank: int | None = option(
        16, count(), "Patterns of weights over the positions that sums share."
    )
    like: HeadOptions = ProductsOptions()


class ReLUUnits(UnitsHead):
    """The control of products: as many parameters, a ReLU for every form."""

    kind, label = "relu-units", "local ReLU units"
    Options = UnitsOptions
    training_defaults = ProductsHead.training_defaults
    rectified = True

    def units(self, forms: Tensor) -> Tensor:
        return forms.relu()

    def units_of_rows(self, forms: Tensor) -> Tensor:
        return forms.relu_()

    @classmethod
    def make(cls, latents: Latents, options: UnitsOptions, seed: int) -> Self:
        shape, classes = latents.shape, latents.n_classes
        rank = rank_of(shape, options.spatial_rank)
        count = fitting(shape, classes, rank, 1, options.size(latents, seed))
        return cls(*shape, classes, count=count, rank=rank)

    @classmethod
    def latent_defaults(cls, options: Any) -> dict[str, Any]:
        return ProductsHead.latent_defaults(options.like)


# --- expansion into monomials -----------------------------------------------------------------


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


# --- generators to start from -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FactoredGenerators:
    """Factors of generators, in standardised channels; each form has mean square one.

    The form is ``gain * weight @ h + bias`` with a weight of variance one.
    """

    weight: Tensor  # (2, n, C)
    gain: Tensor  # (2, n)
    bias: Tensor  # (2, n)
    owners: Tensor  # (n,), the class that each vanishes on
    found: int  # generators before pruning
    explained: float  # share of the variance that the components keep

    def first(self, count: int) -> FactoredGenerators:
        """Fewer of them, spread over the classes."""
        # every class in turn, best first, as they are sorted
        rank = torch.zeros_like(self.owners)
        for owner in self.owners.unique():
            mine = self.owners == owner
            rank[mine] = torch.arange(int(mine.sum()))
        chosen = rank.argsort(stable=True)[:count]
        return replace(
            self,
            weight=self.weight[:, chosen],
            gain=self.gain[:, chosen],
            bias=self.bias[:, chosen],
            owners=self.owners[chosen],
        )


@torch.no_grad()
def factored_generators(
    latents: Latents, options: ProductsOptions, seed: int
) -> FactoredGenerators:
    """Generators of degree 2 of every class, the best as products of two forms.

    They are found in principal components of the channels at one position of every example.
    """
    rescale = Rescale.fit(latents.store, "channel", squash=False)
    h = descriptors(latents, rescale, seed)  # (m, C)
    n = min(options.components, h.shape[1])
    projection, explained = project(lambda: [h], n, "auto", "unit", seed)
    labels = latents.store.labels.to(h.device)
    variables = Variables(rescale, projection, projection(h), labels, explained, 0.0)
    ideal = ABM(options.psi, max_degree=2)
    found = score_generators(variables, latents.fit, latents.check, ideal)
    kept = prune(found.ideals, found.scores, max(1, MAX_PRODUCTS // latents.n_classes))
    shared = SharedPolynomials.of(kept.polynomials)
    order = _best_first(shared.owners, torch.cat([torch.from_numpy(s) for s in kept.scores]))
    forms = nearest_products(shared)[:, order.to(shared.coefficients.device)]
    # from components to channels, and to mean square one: what a factor lacks, another has
    forms = forms.to(h.device)
    weight, bias = projection.weight.double(), projection.bias.double()
    inside = forms[..., 1:] @ weight  # (2, n, C)
    offset = forms[..., 0] + forms[..., 1:] @ bias
    _, covariance = batch_moments(h.double())
    size = ((inside @ covariance) * inside).sum(-1).clamp_min(0).sqrt()
    whole = (size.square() + offset.square()).sqrt().clamp_min(1e-30)
    return FactoredGenerators(
        (inside / size.clamp_min(1e-30)[..., None]).float().cpu(),
        (size / whole).float().cpu(),
        (offset / whole).float().cpu(),
        shared.owners[order],
        found.ideals.n_generators,
        explained,
    )


def _best_first(owners: Tensor, scores: Tensor) -> Tensor:
    """Positions by decreasing score, class by class."""
    by_score = scores.argsort(descending=True, stable=True)
    return by_score[owners[by_score].argsort(stable=True)]
