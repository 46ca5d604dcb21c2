r"""Distances to classes in closed form: moments of monomials, one Cholesky factor a class.

The covariance of a class with few points is drawn towards the mean of all of them,
:math:`(1 - s) S_c + s \bar S + \varepsilon I` for monomials of unit variance: with :math:`s = 1`
and degree 1 that is linear discriminant analysis, with :math:`s = 0` quadratic, or a Christoffel
function of higher degree. What fits is chosen by cross-validation on the classes that are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.core.checks import parameter_error
from vinets.heads.class_distances import ClassDistances, lengths, products_of
from vinets.latent.pca import Projection, fit_pca

TEMPERATURES = tuple(2.0 ** (k / 2) for k in range(-6, 15))
SMALLEST = 1e-12  # variance of a monomial that is constant up to rounding


@dataclass(frozen=True)
class Space:
    """Which monomials a distance sees, and how their covariances are regularised."""

    components: int  # principal components, of unit variance, squashed by tanh
    products: int = 0  # how many of the first ones are multiplied with each other
    degree: int = 1  # of these products
    shrink: float = 1.0  # s, towards the covariance that all classes share
    epsilon: float = 0.1  # added to the diagonal

    @property
    def monomials(self) -> tuple[int, int, int]:
        """What decides on the monomials alone."""
        return self.components, self.products, self.degree


def spaces() -> list[Space]:
    """The candidates that are tried by default.

    All components with one covariance for all classes, fewer with their own, and products.
    """
    shapes = (
        ((512, 0, 1), (1.0,), (0.01, 0.1, 1.0)),
        ((64, 0, 1), (0.1, 0.5, 0.9, 1.0), (0.01, 0.1, 1.0)),
        ((16, 16, 2), (0.1, 0.5, 0.9), (0.01, 0.1)),
        ((128, 16, 2), (0.1, 0.5, 0.9), (0.01, 0.1, 1.0)),
    )
    return [Space(*m, s, e) for m, shrinks, epsilons in shapes for s in shrinks for e in epsilons]


@dataclass(frozen=True, eq=False)
class Moments:
    """Counts (K,), means (K, S) and covariances (K, S, S) of monomials by class, in float64."""

    counts: Tensor
    means: Tensor
    covariances: Tensor

    @classmethod
    def of(cls, values: Tensor, labels: Tensor, classes: int) -> Moments:
        """Of monomials (m, S); the covariance of a single point is zero."""
        size = values.shape[1]
        counts = torch.bincount(labels, minlength=classes)
        if int(counts.min()) == 0:
            missing = (counts == 0).nonzero()[:, 0].tolist()
            raise ValueError(f"every class needs an example. There is none of {missing[:5]}.")
        means = values.new_zeros(classes, size, dtype=torch.float64)
        covariances = values.new_zeros(classes, size, size, dtype=torch.float64)
        for k in range(classes):
            mine = values[labels == k].double()
            means[k] = mine.mean(0)
            centred = mine - means[k]
            covariances[k] = centred.mT @ centred / len(mine)
        return cls(counts, means, covariances)

    def forms(self, shrink: float, epsilon: float) -> tuple[Tensor, Tensor]:
        """Triangular F (K, S, S) and offsets b (K, S) with K_c(v) = 1 + |F_c v + b_c|^2.

        Where nothing of a class's own covariance is left, there is one F, (1, S, S).
        """
        share = (self.counts / self.counts.sum()).to(self.means)
        within = torch.einsum("k,kij->ij", share, self.covariances)
        eye = torch.eye(within.shape[0], dtype=within.dtype, device=within.device)
        own = self.covariances[:1] if shrink == 1 else self.covariances
        factor = torch.linalg.cholesky(torch.lerp(own, within, shrink) + epsilon * eye)
        found = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
        return found, -(found @ self.means[..., None]).squeeze(-1)


class Variables:
    """Whitened components of features (m, D), as many as there are, and monomials of them.

    The monomials are standardised on the features given here, ``values`` (m, S).
    """

    def __init__(self, features: Tensor, monomials: tuple[int, int, int]) -> None:
        components, products, degree = monomials
        pca = fit_pca(lambda: [features], components, at_most=True)
        self.projection = Projection.from_pca(pca, "unit")
        n = len(self.projection.bias)
        self.terms = products_of(n, min(products, n), degree)
        self.module = ClassDistances(features.shape[1], self.terms, 1).to(features)
        self.module.weight.copy_(self.projection.weight)
        self.module.bias.copy_(self.projection.bias)
        self.shift, self.scale = features.new_zeros(()), features.new_ones(())
        values = self(features)
        self.shift = values.mean(0)
        self.scale = values.var(0, correction=0).clamp_min(SMALLEST).sqrt()
        self.values = values.sub_(self.shift).div_(self.scale)

    def __call__(self, features: Tensor) -> Tensor:
        """Standardised monomials (m, S) of features (m, D)."""
        values = torch.cat([self.module.values(part) for part in features.split(4096)])
        return values.sub_(self.shift).div_(self.scale)


@torch.no_grad()
def fit_distances(features: Tensor, labels: Tensor, space: Space, classes: int) -> ClassDistances:
    """The distances to every class, from features (m, D) and labels (m,).

    Examples
    --------
    >>> points = torch.tensor([[0.0, 0.0], [1.0, 0.0], [4.0, 5.0], [5.0, 5.0]])
    >>> found = fit_distances(points, torch.tensor([0, 0, 1, 1]), Space(2), 2)
    >>> found(points).argmin(1)
    tensor([0, 0, 1, 1])
    """
    _check(features, labels)
    seen = Variables(features, space.monomials)
    moments = Moments.of(seen.values, labels, classes)
    forms, offsets = moments.forms(space.shrink, space.epsilon)
    # what standardises the monomials goes into the forms
    forms = forms / seen.scale.double()
    offsets = offsets - forms @ seen.shift.double()
    shared = len(forms) < classes
    made = ClassDistances(features.shape[1], seen.terms, classes, shared=shared).to(features)
    made.weight.copy_(seen.projection.weight)
    made.bias.copy_(seen.projection.bias)
    made.forms.copy_(forms)
    made.offsets.copy_(offsets)
    return made


def _check(features: Tensor, labels: Tensor) -> None:
    if features.ndim != 2 or len(features) != len(labels):
        got = f"{tuple(features.shape)} and {tuple(labels.shape)}"
        raise parameter_error("fit_distances", "features", "(m, D) beside labels (m,)", got)


@dataclass(frozen=True)
class TriedSpace:
    """A space and how well held-out points are classified in it."""

    space: Space
    loss: float  # mean negative log-likelihood of held-out points, at the best temperature
    accuracy: float  # of the nearest class, on held-out points
    temperature: float  # that K is raised to: class c has the weight K_c ** -temperature


@torch.no_grad()
def try_spaces(
    features: Tensor,
    labels: Tensor,
    candidates: Sequence[Space],
    classes: int,
    *,
    held: tuple[Tensor, Tensor] | None = None,
    folds: int = 3,
    seed: int = 0,
    most: int = 1000,
) -> list[TriedSpace]:
    """Judge every space by ``held`` features and labels; without them, by cross-validation.

    Cross-validation judges at most ``most`` points of a fold.
    """
    _check(features, labels)
    if held is None:
        folds = most_folds(labels, folds)
        parts = fold_of(labels, folds, seed)
        draw = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
        draw = draw.to(labels.device)
        judged = [draw[parts[draw] == fold][:most] for fold in range(folds)]
        truth = labels[torch.cat(judged)]
    else:
        truth = held[1]
    found: list[TriedSpace] = []
    groups: dict[tuple[int, int, int], list[Space]] = {}
    for one in candidates:
        groups.setdefault(one.monomials, []).append(one)
    for monomials, group in groups.items():
        # components know no labels, and may see all points
        seen = Variables(features, monomials)
        if held is None:
            rounds = [(parts != k, seen.values[index]) for k, index in enumerate(judged)]
        else:
            rounds = [(torch.ones_like(labels, dtype=torch.bool), seen(held[0]))]
        logs: dict[Space, list[Tensor]] = {one: [] for one in group}
        for mine, values in rounds:
            moments = Moments.of(seen.values[mine], labels[mine], classes)
            for one in group:
                logs[one].append(_logs(moments, one, values))
        found += [_judged(one, torch.cat(logs[one]), truth) for one in group]
    return found


def choose_space(tried: Sequence[TriedSpace]) -> TriedSpace:
    """The space under which held-out points are likeliest."""
    return min(tried, key=lambda one: one.loss)


def _logs(moments: Moments, space: Space, values: Tensor) -> Tensor:
    forms, offsets = (t.to(values.dtype) for t in moments.forms(space.shrink, space.epsilon))
    return torch.cat([lengths(part, forms, offsets).log() for part in values.split(256)])


def _judged(space: Space, logs: Tensor, labels: Tensor) -> TriedSpace:
    losses = {t: float(torch.nn.functional.cross_entropy(-t * logs, labels)) for t in TEMPERATURES}
    best = min(losses, key=losses.__getitem__)
    right = (logs.argmin(1) == labels).double().mean()
    return TriedSpace(space, losses[best], float(right), best)


@torch.no_grad()
def held_out(
    features: Tensor, labels: Tensor, space: Space, classes: int, *, folds: int = 3, seed: int = 0
) -> Tensor:
    """K of every point (m, K), from distances that were fitted to the other folds."""
    folds = most_folds(labels, folds)
    parts = fold_of(labels, folds, seed)
    found = features.new_zeros(len(features), classes)
    for k in range(folds):
        mine = parts != k
        others = fit_distances(features[mine], labels[mine], space, classes)
        found[~mine] = torch.cat([others(part) for part in features[~mine].split(2048)]).to(found)
    return found


def most_folds(labels: Tensor, folds: int) -> int:
    """``folds``, or as many as the smallest class has examples."""
    least = int(labels.unique(return_counts=True)[1].min())
    if least < 2:
        raise ValueError(
            "Cross-validation needs 2 examples of every class. A class has one; pass more examples."
        )
    return min(folds, least)


def fold_of(labels: Tensor, folds: int, seed: int) -> Tensor:
    """The fold (m,) of every example, classes spread evenly."""
    generator = torch.Generator().manual_seed(seed)
    result = torch.zeros(len(labels), dtype=torch.int64)
    for members in _members(labels.cpu()):
        order = torch.randperm(len(members), generator=generator)
        result[members[order]] = torch.arange(len(members)) % folds
    return result.to(labels.device)


def _members(labels: Tensor) -> Iterator[Tensor]:
    for k in labels.unique().tolist():
        yield (labels == k).nonzero()[:, 0]
