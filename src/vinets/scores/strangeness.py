r"""How strange an example is, from distances to the classes at several layers.

At every layer, the *margin* between :math:`\log K_{(1)}` of the nearest class and the mean of
:math:`\log K_{(2)}, \dots, \log K_{(10)}` tells examples between the classes. The distance
:math:`\log K_0` to all training examples as one class, in all components, tells those that are far
from everything, as far as it exceeds a limit. Both are standardised on examples of the classes that
neither the network nor the distances have seen, and the limits are such that 1 % of these, over all
layers, are beyond one. The score is the mean of the margins plus the sum of the excesses; the
energy of the logits counts as much as all margins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.heads.class_distances import ClassDistances
from vinets.heads.distance_fit import Space, choose_space, fit_distances, spaces, try_spaces
from vinets.scores.scores import Seen, energy_of, labels_of, margin

ALL = Space(512)  # where all examples are one class
SMALLEST = 1e-12  # deviation, of what is the same for all examples
FAR = 0.01  # share of examples of the classes that are beyond a limit, over all layers


@dataclass(frozen=True)
class Usual:
    """Mean and standard deviation of a value on examples of the classes."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Tensor) -> Usual:
        """Of values (m,)."""
        return cls(float(values.mean()), max(float(values.std()), SMALLEST))

    def __call__(self, values: Tensor) -> Tensor:
        """Values in deviations from the mean."""
        return (values - self.mean) / self.deviation


@dataclass(frozen=True, eq=False)
class Layer:
    """The distances at one layer, and what is usual there."""

    space: Space
    distances: ClassDistances
    margin: Usual
    whole: ClassDistances  # to all examples as one class
    far: Usual
    limit: float  # of log K to all, standardised

    def __call__(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Standardised margin and excess of features (m, D)."""
        between = self.margin(margin_at(self.distances, features))
        return between, (self.far(self.whole(features).log()[:, 0]) - self.limit).clamp_min(0)


@dataclass(frozen=True, eq=False)
class Strangeness:
    """Scores of examples by their features at every layer and, where it is known, their energy."""

    layers: Mapping[str, Layer]
    energy: Usual | None

    @torch.no_grad()
    def __call__(self, seen: Seen) -> Tensor:
        """Scores (m,), larger for stranger examples."""
        parts = [layer(seen.layers[name]) for name, layer in self.layers.items()]
        between = torch.stack([one for one, _ in parts]).mean(0)
        if self.energy is not None:
            between = (between + self.energy(energy_of(seen.logits))) / 2
        return between + torch.stack([one for _, one in parts]).sum(0)


@torch.no_grad()
def fit_strangeness(
    train: Seen, held: Seen, candidates: Sequence[Space] | None = None
) -> Strangeness:
    """Fit distances at every layer.

    Parameters
    ----------
    train : Seen
        Training examples, which the distances are fitted to.
    held : Seen
        Examples of the same classes that the network was not trained on. Layer by layer the space
        is chosen in which their classes are likeliest; they also tell what is usual.
    candidates : sequence of Space or None
        The spaces; None is :func:`vinets.scores.spaces`.
    """
    labels, truth = labels_of(train), labels_of(held)
    classes = int(labels.max()) + 1
    made = {}
    for name, points in train.layers.items():
        new = held.layers[name]
        tried = try_spaces(points, labels, candidates or spaces(), classes, held=(new, truth))
        space = choose_space(tried).space
        distances = fit_distances(points, labels, space, classes)
        whole = fit_distances(points, torch.zeros_like(labels), ALL, 1)
        logs = whole(new).log()[:, 0]
        far, between = Usual.of(logs), Usual.of(margin_at(distances, new))
        limit = far(logs).quantile(1 - FAR / len(train.layers))
        made[name] = Layer(space, distances, between, whole, far, float(limit))
    return Strangeness(made, Usual.of(energy_of(held.logits)))


def margin_at(distances: ClassDistances, features: Tensor) -> Tensor:
    """The margin of features (m, D), a few at a time."""
    return torch.cat([margin(distances(part)) for part in features.split(512)])
