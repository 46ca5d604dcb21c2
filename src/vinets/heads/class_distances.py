r"""Distances to the classes in closed form, and the head whose logits they are.

With :math:`v(x)` the monomials of a point, and mean :math:`\mu_c` and covariance :math:`S_c` of
them on class :math:`c`, the Christoffel function of the class is

.. math:: K_c(x) = 1 + (v(x) - \mu_c)^\top (S_c + \varepsilon I)^{-1} (v(x) - \mu_c)
                 = 1 + \sum_i \frac{p_i(x)^2}{\lambda_i + \varepsilon},

where :math:`p_i` are the eigenvectors of :math:`S_c` as polynomials and :math:`\lambda_i` their
mean squares on the class. Those with a small one, which nearly vanish, weigh most. Degree 1 is
Mahalanobis's distance. Any square root of the inverse gives the same sum, so that a triangular one
is stored.

The covariance of a class with few points is drawn towards the mean of all of them,
:math:`(1 - s) S_c + s \bar S + \varepsilon I` for monomials of unit variance: with :math:`s = 1`
and degree 1 that is linear discriminant analysis, with :math:`s = 0` quadratic, or a Christoffel
function of higher degree. What fits is chosen by cross-validation on the classes that are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.algebra.polynomial import termset
from vinets.algebra.terms import TermSet
from vinets.core.checks import parameter_error
from vinets.heads.base import ClosedFormHead, HeadOptions, features_of
from vinets.heads.pieces import HeadMaps, LinearMap, PolynomialMap, parameter_count
from vinets.heads.polynomial_layer import Monomials, PolynomialLayer, batch_moments
from vinets.latent.collect import Latents
from vinets.latent.pca import Projection, fit_pca

TEMPERATURES = np.exp2(np.arange(-6, 15) / 2).tolist()  # powers of K that are tried
MIN_VARIANCE = 1e-12  # variance of a monomial that is constant up to rounding
BIAS_PENALTY = 1e-3  # on the squares of the biases, because classes may have few held-out points
CALIBRATION_STEPS = 100
MAX_JUDGED = 1000  # points of a fold that judge a space


class ClassDistances(nn.Module):
    """Christoffel functions: features (B, D) to K of every class (B, classes), each 1 or more.

    It sees latents, averaged over positions, and ``terms`` in tanh of their components; ``shared``
    if all classes have one matrix. A new one has zeros, which :func:`fit_distances` replaces.
    """

    weight: Tensor
    bias: Tensor
    forms: Tensor
    offsets: Tensor

    def __init__(self, features: int, terms: TermSet, classes: int, shared: bool = False) -> None:
        super().__init__()
        self.monomials, size = Monomials(terms), len(terms)
        self.register_buffer("weight", torch.zeros(terms.n_variables, features))
        self.register_buffer("bias", torch.zeros(terms.n_variables))
        self.register_buffer("forms", torch.zeros(1 if shared else classes, size, size))
        self.register_buffer("offsets", torch.zeros(classes, size))

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.offsets)

    def variables(self, features: Tensor) -> Tensor:
        """Return the components in [-1, 1] that the monomials are of, (B, n)."""
        return torch.tanh(F.linear(features, self.weight, self.bias))

    def values(self, features: Tensor) -> Tensor:
        """Return the monomials (B, S)."""
        values: Tensor = self.monomials(self.variables(features))
        return values.to(self.forms.dtype)

    def forward(self, features: Tensor) -> Tensor:
        return lengths(self.values(features), self.forms, self.offsets)

    def parts(self) -> dict[str, int]:
        """Count the parameters of each part."""
        return {
            "projection": self.weight.numel() + self.bias.numel(),
            "monomials": sum(block.size for block in self.monomials.terms.blocks),
            "coefficients": self.forms.numel() + self.offsets.numel(),
        }

    def config(self) -> dict[str, Any]:
        """Return plain JSON values; the terms are among the tensors."""
        (variables, features), shared = self.weight.shape, len(self.forms) < self.classes
        sizes = {"features": features, "variables": variables, "classes": self.classes}
        return {**sizes, "shared": shared}

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], state: Mapping[str, Tensor], prefix: str = ""
    ) -> Self:
        """Make one of the shapes that ``config`` and the terms in ``state`` tell."""
        terms = Monomials.terms_of(state, f"{prefix}monomials.", int(config["variables"]))
        shared = bool(config["shared"])
        return cls(int(config["features"]), terms, int(config["classes"]), shared=shared)


def lengths(values: Tensor, forms: Tensor, offsets: Tensor) -> Tensor:
    """Return 1 + |F_c v + b_c|^2 for values v (B, S), (B, classes); F (1, S, S) serves all."""
    flat = F.linear(values, forms.flatten(0, 1)).unflatten(1, forms.shape[:2])
    if len(forms) == len(offsets):
        return 1 + (flat + offsets).square().sum(-1)
    # The square is written out, because (B, classes, S) numbers may be many.
    one = flat[:, 0]
    squares = one.square().sum(1, keepdim=True) + offsets.square().sum(1)
    return 1 + (squares + 2 * F.linear(one, offsets)).clamp_min(0)


def products_of(variables: int, products: int, degree: int) -> TermSet:
    """Return all variables, and all products up to ``degree`` of the first ``products`` of them.

    Examples
    --------
    >>> products_of(3, 2, 2).names()
    ['x0', 'x1', 'x2', 'x0^2', 'x0*x1', 'x1^2']
    """
    rows: list[tuple[int, ...]] = [(i,) for i in range(variables)]
    for d in range(2, degree + 1):
        rows += combinations_with_replacement(range(products), d)
    return termset(rows, variables)


# --- fits -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassSpace:
    """The monomials that a distance sees, and how their covariances are regularised."""

    components: int  # principal components, of unit variance, squashed by tanh
    products: int = 0  # how many of the first ones are multiplied with each other
    degree: int = 1  # degree of the products
    shrink: float = 1.0  # s, towards the covariance that all classes share
    epsilon: float = 0.1  # added to the diagonal


def spaces() -> list[ClassSpace]:
    """Return the default candidates: all components with one covariance, fewer, and products."""
    shapes = (
        ((512, 0, 1), (1.0,), (0.01, 0.1, 1.0)),
        ((64, 0, 1), (0.1, 0.5, 0.9, 1.0), (0.01, 0.1, 1.0)),
        ((16, 16, 2), (0.1, 0.5, 0.9), (0.01, 0.1)),
        ((128, 16, 2), (0.1, 0.5, 0.9), (0.01, 0.1, 1.0)),
    )
    return [
        ClassSpace(*m, s, e) for m, shrinks, epsilons in shapes for s in shrinks for e in epsilons
    ]


Moments: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""Shares (K,), means (K, S) and covariances (K, S, S) of monomials by class, in float64."""


def class_moments(values: Tensor, labels: Tensor, classes: int) -> Moments:
    """Compute moments of monomials (m, S); the covariance of a single point is zero."""
    counts = torch.bincount(labels, minlength=classes)
    if int(counts.min()) == 0:
        missing = (counts == 0).nonzero()[:, 0].tolist()
        raise ValueError(f"every class needs an example. There is none of {missing[:5]}.")
    means = values.new_zeros(classes, values.shape[1], dtype=torch.float64)
    covariances = means.new_zeros(*means.shape, means.shape[1])
    for k in range(classes):
        means[k], covariances[k] = batch_moments(values[labels == k].double())
    return (counts / counts.sum()).to(means), means, covariances


def class_forms(moments: Moments, shrink: float, epsilon: float) -> tuple[Tensor, Tensor]:
    """Return triangular F (K, S, S) and offsets b (K, S) with K_c(v) = 1 + |F_c v + b_c|^2.

    Where nothing of a class's own covariance is left, there is one F, (1, S, S).
    """
    shares, means, own = moments
    within = torch.einsum("k,kij->ij", shares, own)
    eye = torch.eye(within.shape[0], dtype=within.dtype, device=within.device)
    own = own[:1] if shrink == 1 else own
    factor = torch.linalg.cholesky(torch.lerp(own, within, shrink) + epsilon * eye)
    forms = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
    return forms, -(forms @ means[..., None]).squeeze(-1)


def standard_monomials(
    features: Tensor, labels: Tensor, space: ClassSpace
) -> tuple[ClassDistances, Tensor, tuple[Tensor, Tensor]]:
    """Whiten components of features (m, D), as many as there are, and standardise their monomials.

    Returned are distances without classes that know the components, the standard monomials (m, S),
    and mean and deviation (S,) of the others.
    """
    if features.ndim != 2 or len(features) != len(labels):
        got = f"{tuple(features.shape)} and {tuple(labels.shape)}"
        raise parameter_error("fit_distances", "features", "(m, D) beside labels (m,)", got)
    pca = fit_pca(lambda: [features], space.components, at_most=True)
    projection = Projection.from_pca(pca, "unit")
    n = len(projection.bias)
    terms = products_of(n, min(space.products, n), space.degree)
    distances = ClassDistances(features.shape[1], terms, 0).to(features)
    distances.weight.copy_(projection.weight)
    distances.bias.copy_(projection.bias)
    values = torch.cat([distances.values(part) for part in features.split(4096)])
    shift, scale = values.mean(0), values.var(0, correction=0).clamp_min(MIN_VARIANCE).sqrt()
    return distances, values.sub_(shift).div_(scale), (shift, scale)


@torch.no_grad()
def fit_distances(
    features: Tensor, labels: Tensor, space: ClassSpace, classes: int
) -> ClassDistances:
    """Fit the distances to every class, to features (m, D) and labels (m,).

    Examples
    --------
    >>> points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [4.0, 5.0], [5.0, 5.0]])
    >>> distances = fit_distances(points, torch.tensor([0, 0, 1, 1]), ClassSpace(2), 2)
    >>> distances(points).argmin(1)
    tensor([0, 0, 1, 1])
    """
    distances, values, (shift, scale) = standard_monomials(features, labels, space)
    moments = class_moments(values, labels, classes)
    forms, offsets = class_forms(moments, space.shrink, space.epsilon)
    # The forms take in what standardises the monomials.
    forms = forms / scale.double()
    offsets = offsets - forms @ shift.double()
    distances.forms = forms.to(features).contiguous()
    distances.offsets = offsets.to(features).contiguous()
    return distances


class SpaceScore(NamedTuple):
    """A space and how well held-out points are classified in it."""

    space: ClassSpace
    loss: float  # mean negative log-likelihood of held-out points, at the best temperature
    accuracy: float  # share of held-out points whose nearest class is theirs


@torch.no_grad()
def try_spaces(
    features: Tensor,
    labels: Tensor,
    candidates: Sequence[ClassSpace],
    classes: int,
    *,
    held: tuple[Tensor, Tensor] | None = None,
    folds: int = 3,
    seed: int = 0,
) -> list[SpaceScore]:
    """Judge every space by ``held`` features and labels; without them, by cross-validation.

    Cross-validation judges at most ``MAX_JUDGED`` points of a fold.
    """
    if held is None:
        draw = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        draw, answers = draw.to(labels.device), labels
        masks = draw_folds(labels, folds, seed)
        rounds = [(~mask, draw[mask[draw]][:MAX_JUDGED]) for mask in masks]
    else:
        answers = torch.cat([labels, held[1]])
        place = torch.arange(len(answers), device=answers.device)
        rounds = [(place < len(labels), place[len(labels) :])]
    truth = answers[torch.cat([judged for _, judged in rounds])]
    scores: list[SpaceScore] = []
    groups: dict[tuple[int, int, int], list[ClassSpace]] = {}
    for one in candidates:
        groups.setdefault((one.components, one.products, one.degree), []).append(one)
    for group in groups.values():
        # Components know no labels, and may see all points.
        distances, values, (shift, scale) = standard_monomials(features, labels, group[0])
        if held is not None:
            new = torch.cat([distances.values(part) for part in held[0].split(4096)])
            values = torch.cat([values, new.sub_(shift).div_(scale)])
        logs_of: dict[ClassSpace, list[Tensor]] = {one: [] for one in group}
        for mine, judged in rounds:
            moments = class_moments(values[mine], answers[mine], classes)
            for one in group:
                fitted = [t.to(values) for t in class_forms(moments, one.shrink, one.epsilon)]
                logs_of[one] += [lengths(v, *fitted).log() for v in values[judged].split(256)]
        for one in group:
            logs = torch.cat(logs_of[one])
            loss = min(float(F.cross_entropy(-t * logs, truth)) for t in TEMPERATURES)
            accuracy = float((logs.argmin(1) == truth).double().mean())
            scores.append(SpaceScore(one, loss, accuracy))
    return scores


def choose_space(tried: Sequence[SpaceScore]) -> SpaceScore:
    """Return the space under which held-out points are likeliest."""
    return min(tried, key=lambda one: one.loss)


@torch.no_grad()
def held_out(
    features: Tensor,
    labels: Tensor,
    space: ClassSpace,
    classes: int,
    *,
    folds: int = 3,
    seed: int = 0,
) -> Tensor:
    """Return K of every point (m, K), from distances that were fitted to the other folds."""
    values = features.new_zeros(len(features), classes)
    for mask in draw_folds(labels, folds, seed):
        others = fit_distances(features[~mask], labels[~mask], space, classes)
        values[mask] = torch.cat([others(part) for part in features[mask].split(2048)]).to(values)
    return values


def draw_folds(labels: Tensor, folds: int, seed: int) -> list[Tensor]:
    """Draw the examples of every fold, as masks (m,), classes spread evenly.

    There are no more folds than the smallest class has examples.
    """
    generator = torch.Generator().manual_seed(seed)
    result, known = torch.zeros(len(labels), dtype=torch.int64), labels.cpu()
    least = int(known.unique(return_counts=True)[1].min())
    if least < 2:
        raise ValueError(
            "Cross-validation needs 2 examples of every class. A class has one; pass more examples."
        )
    folds = min(folds, least)
    for k in known.unique().tolist():
        members = (known == k).nonzero()[:, 0]
        order = torch.randperm(len(members), generator=generator)
        result[members[order]] = torch.arange(len(members)) % folds
    return [result.to(labels.device) == k for k in range(folds)]


def calibrate(logs: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    """Fit temperature t and biases b (K,): softmax(b - t log K) makes held-out points likeliest.

    ``logs`` (m, K) are the logarithms of the distances of held-out points. The problem is convex.
    """
    x = logs.detach().double()
    with torch.enable_grad():
        # The logarithm of the temperature is fitted, because a temperature is positive.
        log_t, bias = (x.new_zeros(shape, requires_grad=True) for shape in ((), x.shape[1:]))
        solver = torch.optim.LBFGS(
            [log_t, bias], 1, CALIBRATION_STEPS, tolerance_grad=1e-7, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            solver.zero_grad()
            value = F.cross_entropy(bias - log_t.exp() * x, labels)
            value = value + BIAS_PENALTY * bias.square().sum()
            value.backward()
            return value

        solver.step(loss)
    return float(log_t.detach().exp()), (bias - bias.mean()).detach()


# --- the head ---------------------------------------------------------------------------------


class DistanceHead(ClosedFormHead):
    r"""Distances to the classes as logits, from latents averaged over positions.

    .. math:: \ell_c(x) = b_c - t \log K_c(x)

    The temperature and the biases can be trained.
    """

    kind, label = "distance", "distances"

    def __init__(self, distances: ClassDistances) -> None:
        super().__init__()
        self.distances = distances
        self.temperature = nn.Parameter(torch.ones(()))
        self.bias = nn.Parameter(torch.zeros(distances.classes))

    @classmethod
    @torch.no_grad()
    def solve(cls, latents: Latents, mask: Tensor, options: HeadOptions, seed: int) -> Self:
        features, labels = features_of(latents, mask, lambda z: z.mean(-1))
        count = latents.n_classes
        space = choose_space(try_spaces(features, labels, spaces(), count, seed=seed)).space
        logs = held_out(features, labels, space, count, seed=seed).log()
        head = cls(fit_distances(features, labels, space, count))
        temperature, bias = calibrate(logs, labels)
        head.temperature.fill_(temperature)
        head.bias.copy_(bias)
        return head

    def forward(self, latents: Tensor) -> Tensor:
        logs = self.distance(latents).log().to(self.bias.dtype)
        return self.bias - self.temperature * logs

    def distance(self, latents: Tensor) -> Tensor:
        """Return K of every class (B, classes), 1 or more."""
        values: Tensor = self.distances(latents.mean(-1))
        return values

    def parts(self) -> dict[str, int]:
        linear = parameter_count(self) - parameter_count(self.distances)
        return self.distances.parts() | {"linear": linear}

    def config(self) -> dict[str, Any]:
        return self.distances.config()

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        return cls(ClassDistances.from_config(config, state, "distances."))

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        d = self.distances
        rows = d.forms.expand(d.classes, -1, -1).flatten(0, 1)
        layer = PolynomialLayer(d.monomials.terms, len(rows), standardized=False).to(rows)
        with torch.no_grad():
            layer.weight.copy_(rows)
            layer.bias.copy_(d.offsets.flatten())
        # log(1 + |p|^2) has slope 1 at most in the length of p: a row of that norm bounds it.
        row = rows.new_full((1, rows.shape[1]), rows.shape[1] ** -0.5)
        final = self.temperature.abs() * torch.block_diag(*[row] * d.classes)
        first = LinearMap("projection", d.weight, averaged=shape[1])
        polynomials = PolynomialMap(layer, final, reach=1.0)
        return HeadMaps((first,), LinearMap("distances", final), polynomials)
