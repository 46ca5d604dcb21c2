"""Approximate vanishing ideals for deep learning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vinets.core.settings import TrainingOptions
    from vinets.estimators import VanishingIdealClassifier
    from vinets.explanations.explain import explain
    from vinets.heads.facts import BuildFacts
    from vinets.heads.polynomial_layer import PolynomialLayer
    from vinets.ideals.abm import ABM
    from vinets.ideals.classwise import ClassIdeals, fit_class_ideals
    from vinets.ideals.oavi import OAVI
    from vinets.ideals.vca import VCA
    from vinets.latent.collect import collect
    from vinets.latent.cut import CutPoint, cut_points, truncate
    from vinets.measure.accuracy import evaluate
    from vinets.measure.bench import bench, compare
    from vinets.networks.build import attach_distances, baselines, build
    from vinets.networks.network import CutNetwork, VINet
    from vinets.scores.classifier import ChristoffelClassifier
    from vinets.search.compress import compress
    from vinets.theory.complexity import spectral_complexity
    from vinets.theory.study import study
    from vinets.training.feed import cache_latents
    from vinets.training.tune import fine_tune, train_classifier

__version__ = "0.2.0"

__all__ = [
    "ABM",
    "OAVI",
    "VCA",
    "BuildFacts",
    "ChristoffelClassifier",
    "ClassIdeals",
    "CutNetwork",
    "CutPoint",
    "PolynomialLayer",
    "TrainingOptions",
    "VINet",
    "VanishingIdealClassifier",
    "attach_distances",
    "baselines",
    "bench",
    "build",
    "cache_latents",
    "collect",
    "compare",
    "compress",
    "cut_points",
    "evaluate",
    "explain",
    "fine_tune",
    "fit_class_ideals",
    "spectral_complexity",
    "study",
    "train_classifier",
    "truncate",
]

# Names are imported when they are first used: the command line shows its help at once.
_HOME = {
    "ABM": "ideals.abm",
    "OAVI": "ideals.oavi",
    "VCA": "ideals.vca",
    "BuildFacts": "heads.facts",
    "ChristoffelClassifier": "scores.classifier",
    "ClassIdeals": "ideals.classwise",
    "CutNetwork": "networks.network",
    "CutPoint": "latent.cut",
    "PolynomialLayer": "heads.polynomial_layer",
    "TrainingOptions": "core.settings",
    "VINet": "networks.network",
    "VanishingIdealClassifier": "estimators",
    "attach_distances": "networks.build",
    "build": "networks.build",
    "cache_latents": "training.feed",
    "bench": "measure.bench",
    "collect": "latent.collect",
    "compare": "measure.bench",
    "compress": "search.compress",
    "cut_points": "latent.cut",
    "evaluate": "measure.accuracy",
    "explain": "explanations.explain",
    "fine_tune": "training.tune",
    "fit_class_ideals": "ideals.classwise",
    "baselines": "networks.build",
    "spectral_complexity": "theory.complexity",
    "study": "theory.study",
    "train_classifier": "training.tune",
    "truncate": "latent.cut",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'vinets' has no attribute {name!r}")
    return getattr(import_module(f"vinets.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
