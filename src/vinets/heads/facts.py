"""How a head was built: what was found, what was kept, how large it is, how long it took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from vinets.heads.class_sizes import Vanishing


@dataclass(frozen=True, eq=False)
class Pictures:
    """Points and values to draw."""

    points: NDArray[np.float64]  # (m, n), variables of the polynomials for the examples used
    labels: NDArray[np.int64]  # (m,)
    means: NDArray[np.float64]  # (K, N), mean absolute value of every kept generator by class
    owners: NDArray[np.int64]  # (N,), the class that each of them vanishes on
    scores: tuple[NDArray[np.float64], ...]  # of all generators, class by class
    kept: tuple[NDArray[np.float64], ...]  # of those that were kept


@dataclass(frozen=True)
class ClosedForms:
    """The heads in closed form that were tried, and the one that was taken."""

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
    """How a head was built, and how many parameters a network with it stores.

    Attributes
    ----------
    cut, head : str
        Where the network was cut, and the kind of the head.
    latent_shape : tuple of int
        Channels and positions of the latents.
    examples : int
        Training examples whose latents were used.
    explained_variance : float or None
        Share of the variance that the projection keeps; None without one.
    generators_found, generators_kept : int
        Polynomials over all classes, before and after pruning.
    monomials_found, monomials_kept : int
        Terms that they use, the constant left out.
    coefficients_found, coefficients_kept : int
        Numbers that a matrix of all polynomials over all their terms would hold.
    degrees : dict
        How many kept monomials there are of each degree.
    parts : dict
        Parameters of each part of the network, folded: everything that is stored.
    original_parameters : int
        Parameters of the uncut network.
    seconds : dict
        Wall-clock time of every step.
    capped : bool
        Whether generators were left out because there was no room for more.
    vanishing : Vanishing or None
        How the generators that were kept vanish on the examples that they were found on; None of
        heads without generators.
    closed : ClosedForms or None
        Of a head in closed form: which was taken, and why.
    pictures : Pictures or None
        For figures; not part of the JSON.
    """

    REMOVED: ClassVar[tuple[str, ...]] = ("placement",)  # a field of files of 0.2

    cut: str
    latent_shape: tuple[int, int]
    examples: int
    parts: dict[str, int]
    original_parameters: int
    seconds: dict[str, float]
    head: str = ""
    explained_variance: float | None = None
    generators_found: int = 0
    generators_kept: int = 0
    monomials_found: int = 0
    monomials_kept: int = 0
    coefficients_found: int = 0
    coefficients_kept: int = 0
    degrees: dict[int, int] = field(default_factory=dict)
    capped: bool = False
    vanishing: Vanishing | None = None
    closed: ClosedForms | None = None
    pictures: Pictures | None = field(
        default=None, repr=False, compare=False, metadata={"plain": False}
    )

    @property
    def parameters(self) -> int:
        """Everything that the whole network stores, folded."""
        return sum(self.parts.values())

    def _polynomials(self) -> list[str]:
        if self.closed is not None:
            return [str(self.closed)]
        if self.head == "products":
            lines = [f"polynomials: products of {max(self.degrees)} forms"]
            if self.generators_found:
                found, kept = self.generators_found, self.generators_kept
                lines.append(f"generators: {found:,} found, {kept:,} factored to start from")
            return lines
        if not self.generators_kept:
            return []
        return [
            f"generators: {self.generators_found:,} found, {self.generators_kept:,} kept",
            f"monomials:  {self.monomials_found:,} found, {self.monomials_kept:,} kept "
            f"(coefficients {self.coefficients_found:,} to {self.coefficients_kept:,})",
            *([] if self.vanishing is None else [f"vanishing:  {self.vanishing}"]),
        ]

    def __str__(self) -> str:
        saved = 1 - self.parameters / self.original_parameters
        channels, positions = self.latent_shape
        explained = self.explained_variance
        lines = [
            f"cut at {self.cut}, head {self.head}: {channels} channels at {positions} positions"
            + ("" if explained is None else f", projection keeps {explained:.1%} of the variance"),
            *self._polynomials(),
            "parameters: " + ", ".join(f"{k} {v:,}" for k, v in self.parts.items()),
            f"total:      {self.parameters:,} instead of {self.original_parameters:,}"
            + (f", {saved:.0%} fewer" if saved > 0 else ""),
            "seconds:    " + ", ".join(f"{k} {v:.2f}" for k, v in self.seconds.items()),
        ]
        return "\n".join(lines)
