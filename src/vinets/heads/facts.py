"""The build of a head in numbers: what was found and kept, how large, how well it vanishes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.heads.polynomial_layer import MonomialLayer


@dataclass(frozen=True)
class VanishingFacts:
    """The values of polynomials on points of all classes, small on the class of their ideal.

    Absolute values are averaged by class: ``smallest_own`` is the share of the polynomials with the
    smallest mean on their own class, ``own_over_other`` that mean divided by the one on the other
    points. ``mean_square`` is the mean square on the own class at leading coefficient 1, None where
    leading terms are not known; ``satisfied`` the share of the polynomials for which it is at most
    psi, the paper's definition of approximate vanishing. Quotient and mean square are medians.
    """

    points: int  # points that were looked at
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
    layer: MonomialLayer, parts: Iterable[tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Average absolute values and squares of polynomials on every class, (K, N) each.

    ``parts`` are points (B, ..., n) in the variables of the layer with their labels (B,). The third
    result counts the points of every class, (K,).
    """
    assert layer.counts is not None  # a layer of generators
    classes, layer, device = len(layer.counts), layer.eval(), layer.bias.device
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
    layer: MonomialLayer, parts: Iterable[tuple[Tensor, Tensor]], psi: float | None = None
) -> VanishingFacts:
    """Measure how the polynomials of a layer vanish on points of the classes that have any."""
    (means, squares, seen), owners = class_means(layer, parts), layer.owners
    assert owners is not None
    columns = (seen[owners] > 0).nonzero()[:, 0]
    owners = owners[columns]
    own = means[owners, columns]
    others = seen[:, None].repeat(1, len(columns))
    others[owners, torch.arange(len(columns), device=others.device)] = 0
    other = (means[:, columns] * others).sum(0) / others.sum(0).clamp_min(1)
    present = means[seen > 0][:, columns].min(0).values
    mean_square, satisfied, leading = None, None, layer.leading_coefficients()
    if leading is not None:
        # A polynomial whose leading term was dropped has no such mean square, and cannot satisfy.
        monic = squares[owners, columns] / leading[columns].square()
        mean_square = float(monic.median())
        satisfied = None if psi is None else float((monic <= psi).double().mean())
    return VanishingFacts(
        points=int(seen.sum()),
        smallest_own=float((own <= present).double().mean()),
        own_over_other=float((own / other.clamp_min(1e-30)).median()),
        mean_square=mean_square,
        satisfied=satisfied,
    )


@dataclass(frozen=True, eq=False)
class Pictures:
    """Points and values for figures of a head."""

    points: NDArray[np.float64]  # (m, n), variables of the polynomials for the examples used
    labels: NDArray[np.int64]  # (m,)
    means: NDArray[np.float64]  # (K, N), mean absolute value of every kept generator by class
    owners: NDArray[np.int64]  # (N,), the class that each of them vanishes on
    scores: tuple[NDArray[np.float64], ...]  # scores of all generators, class by class
    kept: tuple[NDArray[np.float64], ...]  # scores of the generators that were kept


@dataclass(frozen=True)
class ClosedForms:
    """The accuracies of heads in closed form, and the name of the head that was taken."""

    taken: str
    accuracies: dict[str, float]  # on held-out training examples
    sizes: dict[str, int]  # parameters that each head stores
    error: float  # the standard error of the best accuracy

    @classmethod
    def of(cls, accuracies: dict[str, float], sizes: dict[str, int], held_out: int) -> ClosedForms:
        """Take the smallest within a standard error of the best, on ``held_out`` examples.

        Examples
        --------
        >>> accuracies, sizes = {"ridge": 0.90, "distances": 0.91}, {"ridge": 10, "distances": 99}
        >>> ClosedForms.of(accuracies, sizes, 10_000).taken
        'distances'
        >>> print(ClosedForms.of(accuracies, sizes, 100))
        closed form: ridge, the smallest of those within a standard error (2.86 points) of the best
        held out:   ridge 90.00% (10 parameters), distances 91.00% (99 parameters)
        """
        best = max(accuracies.values())
        error = float((best * (1 - best) / held_out) ** 0.5)
        equals = [name for name, accuracy in accuracies.items() if accuracy >= best - error]
        return cls(min(equals, key=sizes.__getitem__), accuracies, sizes, error)

    def __str__(self) -> str:
        shown = (f"{k} {v:.2%} ({self.sizes[k]:,} parameters)" for k, v in self.accuracies.items())
        return (
            f"closed form: {self.taken}, the smallest of those within a standard error "
            f"({100 * self.error:.2f} points) of the best\nheld out:   " + ", ".join(shown)
        )


@dataclass(frozen=True)
class BuildFacts:
    """Facts about the build of a head, and the parameters that a network with it stores."""

    REMOVED: ClassVar[tuple[str, ...]] = ("placement",)  # a field of files of 0.2

    cut: str  #: where the network was cut
    latent_shape: tuple[int, int]  #: channels and positions
    examples: int  #: training examples whose latents were used
    parts: dict[str, int]  #: parameters of each part of the network, folded: all that is stored
    original_parameters: int  #: parameters of the uncut network
    seconds: dict[str, float]  #: wall-clock time of every step
    head: str = ""  #: the kind of the head
    explained_variance: float | None = None  #: share that the projection keeps; None without one
    generators_found: int = 0  #: polynomials over all classes
    generators_kept: int = 0  #: those that are left after pruning
    monomials_found: int = 0  #: terms of the generators, the constant left out
    monomials_kept: int = 0  #: terms of those that are left
    coefficients_found: int = 0  #: numbers in a matrix of all polynomials over all terms
    coefficients_kept: int = 0  #: numbers in that of those that are left
    degrees: dict[int, int] = field(default_factory=dict)  #: kept monomials of each degree
    capped: bool = False  #: whether there was no room for all generators
    vanishing: VanishingFacts | None = None  #: on the examples that generators were found on
    closed: ClosedForms | None = None  #: which head in closed form was taken, and why
    pictures: Pictures | None = field(
        default=None, repr=False, compare=False, metadata={"plain": False}
    )  #: for figures; not part of the JSON

    @property
    def parameters(self) -> int:
        """The number of all that the folded network stores."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        (channels, positions), explained = self.latent_shape, self.explained_variance
        found, kept = self.generators_found, self.generators_kept
        lines = [
            f"cut at {self.cut}, head {self.head}: {channels} channels at {positions} positions"
            + ("" if explained is None else f", projection keeps {explained:.1%} of the variance")
        ]
        if self.closed is not None:
            lines.append(str(self.closed))
        elif self.head == "products":
            lines.append(f"polynomials: products of {max(self.degrees)} forms")
            if found:
                lines.append(f"generators: {found:,} found, {kept:,} factored to start from")
        elif kept:
            lines += [
                f"generators: {found:,} found, {kept:,} kept",
                f"monomials:  {self.monomials_found:,} found, {self.monomials_kept:,} kept "
                f"(coefficients {self.coefficients_found:,} to {self.coefficients_kept:,})",
            ]
            if self.vanishing is not None:
                lines.append(f"vanishing:  {self.vanishing}")
        saved = 1 - self.parameters / self.original_parameters
        lines += [
            "parameters: " + ", ".join(f"{k} {v:,}" for k, v in self.parts.items()),
            f"total:      {self.parameters:,} instead of {self.original_parameters:,}"
            + (f", {saved:.0%} fewer" if saved > 0 else ""),
            "seconds:    " + ", ".join(f"{k} {v:.2f}" for k, v in self.seconds.items()),
        ]
        return "\n".join(lines)
