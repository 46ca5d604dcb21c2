r"""The last linear layer alone: the minimiser of the regularised logistic loss on fixed features.

With features :math:`x_i` standardised to mean 0 and variance 1, and labels :math:`y_i`, it is

.. math::
    \min_{W, b}\; \frac1m \sum_i \Bigl(\log \sum_k e^{w_k^\top x_i + b_k}
    - w_{y_i}^\top x_i - b_{y_i}\Bigr) + \frac{\lambda}{2} \|W\|_F^2 ,

which is strictly convex in :math:`W`: no seed, no step size and no number of threads decides it. It
is line 14 of the paper's pipeline, in which nothing but :math:`W_F` is trained.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

from vinets.core.settings import TrainingOptions
from vinets.heads.base import LastLayer
from vinets.training.epochs import Epoch, History

MAX_GRADIENT = 1e-8  # entry of the gradient, at which the minimum counts as reached, in float64
MAX_STEPS = 100  # steps of Newton; ten are usual
MAX_SLOPE = 0.01  # slope that may be left at the end of a step, as a share of that at its start
MIN_DEVIATION = 1e-12  # features of a smaller standard deviation say nothing


def minimise_logistic(
    x: Tensor, labels: Tensor, classes: int, decay: float, *, gradient: float = MAX_GRADIENT
) -> tuple[Tensor, Tensor]:
    """Return the weights (K, F) and the bias (K,) that minimise the regularised logistic loss.

    ``x`` (m, F) are standardised features in float64, ``decay`` is the positive weight of the
    squared norm of the weights. Ends once no entry of the gradient exceeds ``gradient``.

    Newton's steps are computed by conjugate gradients, in principal axes of the features. There the
    second derivative is nearly diagonal, which preconditions it.
    """
    m = len(x)
    hits = F.one_hot(labels, classes).to(x)
    axes, variances = _principal_axes(x)
    inputs = torch.cat([x @ axes, x.new_ones(m, 1)], 1)  # (m, r + 1), the bias last
    variances = torch.cat([variances, variances.new_ones(1)])
    penalty = torch.full_like(variances, decay)
    penalty[-1] = 0
    table = inputs.new_zeros(classes, inputs.shape[1])
    for _ in range(MAX_STEPS):
        logits = inputs @ table.mT
        shares = logits.softmax(1)
        slope = ((shares - hits) / m).mT @ inputs + penalty * table
        # The gradient with respect to the weights themselves, and not to their coordinates.
        plain = torch.cat([slope[:, :-1] @ axes.mT, slope[:, -1:]], 1)
        if float(plain.abs().max()) <= gradient:
            return table[:, :-1] @ axes.mT, table[:, -1]

        def curvature(step: Tensor, shares: Tensor = shares) -> Tensor:
            """Apply the second derivative of the loss to a step."""
            change = inputs @ step.mT
            gap = shares * (change - (shares * change).sum(1, keepdim=True)) / m
            return gap.mT @ inputs + penalty * step

        spread = (shares * (1 - shares)).mean(0)  # how undecided the answers are, class by class
        diagonal = spread[:, None] * variances + penalty
        # Far from the minimum an exact step is not worth its iterations.
        size = float(slope.norm())
        step = _conjugate_gradients(curvature, -slope, diagonal, min(0.1, size**0.5) * size)
        # The loss is minimised along the step. A step that is merely an improvement may go so far
        # that all answers are certain, also wrong ones: then nothing bends the loss but the
        # penalty, and many steps go by until it does again. Slopes decide, because near the
        # minimum the values of the loss agree to the last bit.
        change = inputs @ step.mT
        allowed = MAX_SLOPE * abs(float((slope * step).sum()))
        low, high, length = 0.0, 1.0, 1.0
        while high - low > 1e-10:
            moved = (logits + length * change).softmax(1)
            ahead = float(((moved - hits) * change).sum() / m)
            ahead += float((penalty * (table + length * step) * step).sum())
            if ahead <= allowed and (ahead >= -allowed or length == 1.0):
                break
            low, high = (low, length) if ahead > 0 else (length, high)
            length = (low + high) / 2
        table = table + length * step
    raise ValueError(
        f"The classifier was not found to a gradient of {gradient:g} within {MAX_STEPS} steps. "
        f"Raise weight_decay, which is {decay:g}."
    )


def _principal_axes(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return principal axes (F, r) of the rows of ``x`` (m, F), and the mean square along each.

    Weights of a regularised fit lie in the span of the rows, of which these are a basis.
    """
    m, width = x.shape
    wide = width > m  # then the smaller of the two Gram matrices is that of the rows
    values, vectors = torch.linalg.eigh(x @ x.mT if wide else x.mT @ x)
    kept = values > 1e-14 * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    if wide:
        vectors = (x.mT @ vectors) / values.sqrt()
    return vectors, values / m


def _conjugate_gradients(
    apply: Callable[[Tensor], Tensor], target: Tensor, diagonal: Tensor, residual: float
) -> Tensor:
    """Solve ``apply(step) = target`` for a positive definite map, up to a norm of ``residual``.

    ``diagonal`` is near the diagonal of the map.
    """
    step, left = torch.zeros_like(target), target.clone()
    direction = left / diagonal
    product = float((left * direction).sum())
    for _ in range(1000):
        if float(left.norm()) <= residual:
            break
        image = apply(direction)
        along = product / float((direction * image).sum())
        step += along * direction
        left -= along * image
        scaled = left / diagonal
        before, product = product, float((left * scaled).sum())
        direction = scaled + (product / before) * direction
    return step


@torch.no_grad()
def solve_classifier(
    last: LastLayer, parts: Iterable[tuple[Tensor, Tensor]], recipe: TrainingOptions
) -> History:
    """Train the classifier of a head in place; the minimum is a history of one epoch.

    ``parts`` are latents, or what comes in front of ``last.features``, with their labels. The
    ``weight_decay`` of the recipe decides the minimum. Normalisation in front of the linear layer
    becomes that of these features.
    """
    begin = time.perf_counter()
    pairs = [(last.features(z).double(), labels) for z, labels in parts]
    features, labels = (torch.cat(column) for column in zip(*pairs, strict=True))
    mean, std = features.mean(0), features.std(0, unbiased=False)
    std = torch.where(std > MIN_DEVIATION, std, 1.0)
    features.sub_(mean).div_(std)
    classes = last.linear.out_features
    weight, bias = minimise_logistic(features, labels, classes, recipe.weight_decay)
    logits = torch.addmm(bias, features, weight.mT)
    loss = float(F.cross_entropy(logits, labels))
    accuracy = float((logits.argmax(1) == labels).double().mean())
    if last.norm is None:  # a folded head: the scale belongs to the weights
        weight = weight / std
        bias = bias - weight @ mean
    else:
        assert last.norm.running_mean is not None and last.norm.running_var is not None
        last.norm.running_mean.copy_(mean)
        last.norm.running_var.copy_(std.square())
        # This takes out the small number that batch normalisation adds to every variance.
        last.norm.weight.copy_((std.square() + last.norm.eps).sqrt() / std)
        last.norm.bias.zero_()
    last.linear.weight.copy_(weight)
    last.linear.bias.copy_(bias)
    epoch = Epoch(1, loss, accuracy, None, None, time.perf_counter() - begin)
    return History((epoch,), 1, recipe)
