"""Heads without training: their weights are solved for in closed form.

``ridge`` is ridge regression on the mean over positions or on the whole map, ``lda`` is shrunk
linear discriminant analysis of that mean, ``distance`` are distances to the classes
(:mod:`vinets.heads.class_distances`). ``closed`` fits these, and ridge regression on absolute
values of generators, to four fifths of the latents, judges them on the last one, and fits the
smallest of those within a standard error of the most accurate again, to all of them.
"""

from __future__ import annotations

import time
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from vinets.core.options import flag, option
from vinets.core.progress import Progress
from vinets.heads.base import Head, HeadOptions, plain_facts
from vinets.heads.distance import DistanceHead
from vinets.heads.distance_fit import (
    choose_space,
    fit_distances,
    fold_of,
    held_out,
    most_folds,
    spaces,
    try_spaces,
)
from vinets.heads.facts import ClosedForms
from vinets.heads.linear import LinearHead, PooledHead
from vinets.heads.ridge import calibrate, fit_ridge
from vinets.heads.vanishing import (
    VanishingHead,
    VanishingOptions,
    find_components,
    make_layer,
    score_generators,
)
from vinets.latent.collect import Latents

PARTS = 5  # parts of the latents, one of which is held out
MAX_FLAT = 2048  # values of a map that ridge regression sees as a whole
MAX_GENERATORS = 1024  # generators of all classes

Solve = Callable[[Tensor], Head]
"""Makes a head from the latents of a mask (m,) of examples."""


@dataclass(frozen=True)
class RidgeOptions(HeadOptions):
    """Options of ridge regression."""

    flat: bool = option(False, flag(), "See the whole map, and not its mean over positions.")


class ClosedFormHead(Head, ABC):
    """Base of kinds that name a way to solve for a head; the head itself is of another kind."""

    needs_training = False


class RidgeHead(ClosedFormHead):
    """A linear layer by ridge regression; the penalty is chosen by cross-validation."""

    kind, label = "ridge", "ridge"
    Options = RidgeOptions

    @classmethod
    def make(
        cls, latents: Latents, options: RidgeOptions, seed: int, progress: Progress | None
    ) -> Head:
        return _solved(latents, partial(_ridge, latents, flat=options.flat))


class LDAHead(ClosedFormHead):
    """A linear layer by linear discriminant analysis, the covariance shrunk by Ledoit and Wolf."""

    kind, label = "lda", "LDA"

    @classmethod
    def make(
        cls, latents: Latents, options: HeadOptions, seed: int, progress: Progress | None
    ) -> Head:
        return _solved(latents, partial(_discriminant, latents))


class ChosenHead(ClosedFormHead):
    """The smallest head in closed form within a standard error of the most accurate one."""

    kind, label = "closed", "closed form"

    @classmethod
    def make(
        cls, latents: Latents, options: HeadOptions, seed: int, progress: Progress | None
    ) -> Head:
        labels = latents.store.labels.cpu()
        held = fold_of(labels, most_folds(labels, PARTS), seed) == 0
        ways = _ways(latents, seed)
        accuracies, sizes = {}, {}
        for name, solve in ways.items():
            head = solve(~held).eval()
            answers, truth = _seen(latents, held, lambda z, h=head: h.to(z.device)(z).argmax(1))  # type: ignore[misc]
            accuracies[name] = float((answers == truth).double().mean())
            sizes[name] = sum(head.folded().parts().values())
        tried = ClosedForms.of(accuracies, sizes, int(held.sum()))
        return _solved(latents, ways[tried.taken], closed=tried)


@torch.no_grad()
def _solved(latents: Latents, solve: Solve, **more: Any) -> Head:
    """Return a head that was solved for on all examples, folded."""
    begin = time.perf_counter()
    every = torch.ones(len(latents.store), dtype=torch.bool)
    head = solve(every).folded()
    head.facts = plain_facts(head, latents, begin, **more)
    return head.to(latents.device).eval()


def solve_distances(latents: Latents, seed: int) -> Head:
    """Build :class:`vinets.heads.DistanceHead`, its space chosen by cross-validation."""
    return _solved(latents, partial(_distances, latents, seed=seed))


def _ways(latents: Latents, seed: int) -> dict[str, Solve]:
    channels, positions = latents.shape
    ways: dict[str, Solve] = {"ridge": partial(_ridge, latents, flat=False)}
    if positions > 1 and channels * positions <= MAX_FLAT:
        ways["ridge, flat"] = partial(_ridge, latents, flat=True)
    ways["LDA"] = partial(_discriminant, latents)
    ways["distances"] = partial(_distances, latents, seed=seed)
    ways["ridge on generators"] = partial(_generators, latents, seed=seed)
    return ways


def _seen(latents: Latents, mask: Tensor, see: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """Return what ``see`` makes of the latents of some examples, in chunks, and their labels."""
    rows, start = [], 0
    for values, _ in latents.store.chunks(1024):
        wanted = mask[start : start + len(values)].to(values.device)
        rows.append(see(values[wanted].float()))
        start += len(values)
    labels = latents.store.labels
    return torch.cat(rows), labels[mask.to(labels.device)].to(rows[0].device)


@torch.no_grad()
def _fill(linear: nn.Linear, weight: Tensor, bias: Tensor) -> None:
    linear.weight.copy_(weight)
    linear.bias.copy_(bias)


def _ridge(latents: Latents, mask: Tensor, *, flat: bool) -> Head:
    features, labels = _seen(latents, mask, lambda z: z.flatten(1) if flat else z.mean(-1))
    found = fit_ridge(features, labels, latents.n_classes)
    kind = LinearHead if flat else PooledHead
    head = kind(features.shape[1], latents.n_classes, normalized=False)
    _fill(head.linear, found.weight, found.bias)
    return head


def _discriminant(latents: Latents, mask: Tensor) -> Head:
    # Most commands that import heads have no use for it, and it takes half a second.
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    features, labels = _seen(latents, mask, lambda z: z.mean(-1))
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    model.fit(features.cpu().double().numpy(), labels.cpu().numpy())
    weight, bias = torch.from_numpy(model.coef_), torch.from_numpy(model.intercept_)
    if len(weight) == 1:  # for two classes scikit-learn gives the difference alone
        weight, bias = torch.cat([-weight / 2, weight / 2]), torch.cat([-bias / 2, bias / 2])
    head = PooledHead(features.shape[1], latents.n_classes, normalized=False)
    _fill(head.linear, weight, bias)
    return head


@torch.no_grad()
def _distances(latents: Latents, mask: Tensor, *, seed: int) -> DistanceHead:
    features, labels = _seen(latents, mask, lambda z: z.mean(-1))
    count = latents.n_classes
    space = choose_space(try_spaces(features, labels, spaces(), count, seed=seed)).space
    logs = held_out(features, labels, space, count, seed=seed).log()
    head = DistanceHead(fit_distances(features, labels, space, count))
    temperature, bias = calibrate(logs, labels)
    head.temperature.fill_(temperature)
    head.bias.copy_(bias)
    return head


@torch.no_grad()
def _generators(latents: Latents, mask: Tensor, *, seed: int) -> Head:
    """The paper's head with a last layer in closed form."""
    keep = max(1, min(128, MAX_GENERATORS // latents.n_classes))
    options = VanishingOptions(keep=keep)
    variables = find_components(latents, options, seed)
    generators = score_generators(variables, mask, mask, options.ideal(), options.score)
    points = variables.points[mask.to(variables.points.device)]
    layer = make_layer(generators, points, options).layer
    assert variables.projection is not None  # the variables are components
    head = VanishingHead(
        variables.rescale, variables.projection, layer, latents.n_classes, order=options.order
    )
    head.norm = None
    head.eval().to(latents.device)
    features, labels = _seen(latents, mask, lambda z: head.features(z.to(latents.device)))
    found = fit_ridge(features, labels, latents.n_classes)
    _fill(head.linear, found.weight, found.bias)
    return head
