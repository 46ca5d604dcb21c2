r"""The paper's head: latents rescaled and projected to one vector, polynomials, a linear layer.

It builds itself by Algorithm 1 of the paper: the variables of the polynomials, one ideal per class,
a score for every generator, pruning, a layer of those that stay.
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from vinets.algebra.shared import SharedPolynomials, count_monomials, term_moments
from vinets.core.checks import one_of
from vinets.core.device import Clock
from vinets.core.options import choice, count, flag, option, optional, share, whole
from vinets.core.plain import changes
from vinets.core.progress import Progress
from vinets.core.settings import IdealOptions
from vinets.heads.base import HeadOptions, plain_facts
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.class_sizes import class_means, measure_vanishing
from vinets.heads.facts import BuildFacts, Pictures
from vinets.heads.maps import HeadMaps, LinearMap
from vinets.heads.pieces import LinearPath, TrainedTail
from vinets.heads.polynomial import PolynomialHead
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.latent.collect import Latents
from vinets.latent.pca import Projection, fit_pca
from vinets.latent.rescale import Rescale

# Ideals bring scikit-learn, whose import takes half a second. Only a fit needs them, so that saved
# networks open without.
if TYPE_CHECKING:
    from vinets.ideals.base import VanishingIdeal
    from vinets.ideals.classwise import ClassIdeals
    from vinets.ideals.pruning import PrunedIdeals, PruningScores

ORDERS = ("tanh-pca", "pca-tanh")
MAX_POLYNOMIALS = 150_000  # polynomials of a head; those beyond it are pruned

# --- options ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class GeneratorOptions(IdealOptions, HeadOptions):
    """How generators of class ideals are found, and which of them stay."""

    panel: ClassVar[str] = "Head"
    normalization: str | None = option(
        "leading",
        optional(choice("unit", "leading")),
        "Coefficients have unit norm, or the leading one is 1 (abm).",
    )
    components: int | None = option(
        128, count(), "Variables of the polynomials: principal components of the latents."
    )
    pca: str = option(
        "auto", choice("auto", "exact", "randomized", "streaming"), "How components are found."
    )
    train_projection: bool = option(False, flag(), "Train the projection, too.")
    keep: int | float | str | None = option(
        128, share(), "Polynomials to keep per class, or a share of them: those of the best score."
    )
    monomials: int | None = option(512, count(), "Monomials to keep, at most.")
    score: str = option("separation", choice("separation", "normalized"), "Score of a polynomial.")
    sparse: bool = option(False, flag(), "Coefficients that are zero stay zero in training.")
    linear_path: int = option(
        0, whole(0), "Channels of a linear path next to the polynomials; 0 for none."
    )

    def ideal(self) -> VanishingIdeal:
        """Return the algorithm that finds the generators, not fitted."""
        from vinets.ideals.choose import make_ideal

        given = self
        if self.algorithm.lower() != "abm" and self.normalization == "leading":
            given = replace(self, normalization=None)  # the rule is an option of ABM alone
        return make_ideal(given, max_degree=self.max_degree)

    def check(self, owner: str) -> None:
        super().check(owner)
        # Any algorithm has a tolerance and a degree. Ideals are imported for the rest alone.
        special = {one.name for one in fields(IdealOptions)} - {"psi", "max_degree"}
        if special & changes(self).keys():
            self.ideal()  # complains about options that the algorithm does not have


@dataclass(frozen=True)
class VanishingOptions(GeneratorOptions):
    """Options of :class:`VanishingHead`."""

    kind: ClassVar[str] = "vanishing"
    order: str = option("pca-tanh", choice(*ORDERS), "Squash or project the latents first.")
    scale: str = option("unit", choice("unit", "none"), "Components have unit variance, or theirs.")


# --- the head ---------------------------------------------------------------------------------


class GlobalPolynomials(PolynomialHead):
    """Rescaling, projection, absolute values of polynomials, linear layer.

    Parameters
    ----------
    rescale : Rescale
        The map z -> tanh((z - mean) / std).
    projection : Projection
        From latents to the ``n`` variables of the ``N`` polynomials.
    order : {"tanh-pca", "pca-tanh"}, default="tanh-pca"
        Which of the first two comes first: the paper's text rescales the latents themselves; its
        theory needs the polynomials' inputs in [-1, 1], which rescaling last gives.
    path : LinearPath or None, default=None
        Logits linear in the latents, added to those of the polynomials.
    """

    local = False
    projection: Projection
    # The last epoch, because nothing is held out.
    training_defaults: ClassVar[Mapping[str, Any]] = {"weight_decay": 2e-3, "validation": 0.0}

    def __init__(
        self,
        rescale: Rescale,
        projection: Projection,
        polynomials: PolynomialLayer | BlockPolynomialLayer,
        classes: int,
        *,
        order: str = "tanh-pca",
        path: LinearPath | None = None,
    ) -> None:
        super().__init__(rescale, projection, polynomials, classes, path)
        self.order = one_of(type(self).__name__, "order", order, ORDERS)

    def arguments(self) -> dict[str, Any]:
        return {"order": self.order}

    def variables(self, latents: Tensor) -> Tensor:
        """What the polynomials are evaluated at, (B, n)."""
        return components(latents, self.rescale, self.projection, self.order)

    def split(self) -> tuple[Callable[[Tensor], Tensor], nn.Module] | None:
        if self.path is not None or self.projection.weight.requires_grad:
            return None
        return self.variables, TrainedTail(self.polynomials, self.norm, self.linear)

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        size = shape[0] * shape[1]
        before, reach = component_maps(self.rescale, self.projection, self.order, size)
        return self.maps_between(before, self.linear.weight, reach)


class VanishingHead(GlobalPolynomials):
    """The paper's head: its polynomials vanish on the classes."""

    kind, label = "vanishing", "VI-Net"
    from_ideals = True
    Options = VanishingOptions
    rivals = ("linear", "pooled", "mlp", "random", "same-degrees", "components")
    # The weight keeps polynomials vanishing, which costs no accuracy: see the experiment fig-kept.
    training_defaults: ClassVar[Mapping[str, Any]] = {
        **GlobalPolynomials.training_defaults,
        "vanish": 0.1,
    }

    @classmethod
    def make(
        cls, latents: Latents, options: VanishingOptions, seed: int, progress: Progress | None
    ) -> Self:
        variables = find_components(latents, options, seed)
        generators = find_generators(latents, variables, options, seed, progress)
        begin = time.perf_counter()
        made = make_layer(generators, scaling_points(latents, variables), options)
        projection = copy.deepcopy(variables.projection)  # another head may train it
        assert projection is not None  # the variables are components
        head = cls(
            variables.rescale,
            projection,
            made.layer,
            latents.n_classes,
            order=options.order,
            path=linear_path(latents, options.linear_path),
        )
        projection.requires_grad_(options.train_projection)
        head.facts = generator_facts(head, latents, variables, generators, made, options, begin)
        return head


def components(latents: Tensor, rescale: Rescale, projection: Projection, order: str) -> Tensor:
    """Latents (B, C, P), rescaled and projected in one of the two orders, (B, n)."""
    z = latents.flatten(1)
    return projection(rescale(z)) if order == "tanh-pca" else rescale(projection(z))


def component_maps(
    rescale: Rescale, projection: Projection, order: str, size: int
) -> tuple[tuple[LinearMap, ...], float]:
    """The maps of :func:`components` on latents of ``size`` values, and a bound on the results."""
    weight, gain = projection.weight, (1 / rescale.std).flatten()
    bound = 1.0 if rescale.squash else math.inf
    if order == "pca-tanh":  # nothing stands between the two, so they are one map
        return (LinearMap("projection, rescaling", gain[:, None] * weight),), bound
    reach = float((bound * weight.abs().sum(1) + projection.bias.abs()).max())
    first = LinearMap("rescaling", gain.expand(size))
    return (first, LinearMap("projection", weight)), reach


# --- variables --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Variables:
    """Points in the variables of the polynomials, and the layers that make them."""

    rescale: Rescale  # z -> tanh((z - mean) / std)
    projection: Projection | None  # None where the channels themselves are the variables
    points: Tensor  # (m, n), one for every example
    labels: Tensor  # (m,), on the same device
    explained: float | None  # share of the variance that the components keep
    seconds: float  # wall-clock time


def find_components(latents: Latents, options: VanishingOptions, seed: int = 0) -> Variables:
    """Rescale and project the flattened map, in one of the two orders."""
    key = options.components, options.order, options.scale, options.pca, seed
    return latents.once("variables", key, lambda: _components_of(latents, options, seed))


@torch.no_grad()
def _components_of(latents: Latents, options: VanishingOptions, seed: int) -> Variables:
    begin = time.perf_counter()
    channels, positions = latents.shape

    def flat() -> Iterator[Tensor]:
        for values, _ in latents.store.chunks():
            yield values.flatten(1)

    n = options.components or channels * positions
    if options.order == "tanh-pca":
        rescale = Rescale.fit(flat())
        projection, explained = project(
            lambda: map(rescale, flat()), n, options.pca, options.scale, seed
        )
        points = torch.cat([projection(rescale(z)) for z in flat()])
    else:
        projection, explained = project(flat, n, options.pca, options.scale, seed)
        n = len(projection.bias)
        # The components have mean zero and, by default, unit variance already.
        rescale = Rescale(torch.zeros(n), torch.ones(n)).to(projection.weight.device)
        points = torch.cat([rescale(projection(z)) for z in flat()])
    labels = latents.store.labels.to(points.device)
    seconds = time.perf_counter() - begin
    return Variables(rescale, projection, points.detach(), labels, explained, seconds)


def project(
    chunks: Callable[[], Iterable[Tensor]], n: int, method: str, scale: str, seed: int
) -> tuple[Projection, float]:
    """Find principal components, and the share of the variance that they keep."""
    pca = fit_pca(chunks, n, method=method, seed=seed, at_most=True)
    return Projection.from_pca(pca, scale, trainable=False), float(pca.explained.sum())


def scaling_points(latents: Latents, variables: Variables) -> Tensor:
    """Return the points (m, n) that standardise monomials: those of the fits and the scores."""
    masks = (mask.to(variables.points.device) for mask in (latents.fit, latents.check))
    return torch.cat([variables.points[mask] for mask in masks])


# --- generators -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ClassGenerators:
    """Generators of every class before pruning, with their scores."""

    ideals: ClassIdeals
    scores: PruningScores  # on points that the ideals were not fitted to
    monomials: int  # monomials that evaluation of all generators needs, without the constant
    seconds: float  # wall-clock time of the fits alone


def find_generators(
    latents: Latents,
    variables: Variables,
    options: GeneratorOptions,
    seed: int = 0,
    progress: Progress | None = None,
) -> ClassGenerators:
    """Fit one ideal per class, and score its generators on other points.

    What is found is kept for the next head whose options differ in pruning alone.
    """
    same: dict[str, Any] = {"keep": 1, "monomials": None, "sparse": False, "linear_path": 0}
    key = replace(options, train_projection=False, **same), seed
    masks = latents.fit, latents.check

    def find() -> ClassGenerators:
        return score_generators(variables, *masks, options.ideal(), options.score, progress)

    return latents.once("generators", key, find)


def score_generators(
    variables: Variables,
    fit: Tensor,
    check: Tensor,
    ideal: VanishingIdeal,
    kind: str = "separation",
    progress: Progress | None = None,
) -> ClassGenerators:
    """Fit one ideal per class to the points of a mask, and score its generators on another.

    The masks ``fit`` and ``check`` are of shape (m,); ``progress`` hears of the fits.
    """
    from vinets.ideals.pruning import as_polynomials, score

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
    """Fit one ideal per class, and return the seconds until the device was done, too."""
    from vinets.ideals.base import NoGeneratorsWarning
    from vinets.ideals.classwise import fit_class_ideals

    clock = Clock(points.device)
    clock.wait()  # so that earlier work of the device does not count
    begin = clock.mark()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoGeneratorsWarning)  # the caller says so
        # Points on a CPU stay there, because somebody has chosen it.
        device = "auto" if points.is_cuda else None
        ideals = fit_class_ideals(points, labels, ideal, device=device, progress=progress)
    end = clock.mark()
    clock.wait()
    return ideals, clock.between(begin, end)


@dataclass(frozen=True, eq=False)
class PrunedLayer:
    """A polynomial layer and what it was made of; ``capped`` if there was no room for more."""

    layer: PolynomialLayer | BlockPolynomialLayer
    pruned: PrunedIdeals
    owners: Tensor
    capped: bool


def make_layer(
    generators: ClassGenerators, points: Tensor, options: GeneratorOptions, *, local: bool = False
) -> PrunedLayer:
    """Make a layer of the generators that stay; ``points`` (m, n) standardise its monomials.

    In a local head the layer is batch-normalised. In a global one coefficients are kept class by
    class where all monomials stay and that takes fewer parameters.
    """
    from vinets.ideals.pruning import prune

    classes = len(generators.ideals.ideals)
    keep = 1.0 if options.keep is None else options.keep
    assert not isinstance(keep, str)  # a local head has chosen it
    capped = isinstance(keep, float) and keep * generators.ideals.n_generators > MAX_POLYNOMIALS
    if capped:  # the best of every class, as many as there is room for
        keep = MAX_POLYNOMIALS // classes
    pruned = prune(generators.ideals, generators.scores, keep)
    if not local and options.monomials is None and _blocks_are_smaller(pruned):
        block = BlockPolynomialLayer.from_polynomials(pruned.polynomials, points)
        owners = torch.repeat_interleave(torch.tensor(block.counts))
        return PrunedLayer(block, pruned, owners, capped)
    shared = SharedPolynomials.of(pruned.polynomials)
    if options.monomials is not None and options.monomials < len(shared.terms):
        # Coefficients weigh by how much their monomials vary.
        _, spread = term_moments(shared.terms, points)
        shared = shared.restrict(options.monomials, spread)
    layer = PolynomialLayer.from_polynomials(
        shared,
        term_moments(shared.terms, points),
        classes=classes,
        sparse=options.sparse,
        normalized=local,
    )
    return PrunedLayer(layer, pruned, shared.owners, capped)


def _blocks_are_smaller(pruned: PrunedIdeals) -> bool:
    sets = [p.compact() for p in pruned.polynomials]
    if min(map(len, sets)) == 0:  # a block for every class, or none
        return False
    own = sum(len(p) * (len(p.terms) + 1) for p in sets)
    return own < len(pruned) * count_monomials(sets)


def linear_path(latents: Latents, width: int) -> LinearPath | None:
    """Make a linear path of ``width`` channels next to the polynomials; None for 0."""
    if width == 0:
        return None
    values, _ = next(latents.store.chunks(1024))
    channels, positions = latents.shape
    # The squared norm of what the last layer sees bounds its learning rate: 64 suits 0.05.
    size = (min(width, channels) * positions / 64) ** 0.5
    scale = max(size, 1.0) * float(values.std().clamp_min(1e-12))
    return LinearPath(channels, positions, width, latents.n_classes, scale=scale)


def generator_facts(
    head: PolynomialHead,
    latents: Latents,
    variables: Variables,
    generators: ClassGenerators,
    made: PrunedLayer,
    options: GeneratorOptions,
    begin: float,
) -> BuildFacts:
    """Return how a head of generators was built; ``begin`` is when its layer was begun."""
    points, labels = variables.points, variables.labels
    layer = made.layer.to(points.device)
    terms = layer.monomials.terms
    fit = latents.fit.to(points.device)
    means, _, _ = class_means(layer, [(points, labels)])
    vanishing = measure_vanishing(layer, [(points[fit], labels[fit])], options.psi)
    blocks = [layer.weight] if isinstance(layer, PolynomialLayer) else list(layer.blocks)
    found = made.pruned.n_generators
    return plain_facts(
        head,
        latents,
        begin,
        explained_variance=variables.explained,
        generators_found=found,
        generators_kept=len(layer.bias),
        monomials_found=generators.monomials,
        monomials_kept=len(terms),
        coefficients_found=found * generators.monomials,
        coefficients_kept=sum(block.numel() for block in blocks),
        degrees={int(d): int((terms.degrees == d).sum()) for d in np.unique(terms.degrees)},
        capped=made.capped,
        vanishing=vanishing,
        seconds={
            "latents": latents.seconds,
            "projection": variables.seconds,
            "polynomials": generators.seconds + time.perf_counter() - begin,
        },
        pictures=Pictures(
            points.cpu().double().numpy(),
            labels.cpu().numpy(),
            means.cpu().numpy(),
            made.owners.numpy(),
            generators.scores.values,
            made.pruned.scores,
        ),
    )
