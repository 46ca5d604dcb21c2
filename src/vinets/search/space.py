"""What is tried: cuts of a network, and heads behind each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, prod
from typing import Any

from vinets.core.settings import BEST
from vinets.heads import HEADS, ProductsHead, VanishingHead
from vinets.latent.cut import CutPoint
from vinets.runs.trial import Trial

CUTS = 10  # at most
LARGEST = 0.9  # of the uncut network's parameters or operations: beyond, nothing is saved
HEAD = 500_000  # parameters of a large head, at most
SHARE = 0.2  # of the uncut network's parameters, at most
SMALL_DATA = 10_000  # examples, below which batches are small
FEW_CLASSES = 20  # with no more, a teacher's answers say more at a higher temperature
WARM = 4.0
VARIABLES = 16  # of a VI-Net's polynomials, of which there are then at most 152 monomials
LEAST_GENERATORS = 4  # per class, below which a VI-Net is not tried
MOST_GENERATORS = 64

VANISHING: dict[str, Any] = {
    **{"placement": "global", "components": VARIABLES, "order": "pca-tanh", "scale": "unit"},
    **{"normalization": "leading", "psi": 0.03, "max_degree": 2, "monomials": None},
    **{"per_class": 512, "vanish": 1.0},
}
"""What makes a VI-Net of a trial of products; the backbone is tuned with it all the same."""


@dataclass(frozen=True)
class Candidate:
    """A head behind a cut."""

    cut: str
    head: str  # a kind of vinets.heads.HEADS, or "vi" for products
    budget: int  # parameters that the head may store, as far as its kind allows it
    factors: int = 2  # of products
    keep: int = 0  # generators per class, of a VI-Net

    @property
    def label(self) -> str:
        """For tables."""
        if self.head != "vi":
            return HEADS[self.head].label
        return f"{ProductsHead.label}, degree {self.factors}"

    @property
    def name(self) -> str:
        """Tells candidates apart."""
        return f"{self.cut} {self.label}, {self.budget:,}"

    @property
    def polynomial(self) -> bool:
        """Whether it is a head of polynomials, and no plain one."""
        return self.head in ("vi", VanishingHead.kind)

    def trial(self, start: Trial, epochs: int) -> Trial:
        """The trial that trains it for ``epochs``."""
        if self.head == VanishingHead.kind:
            return start.change(cut=self.cut, keep=self.keep, epochs=epochs, **VANISHING)
        return start.change(
            cut=self.cut,
            head=self.head,
            head_parameters=self.budget,
            factors=self.factors,
            epochs=epochs,
        )


def start_trial(examples: int, classes: int, seed: int) -> Trial:
    """What all trials have in common, for data of that many examples and classes."""
    batch = 64 if examples < SMALL_DATA else BEST.recipe.batch_size
    temperature = WARM if classes <= FEW_CLASSES else BEST.recipe.temperature
    options = {"batch_size": batch, "temperature": temperature}
    trial = Trial(**vars(BEST)).change(network="uncut", **options)
    return replace(trial, seed=seed, checkpoints=False)


def choose_cuts(points: Sequence[CutPoint], parameters: int, most: int = CUTS) -> list[CutPoint]:
    """At most ``most`` cuts that differ in what they cost, in the order of the network.

    Of neighbours with the same operations the last is taken, which is behind the norm, the
    activation or the sum of a block. Where there are too many, those are left that are spread most
    evenly over what is counted: operations, and the logarithm of parameters with a small head.
    """
    macs = max((point.macs for point in points), default=0)
    found: dict[int, CutPoint] = {}
    before = 0
    for point in points:
        saves = point.parameters < LARGEST * parameters or point.macs < LARGEST * macs
        aside = point.macs < before  # on a branch beside what came before
        before = max(before, point.macs)
        if point.macs and saves and not aside and point.parameters <= parameters:
            found[point.macs] = point
    rest = list(found.values())
    if len(rest) <= most:
        return rest
    _, small = head_sizes(parameters)
    sizes = [log(point.parameters + small) for point in rest]
    range_ = max(sizes) - min(sizes) or 1.0
    places = [
        point.macs / rest[-1].macs + size / range_ for point, size in zip(rest, sizes, strict=True)
    ]
    first, last = min(places), max(places)
    steps = [0.5] if most == 1 else [i / (most - 1) for i in range(most)]
    chosen: set[int] = set()
    for step in steps:
        wanted = first + step * (last - first)
        free = [i for i in range(len(rest)) if i not in chosen]
        chosen.add(min(free, key=lambda i: abs(places[i] - wanted)))
    return [rest[i] for i in sorted(chosen)]


def head_sizes(parameters: int) -> tuple[int, int]:
    """Parameters of a large and of a small head, for a network with ``parameters``."""
    large = int(min(HEAD, SHARE * parameters))
    return large, max(large // 4, 1)


def candidates_at(point: CutPoint, parameters: int, classes: int) -> list[Candidate]:
    """Heads to try behind a cut of a network with ``parameters``."""
    large, small = head_sizes(parameters)
    flat = prod(point.shape)
    heads = [("vi", large, 3), ("vi", small, 3), ("vi", small, 2), ("relu-units", large, 2)]
    heads.append(("pooled", large, 2))
    if flat * classes <= 2 * large:
        heads.append(("linear", large, 2))
    found = [Candidate(point.name, *head) for head in heads]
    # a generator takes its coefficients, a bias, and a weight for every class
    generator = VARIABLES + VARIABLES * (VARIABLES + 1) // 2 + 1 + classes
    keep = min(MOST_GENERATORS, (2 * large - VARIABLES * flat) // (generator * classes))
    if keep >= LEAST_GENERATORS:
        found.append(Candidate(point.name, VanishingHead.kind, 2 * large, keep=keep))
    return found
