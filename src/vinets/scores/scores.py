r"""Out-of-distribution scores from the literature, larger for examples of none of the classes.

Each is fitted to training examples alone. It takes the features of an example, which are the input
of the last layer, and its logits. Settings are the defaults of ``pytorch-ood``; none is chosen with
out-of-distribution examples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.core.registry import Registry

RELATIVE_JITTER = 1e-6  # share of the mean variance added to the diagonal of a covariance


@dataclass(frozen=True, eq=False)
class Activations:
    """Features, logits and labels of examples that a network was run on."""

    features: Tensor  # (m, D), the input of its last linear layer
    logits: Tensor  # (m, K)
    labels: Tensor | None = None  # (m,), known for examples of the classes
    layers: Mapping[str, Tensor] = field(default_factory=dict)  # (m, D) at other layers, by name


SCORES: Registry[type[Score]] = Registry("score", "vinets.scores")


class Score(ABC):
    """An out-of-distribution score; a subclass with a ``name`` is registered under it."""

    name: ClassVar[str]
    needs_classifier: ClassVar[bool] = False  # the classifier is the last linear layer

    def __init_subclass__(cls, **more: object) -> None:
        super().__init_subclass__(**more)
        if "name" in vars(cls):
            SCORES.add(cls.name, cls)

    def __init__(self, classifier: nn.Linear | None = None) -> None:
        if self.needs_classifier and classifier is None:
            raise ValueError(f"the score {self.name!r} needs a network that ends in a linear layer")
        self.classifier: Any = classifier

    def fit(self, train: Activations) -> Self:
        """Fit to training examples; some scores need no fit."""
        return self

    @abstractmethod
    def __call__(self, seen: Activations) -> Tensor:
        """Score examples: (m,)."""

    @torch.no_grad()
    def energy_behind(self, features: Tensor) -> Tensor:
        """Compute the energy of the logits that the classifier gives on features (m, D)."""
        return energy_of(self.classifier(features))


def energy_of(logits: Tensor) -> Tensor:
    """Compute the negative log-sum-exp of logits (m, K)."""
    return -logits.logsumexp(1)


class MaximumSoftmax(Score):
    """One minus the largest probability (Hendrycks and Gimpel, 2017)."""

    name = "softmax"

    def __call__(self, seen: Activations) -> Tensor:
        # log(1 - p), because probabilities near 1 would all be equal
        others = seen.logits.sort(1, descending=True).values[:, 1:]
        return others.logsumexp(1) - seen.logits.logsumexp(1)


class Energy(Score):
    """Liu et al., 2020, at temperature 1."""

    name = "energy"

    def __call__(self, seen: Activations) -> Tensor:
        return energy_of(seen.logits)


class Mahalanobis(Score):
    """Least distance to a class mean, all classes with one covariance (Lee et al., 2018)."""

    name = "mahalanobis"

    def fit(self, train: Activations) -> Self:
        features = train.features.double()
        classes, labels = labels_of(train).unique(return_inverse=True)
        self.means = torch.stack([features[labels == k].mean(0) for k in range(len(classes))])
        self.precision = _precision(features - self.means[labels])
        return self

    def __call__(self, seen: Activations) -> Tensor:
        root = torch.linalg.cholesky(self.precision)
        return torch.cdist(seen.features.double() @ root, self.means @ root).square().min(1).values


class RelativeMahalanobis(Mahalanobis):
    """Mahalanobis distance less that to the mean of all data (Ren et al., 2021)."""

    name = "relative mahalanobis"

    def fit(self, train: Activations) -> Self:
        super().fit(train)
        features = train.features.double()
        self.mean = features.mean(0)
        self.background = _precision(features - self.mean)
        return self

    def __call__(self, seen: Activations) -> Tensor:
        centred = seen.features.double() - self.mean
        return super().__call__(seen) - (centred @ self.background * centred).sum(1)


def _precision(centred: Tensor) -> Tensor:
    """Invert the covariance of centred features (m, D)."""
    covariance = centred.mT @ centred / len(centred)
    jitter = RELATIVE_JITTER * covariance.diagonal().mean()
    return torch.linalg.inv(covariance + jitter * torch.eye(len(covariance)).to(covariance))


def labels_of(seen: Activations) -> Tensor:
    """Return the labels, without which nothing can be fitted."""
    if seen.labels is None:
        raise ValueError("Examples to fit a score to must have labels.")
    return seen.labels


class ViM(Score):
    """A logit from the distance to the principal subspace (Wang et al., 2022)."""

    name = "vim"
    needs_classifier = True

    def fit(self, train: Activations) -> Self:
        weight, bias = (t.detach().double() for t in (self.classifier.weight, self.classifier.bias))
        self.origin = -torch.linalg.pinv(weight) @ bias
        centred = train.features.double() - self.origin
        _, vectors = torch.linalg.eigh(centred.mT @ centred / len(centred))
        width = centred.shape[1]
        # The paper takes 1000 of 2048 and 512 of 768; half are taken of fewer features.
        principal = 1000 if width >= 2048 else 512 if width >= 768 else width // 2
        self.null = vectors[:, : width - principal]
        lengths = (centred @ self.null).norm(dim=1)
        self.gain = train.logits.double().max(1).values.mean() / lengths.mean()
        return self

    def __call__(self, seen: Activations) -> Tensor:
        lengths = ((seen.features.double() - self.origin) @ self.null).norm(dim=1)
        return self.gain * lengths + energy_of(seen.logits.double())


class NearestNeighbours(Score):
    """Distance to the 50th nearest training example, at unit length (Sun et al., 2022)."""

    name = "knn"
    neighbours = 50

    def fit(self, train: Activations) -> Self:
        self.points = F.normalize(train.features)
        return self

    def __call__(self, seen: Activations) -> Tensor:
        k = min(self.neighbours, len(self.points))
        units = F.normalize(seen.features)
        nearness = [(part @ self.points.mT).topk(k).values[:, -1] for part in units.split(512)]
        return (2 - 2 * torch.cat(nearness)).clamp_min(0).sqrt()


class ReAct(Score):
    """Energy behind features that are cut off at their 90th percentile (Sun et al., 2021)."""

    name = "react"
    needs_classifier = True
    percentile = 0.9

    def fit(self, train: Activations) -> Self:
        # numpy, because the quantile of torch takes no more than 2**24 values
        flat = train.features.flatten().cpu().numpy()
        self.limit = float(np.quantile(flat, self.percentile))
        return self

    def __call__(self, seen: Activations) -> Tensor:
        return self.energy_behind(seen.features.clamp_max(self.limit))


class ASH(Score):
    """Energy behind features of which the largest 35 % are left, scaled up: ASH-S.

    Djurisic et al., 2023.
    """

    name = "ash"
    needs_classifier = True
    percentile = 0.65

    def __call__(self, seen: Activations) -> Tensor:
        features, width = seen.features, seen.features.shape[1]
        kept = features.topk(width - round(width * self.percentile))
        pruned = torch.zeros_like(features).scatter_(1, kept.indices, kept.values)
        ratio = features.sum(1) / kept.values.sum(1)
        return self.energy_behind(pruned * ratio.exp()[:, None])


def rates(inside: Tensor, outside: Tensor) -> tuple[float, float]:
    """Compute AUROC, and FPR95: the share ``outside`` that passes where 95 % of ``inside`` do.

    Examples
    --------
    >>> rates(torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0]))
    (1.0, 0.0)
    """
    from sklearn.metrics import roc_auc_score, roc_curve

    truth = torch.cat([torch.zeros(len(inside)), torch.ones(len(outside))]).numpy()
    scores = torch.cat([inside, outside]).double().cpu().numpy()
    # Positive are the scores inside; one outside that passes is a false alarm.
    false, true, _ = roc_curve(1 - truth, -scores, drop_intermediate=False)
    return float(roc_auc_score(truth, scores)), float(false[(true >= 0.95).argmax()])
