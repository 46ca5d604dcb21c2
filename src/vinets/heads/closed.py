"""Heads without training: their weights are solved for in closed form.

``closed`` fits ridge regression, linear discriminant analysis, distances to the classes
(:mod:`vinets.heads.class_distances`), and ridge regression on absolute values of generators to
four fifths of the latents, judges them on the last one, and fits the smallest of those within a
standard error of the most accurate again, to all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.core.options import FLAG, option
from vinets.heads import base, vanishing
from vinets.heads.base import ClosedFormHead, FeatureHead, Head, HeadOptions, features_of
from vinets.heads.class_distances import DistanceHead, draw_folds
from vinets.heads.facts import ClosedForms
from vinets.heads.linear import LinearHead, PooledHead
from vinets.heads.pieces import linear_of
from vinets.heads.vanishing import VanishingHead, VanishingOptions
from vinets.latent.collect import Latents

PARTS = 5  # parts of the latents, one of which is held out
MAX_FLAT = 2048  # values of a map that ridge regression sees as a whole
MAX_GENERATORS = 1024  # generators of all classes
PENALTIES = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0)
"""Penalties of ridge regression, in units of the mean variance of a feature."""

# --- ridge regression -------------------------------------------------------------------------


@torch.no_grad()
def fit_ridge(
    features: Tensor, labels: Tensor, classes: int, *, penalties: Sequence[float] = PENALTIES
) -> nn.Linear:
    """Fit a linear layer by least squares on classes as -1 and 1, with a penalty.

    The penalty is the one of the best cross-validated accuracy.

    Examples
    --------
    >>> points = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
    >>> fit_ridge(points, torch.tensor([0, 0, 1, 1]), 2)(points).argmax(1)
    tensor([0, 0, 1, 1])
    """
    right = torch.zeros(len(penalties))
    for mask in draw_folds(labels, 3, seed=0):
        solutions = _ridge_path(features[~mask], labels[~mask], classes, penalties)
        for i, (weight, bias) in enumerate(solutions):
            answers = features[mask].double() @ weight.mT + bias
            right[i] += (answers.argmax(1) == labels[mask]).sum().cpu()
    best = int(right.argmax())
    (solution,) = _ridge_path(features, labels, classes, penalties[best : best + 1])
    return linear_of(*(t.to(features) for t in solution))


def _ridge_path(
    features: Tensor, labels: Tensor, classes: int, penalties: Sequence[float]
) -> list[tuple[Tensor, Tensor]]:
    """Solve for weight and bias of every penalty by factoring the smaller Gram matrix once."""
    x = features.double()
    y = F.one_hot(labels, classes).to(x) * 2 - 1
    mean, centre = x.mean(0), y.mean(0)
    x, y = x - mean, y - centre
    m, width = x.shape
    unit, wide = x.square().sum() / width, width > m
    squares, vectors = torch.linalg.eigh(x @ x.mT if wide else x.mT @ x)
    turned = vectors.mT @ (y if wide else x.mT @ y)
    solutions = []
    for penalty in penalties:
        solved = vectors @ (turned / (squares.clamp_min(0) + penalty * unit)[:, None])
        weight = (x.mT @ solved if wide else solved).mT
        solutions.append((weight, centre - weight @ mean))
    return solutions


def fit_lda(features: Tensor, labels: Tensor, classes: int) -> nn.Linear:
    """Fit a linear layer by discriminant analysis, the covariance shrunk by Ledoit and Wolf."""
    # Most commands that import heads have no use for it, and it takes half a second.
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    model.fit(features.cpu().double().numpy(), labels.cpu().numpy())
    weight, bias = torch.from_numpy(model.coef_), torch.from_numpy(model.intercept_)
    if len(weight) == 1:  # for two classes scikit-learn gives the difference alone
        weight, bias = torch.cat([-weight / 2, weight / 2]), torch.cat([-bias / 2, bias / 2])
    return linear_of(weight.to(features), bias.to(features))


# --- heads ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RidgeOptions(HeadOptions):
    """Options of ridge regression."""

    flat: bool = option(False, FLAG, "See the whole map, and not its mean over positions.")


class RidgeHead(ClosedFormHead):
    """A linear layer by ridge regression; the penalty is chosen by cross-validation."""

    kind, label = "ridge", "ridge"
    Options = RidgeOptions

    @classmethod
    def solve(cls, latents: Latents, mask: Tensor, options: RidgeOptions, seed: int) -> Head:
        kind = LinearHead if options.flat else PooledHead
        return solved(kind.make(latents, options, seed), latents, mask)


class LDAHead(ClosedFormHead):
    """A linear layer by linear discriminant analysis, the covariance shrunk by Ledoit and Wolf."""

    kind, label = "lda", "LDA"

    @classmethod
    def solve(cls, latents: Latents, mask: Tensor, options: HeadOptions, seed: int) -> Head:
        return solved(PooledHead.make(latents, options, seed), latents, mask, fit_lda)


class GeneratorRidgeHead(ClosedFormHead):
    """The paper's head with a last layer by ridge regression, for ``closed`` alone."""

    @classmethod
    def solve(cls, latents: Latents, mask: Tensor, options: HeadOptions, seed: int) -> Head:
        keep = max(1, min(128, MAX_GENERATORS // latents.n_classes))
        chosen = VanishingOptions(keep=keep)
        variables = vanishing.find_components(latents, chosen, seed)
        generators = vanishing.score_generators(variables, mask, mask, chosen.ideal(), chosen.score)
        points = variables.points[mask.to(variables.points.device)]
        layer, _, _ = vanishing.make_layer(generators, points, chosen)
        assert variables.projection is not None  # the variables are components
        inputs = variables.rescale, variables.projection
        head = VanishingHead(*inputs, layer, latents.n_classes, order=chosen.order)
        return solved(head, latents, mask)


def solved(
    head: FeatureHead, latents: Latents, mask: Tensor, fit: Callable[..., nn.Linear] = fit_ridge
) -> Head:
    """Give a head the linear layer that is solved for on its features of a mask (m,)."""
    head.norm = None
    features, labels = features_of(latents, mask, head.eval().to(latents.device).features)
    head.linear = fit(features, labels, latents.n_classes)
    return head


class ChosenHead(ClosedFormHead):
    """The smallest head in closed form within a standard error of the most accurate one."""

    kind, label = "closed", "closed form"

    @classmethod
    @torch.no_grad()
    def make(cls, latents: Latents, options: HeadOptions, seed: int) -> Head:
        begin = time.perf_counter()
        held = draw_folds(latents.store.labels.cpu(), PARTS, seed)[0]
        candidates, accuracies, sizes = candidates_for(latents.shape), {}, {}
        for name, (kind, own) in candidates.items():
            head = kind.solve(latents, ~held, own, seed).eval().to(latents.device)
            logits, truth = features_of(latents, held, head)
            accuracies[name] = float((logits.argmax(1) == truth).double().mean())
            sizes[name] = sum(head.folded().parts().values())
        chosen = ClosedForms.of(accuracies, sizes, int(held.sum()))
        kind, own = candidates[chosen.taken]
        head = kind.make(latents, own, seed)
        head.facts = base.plain_facts(head, latents, begin, closed=chosen)
        return head


def candidates_for(shape: tuple[int, int]) -> dict[str, tuple[type[ClosedFormHead], HeadOptions]]:
    """Return the kinds that ``closed`` tries on latents of C channels at P positions, by name."""
    plain, small = HeadOptions(), shape[1] > 1 and shape[0] * shape[1] <= MAX_FLAT
    return {
        "ridge": (RidgeHead, RidgeOptions()),
        **({"ridge, flat": (RidgeHead, RidgeOptions(flat=True))} if small else {}),
        "LDA": (LDAHead, plain),
        "distances": (DistanceHead, plain),
        "ridge on generators": (GeneratorRidgeHead, plain),
    }
