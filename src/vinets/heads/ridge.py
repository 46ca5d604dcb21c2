"""Classifiers in closed form on features: ridge regression, and distances with a temperature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from vinets.heads.distance_fit import fold_of, most_folds

PENALTIES = tuple(10.0**k for k in range(-5, 3))
"""Of ridge regression, in units of the mean variance of a feature."""

BIAS_PENALTY = 1e-3  # on the squares of the biases, for classes with few held-out points
STEPS = 100


@dataclass(frozen=True, eq=False)
class Linear:
    """Logits ``features @ weight.T + bias``."""

    weight: Tensor  # (K, D)
    bias: Tensor  # (K,)
    penalty: float
    accuracy: float  # of held-out points in cross-validation

    def __call__(self, features: Tensor) -> Tensor:
        return features.to(self.weight.dtype) @ self.weight.mT + self.bias


@torch.no_grad()
def fit_ridge(
    features: Tensor,
    labels: Tensor,
    classes: int,
    *,
    penalties: Sequence[float] = PENALTIES,
    folds: int = 3,
    seed: int = 0,
) -> Linear:
    """Least squares on classes as -1 and 1, the penalty by cross-validated accuracy.

    Examples
    --------
    >>> points = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
    >>> fit_ridge(points, torch.tensor([0, 0, 1, 1]), 2)(points).argmax(1)
    tensor([0, 0, 1, 1])
    """
    folds = most_folds(labels, folds)
    parts = fold_of(labels, folds, seed)
    right = torch.zeros(len(penalties))
    for fold in range(folds):
        mine = parts != fold
        for i, (weight, bias) in enumerate(
            _paths(features[mine], labels[mine], classes, penalties)
        ):
            answers = features[~mine].double() @ weight.mT + bias
            right[i] += (answers.argmax(1) == labels[~mine]).sum().cpu()
    best = int(right.argmax())
    (weight, bias), *_ = _paths(features, labels, classes, penalties[best : best + 1])
    accuracy = float(right[best] / len(labels))
    return Linear(weight.to(features), bias.to(features), penalties[best], accuracy)


def _paths(
    features: Tensor, labels: Tensor, classes: int, penalties: Sequence[float]
) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases for every penalty, from one factorisation of the smaller Gram matrix."""
    x = features.double()
    mean = x.mean(0)
    x = x - mean
    y = F.one_hot(labels, classes).to(x) * 2 - 1
    centre = y.mean(0)
    y = y - centre
    m, width = x.shape
    unit = x.square().sum() / width
    wide = width > m
    squares, vectors = torch.linalg.eigh(x @ x.mT if wide else x.mT @ x)
    turned = vectors.mT @ (y if wide else x.mT @ y)
    found = []
    for penalty in penalties:
        solved = vectors @ (turned / (squares.clamp_min(0) + penalty * unit)[:, None])
        weight = (x.mT @ solved if wide else solved).mT
        found.append((weight, centre - weight @ mean))
    return found


def calibrate(logs: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    """Temperature t and biases b (K,): held-out points are likeliest under softmax(b - t log K).

    ``logs`` (m, K) are the logarithms of the distances of held-out points. The problem is convex.
    """
    x = logs.detach().double()
    with torch.enable_grad():
        # its logarithm, for it is positive
        log_t = torch.zeros((), dtype=torch.float64, device=x.device, requires_grad=True)
        bias = torch.zeros(x.shape[1], dtype=torch.float64, device=x.device, requires_grad=True)
        solver = torch.optim.LBFGS(
            [log_t, bias], max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_grad=1e-7
        )

        def loss() -> Tensor:
            solver.zero_grad()
            value = F.cross_entropy(bias - log_t.exp() * x, labels)
            value = value + BIAS_PENALTY * bias.square().sum()
            value.backward()
            return value

        solver.step(loss)
    return float(log_t.detach().exp()), (bias - bias.mean()).detach()
