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
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from vinets.algebra.common_terms import SharedPolynomials, nearest_products
from vinets.algebra.polynomial import rows_of, termset
from vinets.core.checks import parameter_error
from vinets.core.options import choice, count, option, real, whole
from vinets.heads.base import HeadOptions, plain_facts, redefined
from vinets.heads.local import descriptors
from vinets.heads.polynomial_layer import SizeWatch, batch_moments
from vinets.heads.units import NormalizedForms, UnitsHead, fitting, rank_of
from vinets.heads.vanishing import SizeOptions, Variables, project, score_generators
from vinets.latent.collect import Latents
from vinets.latent.rescale import Rescale

MAX_PRODUCTS = 512  # products of a head whose size is not given
MAX_TERMS = 200_000  # monomials that products are expanded into


@dataclass(frozen=True)
class ProductsOptions(HeadOptions):
    """Options of :class:`ProductsHead`."""

    kind: ClassVar[str] = "products"
    parameters: int | None = redefined(
        SizeOptions, "parameters", None, shown="those of 512 products"
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start == "ideal" and self.factors != 2:
            owner, accepted = type(self).__name__, "2 with start='ideal'"
            raise parameter_error(owner, "factors", accepted, self.factors)


class ProductsHead(SizeWatch, UnitsHead):
    """Products of ``factors`` forms at every position, summed with spatial weights.

    See :class:`vinets.heads.units.UnitsHead` for the sizes. The factors, 1 to 5, are the degree of
    the polynomials. All but the first start from ``offset``: 0 for products of centred forms, 1 to
    start near the first form alone.
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
        sizes = {"count": count, "rank": rank, "factors": factors}
        super().__init__(channels, positions, classes, normalized=normalized, **sizes)
        self.lipschitz = 1.0 if factors == 1 else math.inf  # unbounded forms have no bound
        # The class that each product is to vanish on; not stored, for only training asks for it.
        self.register_buffer("owners", torch.arange(count) % classes, persistent=False)
        self.seen = []
        if isinstance(self.forms, NormalizedForms) and offset:
            with torch.no_grad():
                self.forms.bias[count:] = offset
                self.forms.gain[count:] = 1 / (1 + offset)

    @classmethod
    def make(cls, latents: Latents, options: ProductsOptions, seed: int) -> Self:
        begin = time.perf_counter()
        shape, classes, factors = latents.shape, latents.n_classes, options.factors
        rank, count = rank_of(shape, options.spatial_rank), MAX_PRODUCTS
        if options.parameters is not None:
            count = fitting(shape, classes, rank, factors, options.parameters)
        form: Any = {"rank": rank, "factors": factors, "offset": options.offset}
        head = cls(*shape, classes, count=count, **form)
        more: dict[str, Any] = {}
        if options.start == "ideal":
            start = factored_generators(latents, options, seed).first(count)
            head.start_from(start.weight, start.gain, start.bias, start.owners)
            more = {"explained_variance": start.explained, "generators_found": start.found}
            more["generators_kept"] = start.bias.shape[1]
        terms = [math.comb(shape[0] + d - 1, d) for d in range(1, factors + 1)]
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
        """Set the first products to those of some forms, and leave the others as they are.

        Forms are ``gain * weight @ h + bias`` in standardised channels: ``weight`` (d, n, C) of
        variance one, ``gain`` and ``bias`` (d, n). ``owners`` (n,) are the classes that the
        products vanish on.
        """
        assert isinstance(self.forms, NormalizedForms)  # the head is not folded
        shape, count = (self.factors, self.count), weight.shape[1]
        # A factor that is constant has no direction, so the random one stays, with a gain of zero.
        varies = (gain > 1e-4)[..., None]
        rows = self.forms.weight.unflatten(0, shape)[:, :count]  # views: these change the layer
        rows.copy_(torch.where(varies, weight.to(rows), rows))
        self.forms.gain.unflatten(0, shape)[:, :count].copy_(gain)
        self.forms.bias.unflatten(0, shape)[:, :count].copy_(bias)
        self.owners[:count] = owners

    def units(self, forms: Tensor, axis: int = -1) -> Tensor:
        first, *others = forms.split(self.count, axis)
        for other in others:
            first = first.mul_(other) if axis == 1 else first * other
        if self.watched and self.training:
            self.seen.append(first.abs().mean(1))  # for the loss, which follows the forward pass
        return first

    def forward(self, latents: Tensor) -> Tensor:
        if self.watched:  # an export is refused where a forward pass changes the module
            self.seen = []
        return super().forward(latents)

    def config(self) -> dict[str, Any]:
        return super().config() | {"factors": self.factors}

    def to_polynomials(self) -> SharedPolynomials:
        """Expand the products into monomials of the channels at a position."""
        plain, channels = self.folded().double().cpu().forms, self.shape[0]
        size = math.comb(channels + self.factors, self.factors)
        if size > MAX_TERMS:
            raise ValueError(
                f"{self.factors} factors in {channels} channels expand to {size:,} monomials, more "
                f"than {MAX_TERMS:,}. Evaluate the head as it is, in factored form."
            )
        table = torch.cat([plain.bias[:, None], plain.weight], 1).detach()  # the constant first
        forms = table.unflatten(0, (self.factors, self.count))  # (d, N, 1 + C)
        # Columns of coefficients (N,) by the sorted variables of their terms.
        columns: dict[tuple[int, ...], Tensor] = {(): torch.ones(self.count, dtype=torch.float64)}
        for form in forms:
            product: dict[tuple[int, ...], Tensor] = {}
            for term, values in columns.items():
                for i in range(channels + 1):
                    key = tuple(sorted((*term, i - 1))) if i else term
                    product[key] = product.get(key, 0) + values * form[:, i]
            columns = product
        constants, terms = columns.pop(()), termset(columns, channels)
        table = torch.stack([columns[tuple(row.tolist())] for row in rows_of(terms)], 1)
        owners = torch.zeros(self.count, dtype=torch.int64)
        return SharedPolynomials(terms, table, constants, owners)


@dataclass(frozen=True)
class UnitsOptions(SizeOptions):
    """Options of :class:`ReLUUnits`."""

    spatial_rank: int | None = redefined(ProductsOptions, "spatial_rank", 16)
    like: HeadOptions = ProductsOptions()


class ReLUUnits(UnitsHead):
    """The control of products: as many parameters, a ReLU for every form."""

    kind, label = "relu-units", "local ReLU units"
    Options = UnitsOptions
    training_defaults = ProductsHead.training_defaults
    rectified = True

    def units(self, forms: Tensor, axis: int = -1) -> Tensor:
        return forms.relu_() if axis == 1 else forms.relu()

    @classmethod
    def make(cls, latents: Latents, options: UnitsOptions, seed: int) -> Self:
        shape, classes = latents.shape, latents.n_classes
        rank = rank_of(shape, options.spatial_rank)
        count = fitting(shape, classes, rank, 1, options.size(latents, seed))
        return cls(*shape, classes, count=count, rank=rank)

    @classmethod
    def latent_defaults(cls, options: Any) -> dict[str, Any]:
        return ProductsHead.latent_defaults(options.like)


# --- generators to start from -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FactoredGenerators:
    """Factors of generators, forms of mean square one, as :meth:`ProductsHead.start_from` has."""

    weight: Tensor  # (2, n, C)
    gain: Tensor  # (2, n)
    bias: Tensor  # (2, n)
    owners: Tensor  # (n,), the class that each vanishes on
    found: int  # generators before pruning
    explained: float  # share of the variance that the components keep

    def first(self, count: int) -> FactoredGenerators:
        """Return at most so many of them, spread over the classes."""
        if len(self.owners) <= count:
            return self
        # They are sorted, so that this takes every class in turn and the best of each first.
        rank = torch.cat([torch.arange(size) for size in self.owners.bincount().tolist()])
        chosen = rank.argsort(stable=True)[:count]
        weight, gain, bias = (t[:, chosen] for t in (self.weight, self.gain, self.bias))
        return replace(self, weight=weight, gain=gain, bias=bias, owners=self.owners[chosen])


@torch.no_grad()
def factored_generators(
    latents: Latents, options: ProductsOptions, seed: int
) -> FactoredGenerators:
    """Find generators of degree 2 of every class, and factor the best into two forms each.

    Their variables are principal components of the channels at one position of every example.
    """
    from vinets.ideals.abm import ABM
    from vinets.ideals.pruning import prune

    rescale = Rescale.fit(latents.store, "channel", squash=False)
    h = descriptors(latents, rescale, seed)  # (m, C)
    n = min(options.components, h.shape[1])
    projection, explained = project(lambda: [h], n, "auto", "unit", seed)
    labels = latents.store.labels.to(h.device)
    variables = Variables(rescale, projection, projection(h), labels, explained, 0.0)
    ideal = ABM(options.psi, max_degree=2)
    generators = score_generators(variables, latents.fit, latents.check, ideal)
    kept = prune(generators.ideals, generators.scores, max(1, MAX_PRODUCTS // latents.n_classes))
    shared = SharedPolynomials.of(kept.polynomials)
    scores = torch.cat([torch.from_numpy(s) for s in kept.scores])
    order = scores.argsort(descending=True, stable=True)  # best first, and then class by class
    order = order[shared.owners[order].argsort(stable=True)]
    forms = nearest_products(shared)[:, order.to(shared.coefficients.device)].to(h.device)
    # From components to channels, and to mean square one: what a factor lacks, another has.
    inside = forms[..., 1:] @ projection.weight.double()  # (2, n, C)
    offset = forms[..., 0] + forms[..., 1:] @ projection.bias.double()
    _, covariance = batch_moments(h.double())
    size = ((inside @ covariance) * inside).sum(-1).clamp_min(0).sqrt()
    whole = (size.square() + offset.square()).sqrt().clamp_min(1e-30)
    return FactoredGenerators(
        (inside / size.clamp_min(1e-30)[..., None]).float().cpu(),
        (size / whole).float().cpu(),
        (offset / whole).float().cpu(),
        shared.owners[order],
        generators.ideals.n_generators,
        explained,
    )
