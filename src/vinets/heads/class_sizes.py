"""The vanishing of a VI-Net's polynomials, each of which is to be small on its own class alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.polynomial_layer import PolynomialLayer


@dataclass(frozen=True)
class Vanishing:
    """The values of polynomials on points of all classes, small on the class of their ideal.

    Attributes
    ----------
    points : int
        Number of points that were looked at.
    smallest_own : float
        Share of the polynomials whose mean absolute value is smallest on their own class.
    own_over_other : float
        Mean absolute value on the own class divided by that on the other points; the median over
        the polynomials.
    mean_square : float or None
        Mean square on the own class at leading coefficient 1, the median over the polynomials; None
        where leading terms are not known.
    satisfied : float or None
        Share of the polynomials with such a mean square of at most psi: the paper's definition of
        approximate vanishing.
    """

    points: int
    smallest_own: float
    own_over_other: float
    mean_square: float | None
    satisfied: float | None

    def __str__(self) -> str:
        text = (
            f"{self.smallest_own:.0%} of the polynomials are smallest on their own class, at "
            f"{self.own_over_other:.3g} of their mean on the others"
        )
        if self.mean_square is None:
            return text
        text += f"; mean square {self.mean_square:.2g} at leading coefficient 1"
        return text if self.satisfied is None else f"{text}, at most psi for {self.satisfied:.0%}"


@torch.no_grad()
def class_means(
    layer: PolynomialLayer | BlockPolynomialLayer, parts: Iterable[tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Average absolute values and squares of polynomials on every class, (K, N) each.

    ``parts`` are points (B, ..., n) in the variables of the layer with their labels (B,). The third
    result is the number of points of every class, (K,).
    """
    counts = layer.counts
    assert counts is not None  # a layer of generators
    classes, layer = len(counts), layer.eval()
    device = layer.bias.device
    sums = torch.zeros(2, classes, len(layer.bias), dtype=torch.float64, device=device)
    seen = torch.zeros(classes, dtype=torch.float64, device=device)
    for points, labels in parts:
        y = layer(points.to(device).float()).double()
        y = y.reshape(len(y), -1, y.shape[-1])  # local polynomials have a value at every position
        labels = labels.to(device)
        sums[0].index_add_(0, labels, y.mean(1))
        sums[1].index_add_(0, labels, y.square().mean(1))
        seen += torch.bincount(labels, minlength=classes)
    sums /= seen.clamp_min(1)[:, None]
    return sums[0], sums[1], seen


@torch.no_grad()
def measure_vanishing(
    layer: PolynomialLayer | BlockPolynomialLayer,
    parts: Iterable[tuple[Tensor, Tensor]],
    psi: float | None = None,
) -> Vanishing:
    """Measure how the polynomials of a layer vanish on points; see :func:`class_means`.

    Classes of which there is no point do not count.
    """
    means, squares, seen = class_means(layer, parts)
    owners = layer.owners
    assert owners is not None
    columns = (seen[owners] > 0).nonzero()[:, 0]
    owners = owners[columns]
    own = means[owners, columns]
    others = seen[:, None].clone().expand(-1, len(columns)).clone()
    others[owners, torch.arange(len(columns), device=others.device)] = 0
    other = (means[:, columns] * others).sum(0) / others.sum(0).clamp_min(1)
    present = means[seen > 0][:, columns].min(0).values
    mean_square, satisfied = None, None
    leading = layer.leading_coefficients()
    if leading is not None:
        # A polynomial whose leading term was dropped has no such mean square, and cannot satisfy.
        monic = squares[owners, columns] / leading[columns].square()
        mean_square = float(monic.median())
        satisfied = None if psi is None else float((monic <= psi).double().mean())
    return Vanishing(
        points=int(seen.sum()),
        smallest_own=float((own <= present).double().mean()),
        own_over_other=float((own / other.clamp_min(1e-30)).median()),
        mean_square=mean_square,
        satisfied=satisfied,
    )
