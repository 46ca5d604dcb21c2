r"""How strange an example is, from distances to the classes at several layers.

At every layer, the *margin* :math:`\log K_{(1)} - \log \tfrac12 (K_{(2)} + K_{(3)})` of the nearest
class tells examples between the classes, and :math:`\log K_{(1)}` itself, as far as it exceeds 99 %
of training examples, those that are far from all. Both are standardised on training examples that
the distances were not fitted to. The score is the mean of the margins plus the sum of the excesses;
the energy of the logits, standardised, may stand among the margins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.distance.fit import Space, choose_space, fit_distances, held_out, try_spaces
from vinets.distance.scores import energy_of, margin, nearest
from vinets.nn.distances import ClassDistances

SHARE = 0.99  # of training examples that are not far
SPACE = Space(128, 16, 2, shrink=0.5, epsilon=0.1)
"""Where none is chosen: 128 components, products of two of the first 16."""


@dataclass(frozen=True, eq=False)
class Layer:
    """The distances at one layer, and what is usual there."""

    distances: ClassDistances
    margin: tuple[float, float]  # mean and deviation
    nearest: tuple[float, float]
    limit: float  # of the standardised log K of the nearest class

    def __call__(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Standardised margin and excess of features (m, D)."""
        k = torch.cat([self.distances(part) for part in features.split(2048)])
        excess = (nearest(k) - self.nearest[0]) / self.nearest[1] - self.limit
        return (margin(k) - self.margin[0]) / self.margin[1], excess.clamp_min(0)


@dataclass(frozen=True, eq=False)
class Strangeness:
    """Scores of examples by their features at every layer."""

    layers: Mapping[str, Layer]
    energy: tuple[float, float] | None = None  # mean and deviation, where logits were given

    @torch.no_grad()
    def __call__(self, features: Mapping[str, Tensor], logits: Tensor | None = None) -> Tensor:
        """Scores (m,), larger for stranger examples; with logits (m, K) where it was fitted so."""
        if (logits is None) != (self.energy is None):
            raise ValueError("logits must be given where they were given to fit, and only there.")
        parts = [layer(features[name]) for name, layer in self.layers.items()]
        margins = [one for one, _ in parts]
        if logits is not None and self.energy is not None:
            margins.append((energy_of(logits) - self.energy[0]) / self.energy[1])
        return torch.stack(margins).mean(0) + torch.stack([one for _, one in parts]).sum(0)


@torch.no_grad()
def fit_strangeness(
    features: Mapping[str, Tensor],
    labels: Tensor,
    classes: int,
    *,
    logits: Tensor | None = None,
    candidates: Sequence[Space] = (SPACE,),
    folds: int = 3,
    seed: int = 0,
) -> Strangeness:
    """Fit distances at every layer, and what is usual there, to training examples.

    Parameters
    ----------
    features : mapping
        Name of a layer to features (m, D) there.
    labels : Tensor of shape (m,)
        The classes.
    classes : int
        How many there are.
    logits : Tensor of shape (m, K) or None
        Of the network, whose energy then counts as well.
    candidates : sequence of Space
        Of which cross-validated likelihood of the classes chooses, layer by layer.
    """
    made = {}
    for name, points in features.items():
        space = candidates[0]
        if len(candidates) > 1:
            space = choose_space(
                try_spaces(points, labels, candidates, classes, folds=folds, seed=seed)
            ).space
        # what is usual is told by examples that the distances do not know
        held = held_out(points, labels, space, classes, folds=folds, seed=seed)
        margins, logs = margin(held), nearest(held)
        usual = float(logs.mean()), float(logs.std())
        made[name] = Layer(
            fit_distances(points, labels, space, classes),
            (float(margins.mean()), float(margins.std())),
            usual,
            float(((logs - usual[0]) / usual[1]).quantile(SHARE)),
        )
    energy = None
    if logits is not None:
        found = energy_of(logits)
        energy = float(found.mean()), float(found.std())
    return Strangeness(made, energy)
