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
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from vinets.algebra.common_terms import SharedPolynomials, count_monomials, term_moments
from vinets.core.checks import one_of
from vinets.core.device import Clock
from vinets.core.options import FLAG, choice, count, option, share, whole
from vinets.core.plain import changes
from vinets.core.progress import Progress
from vinets.core.settings import IdealOptions
from vinets.heads.base import Head, HeadOptions, LastLayer, build_like, plain_facts, redefined
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.facts import Pictures, class_means, measure_vanishing
from vinets.heads.pieces import HeadMaps, LinearMap, LinearPath
from vinets.heads.polynomial_head import PolynomialHead
from vinets.heads.polynomial_layer import MonomialLayer, PolynomialLayer
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
MAX_POLYNOMIALS = 150_000  # polynomials of a head; the best of every class stay

# --- options ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class GeneratorOptions(IdealOptions, HeadOptions):
    """Options of heads of generators: the algorithm that finds them, and which of them stay."""

    panel: ClassVar[str] = "Head"
    normalization: str | None = redefined(IdealOptions, "normalization", "leading", shown="leading")
    components: int | None = option(
        128, count(), "Variables of the polynomials: principal components of the latents."
    )
    pca: str = option(
        "auto", choice("auto", "exact", "randomized", "streaming"), "How components are found."
    )
    train_projection: bool = option(False, FLAG, "Train the projection, too.")
    keep: int | float | str | None = option(
        128, share(), "Polynomials to keep per class, or a share of them: those of the best score."
    )
    monomials: int | None = option(512, count(), "Monomials to keep, at most.")
    score: str = option("separation", choice("separation", "normalized"), "Score of a polynomial.")
    sparse: bool = option(False, FLAG, "Coefficients that are zero stay zero in training.")
    linear_path: int = option(
        0, whole(0), "Channels of a linear path next to the polynomials; 0 for none."
    )

    def ideal(self) -> VanishingIdeal:
        """Return the algorithm that finds the generators, not fitted."""
        from vinets.ideals.classwise import make_ideal

        options = self.for_classes(1)
        asked = self.normalization != type(self).normalization
        if self.algorithm.lower() != "abm" and self.normalization and not asked:
            options = replace(options, normalization=None)  # the rule is an option of ABM alone
        return make_ideal(options, max_degree=options.max_degree)

    def for_classes(self, classes: int) -> Self:
        """Return the options with what was left open chosen."""
        return self

    def __post_init__(self) -> None:
        super().__post_init__()
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


@dataclass(frozen=True)
class BaselineOptions(HeadOptions):
    """Options of baselines that stand next to a vanishing head: those of that head."""

    like: VanishingOptions = VanishingOptions()


@dataclass(frozen=True)
class SizeOptions(HeadOptions):
    """A number of parameters, or the options of a head that has as many."""

    parameters: int | None = option(
        None, whole(), "Parameters that the head may store, at most.", shown="as many as the VI-Net"
    )
    like: HeadOptions = VanishingOptions()

    def size(self, latents: Latents, seed: int) -> int:
        """Return how many the folded head may store: as many as the other is to have, or has."""
        asked = self.parameters or getattr(self.like, "parameters", None)
        if asked is not None:
            return int(asked)
        return sum(build_like(latents, self.like, seed).folded().parts().values())


# --- variables --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Variables:
    """Points in the variables of polynomials, and the layers that make them of latents."""

    rescale: Rescale  # z -> tanh((z - mean) / std)
    projection: Projection | None  # None where the channels themselves are the variables
    points: Tensor  # (m, n), one for every example
    labels: Tensor  # (m,), on the same device
    explained: float | None  # share of the variance that the components keep
    seconds: float  # wall-clock time
    arguments: dict[str, Any] = field(default_factory=dict)  # what else a head of them is told


def components(latents: Tensor, rescale: Rescale, projection: Projection, order: str) -> Tensor:
    """Rescale and project latents (B, C, P) in one of the two orders, (B, n)."""
    z = latents.flatten(1)
    return projection(rescale(z)) if order == "tanh-pca" else rescale(projection(z))


def component_maps(
    rescale: Rescale, projection: Projection, order: str, size: int
) -> tuple[tuple[LinearMap, ...], float]:
    """Return the maps of :func:`components` on ``size`` values, and a bound on the results."""
    weight, gain = projection.weight, (1 / rescale.std).flatten()
    bound = 1.0 if rescale.squash else math.inf
    if order == "pca-tanh":  # nothing stands between the two, so they are one map
        return (LinearMap("projection, rescaling", gain[:, None] * weight),), bound
    reach = float((bound * weight.abs().sum(1) + projection.bias.abs()).max())
    first = LinearMap("rescaling", gain.expand(size))
    return (first, LinearMap("projection", weight)), reach


def find_components(latents: Latents, options: VanishingOptions, seed: int = 0) -> Variables:
    """Rescale and project the flattened map, in one of the two orders."""

    def flat() -> Iterator[Tensor]:
        for values, _ in latents.store.chunks():
            yield values.flatten(1)

    @torch.no_grad()
    def find() -> Variables:
        begin = time.perf_counter()
        n = options.components or latents.shape[0] * latents.shape[1]
        how = n, options.pca, options.scale, seed
        if options.order == "tanh-pca":
            rescale = Rescale.fit(flat())
            projection, explained = project(lambda: map(rescale, flat()), *how)
        else:
            projection, explained = project(flat, *how)
            n = len(projection.bias)
            # The components have mean zero and, by default, unit variance already.
            rescale = Rescale(torch.zeros(n), torch.ones(n)).to(projection.weight.device)
        inputs = rescale, projection, options.order
        points = torch.cat([components(z, *inputs) for z in flat()]).detach()
        facts = latents.store.labels.to(points.device), explained, time.perf_counter() - begin
        return Variables(rescale, projection, points, *facts, {"order": options.order})

    key = options.components, options.order, options.scale, options.pca, seed
    return latents.once("variables", key, find)


def project(
    chunks: Callable[[], Iterable[Tensor]], n: int, method: str, scale: str, seed: int
) -> tuple[Projection, float]:
    """Find principal components, and the share of the variance that they keep."""
    pca = fit_pca(chunks, n, method=method, seed=seed, at_most=True)
    return Projection.from_pca(pca, scale, trainable=False), float(pca.explained.sum())


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

    The latents keep them for the next head whose options differ in pruning alone.
    """
    same: Any = {"keep": 1, "monomials": None, "sparse": False, "linear_path": 0}
    key = replace(options, train_projection=False, **same), seed

    def find() -> ClassGenerators:
        how = latents.fit, latents.check, options.ideal(), options.score, progress
        return score_generators(variables, *how)

    return latents.once("generators", key, find)


def score_generators(
    variables: Variables,
    fit: Tensor,
    check: Tensor,
    ideal: VanishingIdeal,
    kind: str = "separation",
    progress: Progress | None = None,
) -> ClassGenerators:
    """Fit one ideal per class to the points of a mask (m,), and score its generators on another."""
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
        warnings.simplefilter("ignore", NoGeneratorsWarning)  # the caller raises an error
        # Points on a CPU stay there, because somebody has chosen it.
        device = "auto" if points.is_cuda else None
        ideals = fit_class_ideals(points, labels, ideal, device=device, progress=progress)
    end = clock.mark()
    clock.wait()
    return ideals, clock.between(begin, end)


def make_layer(
    generators: ClassGenerators, points: Tensor, options: GeneratorOptions, *, local: bool = False
) -> tuple[MonomialLayer, PrunedIdeals, bool]:
    """Make a layer of the generators that stay; ``points`` (m, n) standardise its monomials.

    In a local head the layer is batch-normalised. In a global one coefficients are kept class by
    class where all monomials stay and that takes fewer parameters. The last result tells whether
    there was no room for more generators.
    """
    from vinets.ideals.pruning import prune

    classes = len(generators.ideals.ideals)
    keep = 1.0 if options.keep is None else options.keep
    assert not isinstance(keep, str)  # a local head has chosen it
    capped = isinstance(keep, float) and keep * generators.ideals.n_generators > MAX_POLYNOMIALS
    if capped:  # the best of every class, as many as there is room for
        keep = MAX_POLYNOMIALS // classes
    pruned = prune(generators.ideals, generators.scores, keep)
    if not local and options.monomials is None:
        sets = [p.compact() for p in pruned.polynomials]
        own = sum(len(p) * (len(p.terms) + 1) for p in sets)
        # Blocks are there for every class, or for none.
        if min(map(len, sets)) > 0 and own < len(pruned) * count_monomials(sets):
            blocks = BlockPolynomialLayer.from_polynomials(pruned.polynomials, points)
            return blocks, pruned, capped
    shared = SharedPolynomials.of(pruned.polynomials)
    if options.monomials is not None and options.monomials < len(shared.terms):
        # Coefficients weigh by how much their monomials vary.
        _, spread = term_moments(shared.terms, points)
        shared = shared.restrict(options.monomials, spread)
    moments = term_moments(shared.terms, points)
    form: Any = {"sparse": options.sparse, "normalized": local}
    layer = PolynomialLayer.from_polynomials(shared, moments, classes=classes, **form)
    return layer, pruned, capped


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


# --- the head ---------------------------------------------------------------------------------


class GeneratorHead(PolynomialHead):
    """Base of heads whose polynomials are generators of class ideals."""

    from_ideals = True

    # What finds the variables of the polynomials: latents, options and a seed to variables.
    find_variables: ClassVar[Callable[..., Variables]]

    @classmethod
    def build(
        cls, latents: Latents, options: Any = None, seed: int = 0, progress: Progress | None = None
    ) -> Head:
        chosen: Any = options or cls.Options()
        options = chosen.for_classes(latents.n_classes)
        # The latents keep the generators for make().
        variables = cls.find_variables(latents, options, seed)
        find_generators(latents, variables, options, seed, progress)
        return super().build(latents, options, seed)

    @classmethod
    def make(cls, latents: Latents, options: Any, seed: int) -> Self:
        variables = cls.find_variables(latents, options, seed)
        generators = find_generators(latents, variables, options, seed)
        begin = time.perf_counter()
        # Points of the fits and of the scores standardise the monomials.
        masks = (mask.to(variables.points.device) for mask in (latents.fit, latents.check))
        points = torch.cat([variables.points[mask] for mask in masks])
        layer, pruned, capped = make_layer(generators, points, options, local=cls.local)
        projection, used = copy.deepcopy(variables.projection), layer
        if projection is not None:
            projection.requires_grad_(options.train_projection)  # in this head alone
            if isinstance(layer, PolynomialLayer) and cls.local:
                used = layer.behind_channels(latents.shape[0], seed)
        arguments = variables.arguments | {"path": linear_path(latents, options.linear_path)}
        head = cls(variables.rescale, projection, used, latents.n_classes, **arguments)
        points, labels, fit = variables.points, variables.labels, latents.fit.to(points.device)
        layer = layer.to(points.device)
        means, _, _ = class_means(layer, [(points, labels)])
        vanishing = measure_vanishing(layer, [(points[fit], labels[fit])], options.psi)
        blocks = layer.blocks if isinstance(layer, BlockPolynomialLayer) else [layer.weight]
        found, terms = pruned.n_generators, layer.monomials.terms
        assert layer.owners is not None  # it is a layer of generators
        pictures = Pictures(
            points.cpu().double().numpy(),
            labels.cpu().numpy(),
            means.cpu().numpy(),
            layer.owners.cpu().numpy(),
            generators.scores.values,
            pruned.scores,
        )
        seconds = {
            "latents": latents.seconds,
            "projection": variables.seconds,
            "polynomials": generators.seconds + time.perf_counter() - begin,
        }
        head.facts = plain_facts(
            head,
            latents,
            begin,
            seconds=seconds,
            explained_variance=variables.explained,
            generators_found=found,
            generators_kept=len(layer.bias),
            monomials_found=generators.monomials,
            monomials_kept=len(terms),
            coefficients_found=found * generators.monomials,
            coefficients_kept=sum(block.numel() for block in blocks),
            degrees={int(d): int((terms.degrees == d).sum()) for d in np.unique(terms.degrees)},
            capped=capped,
            vanishing=vanishing,
            pictures=pictures,
        )
        return head


class GlobalPolynomials(PolynomialHead):
    """Rescaling, projection, absolute values of polynomials, linear layer.

    The ``order`` tells which of the first two comes first: ``"tanh-pca"`` as in the paper's text,
    which rescales the latents themselves, or ``"pca-tanh"``, which gives inputs of the polynomials
    in [-1, 1], as the paper's theory needs them.
    """

    local = False
    projection: Projection
    # The last epoch, because nothing is held out.
    training_defaults: ClassVar[Mapping[str, Any]] = {"weight_decay": 2e-3, "validation": 0.0}

    def __init__(
        self,
        rescale: Rescale,
        projection: Projection,
        polynomials: MonomialLayer,
        classes: int,
        *,
        order: str = "tanh-pca",
        path: LinearPath | None = None,
    ) -> None:
        super().__init__(rescale, projection, polynomials, classes, path=path)
        self.order = one_of(type(self).__name__, "order", order, ORDERS)

    def arguments(self) -> dict[str, Any]:
        return {"order": self.order}

    def variables(self, latents: Tensor) -> Tensor:
        return components(latents, self.rescale, self.projection, self.order)

    def split(self) -> tuple[Callable[[Tensor], Tensor], nn.Module] | None:
        behind = LastLayer(self.polynomials, self.norm, self.linear)
        return (self.variables, behind) if self.frozen else None

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        size = shape[0] * shape[1]
        before, reach = component_maps(self.rescale, self.projection, self.order, size)
        return self.maps_between(before, self.linear.weight, reach)


class VanishingHead(GeneratorHead, GlobalPolynomials):
    """The paper's head: its polynomials vanish on the classes."""

    kind, label = "vanishing", "VI-Net"
    Options = VanishingOptions
    rivals = ("linear", "pooled", "mlp", "random", "same-degrees", "components")
    find_variables = staticmethod(find_components)
    # The weight keeps polynomials vanishing, which costs no accuracy: see the experiment fig-kept.
    training_defaults: ClassVar[Mapping[str, Any]] = dict(
        GlobalPolynomials.training_defaults, vanish=0.1
    )
