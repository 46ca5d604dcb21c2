"""Approximate vanishing ideals for deep learning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as below, for tools that do not run the code
    from vinets.core.settings import TrainingOptions as TrainingOptions
    from vinets.estimators import VanishingIdealClassifier as VanishingIdealClassifier
    from vinets.explanations.explain import explain as explain
    from vinets.heads.facts import BuildFacts as BuildFacts
    from vinets.heads.polynomial_layer import PolynomialLayer as PolynomialLayer
    from vinets.ideals.abm import ABM as ABM
    from vinets.ideals.classwise import ClassIdeals as ClassIdeals
    from vinets.ideals.classwise import fit_class_ideals as fit_class_ideals
    from vinets.ideals.oavi import OAVI as OAVI
    from vinets.ideals.vca import VCA as VCA
    from vinets.latent.collect import collect as collect
    from vinets.latent.cut import CutPoint as CutPoint
    from vinets.latent.cut import cut_points as cut_points
    from vinets.latent.cut import truncate as truncate
    from vinets.measure.accuracy import evaluate as evaluate
    from vinets.measure.bench import bench as bench
    from vinets.measure.bench import compare as compare
    from vinets.networks.build import attach_distances as attach_distances
    from vinets.networks.build import baselines as baselines
    from vinets.networks.build import build as build
    from vinets.networks.network import CutNetwork as CutNetwork
    from vinets.networks.network import VINet as VINet
    from vinets.scores.classifier import ChristoffelClassifier as ChristoffelClassifier
    from vinets.search.compress import compress as compress
    from vinets.theory.complexity import spectral_complexity as spectral_complexity
    from vinets.theory.study import study as study
    from vinets.training.feed import cache_latents as cache_latents
    from vinets.training.tune import fine_tune as fine_tune
    from vinets.training.tune import train_classifier as train_classifier

__version__ = "0.2.0"

# Names are imported when they are first used: the command line shows its help at once.
_HOME = {
    "ABM": "ideals.abm",
    "BuildFacts": "heads.facts",
    "ChristoffelClassifier": "scores.classifier",
    "ClassIdeals": "ideals.classwise",
    "CutNetwork": "networks.network",
    "CutPoint": "latent.cut",
    "OAVI": "ideals.oavi",
    "PolynomialLayer": "heads.polynomial_layer",
    "TrainingOptions": "core.settings",
    "VCA": "ideals.vca",
    "VINet": "networks.network",
    "VanishingIdealClassifier": "estimators",
    "attach_distances": "networks.build",
    "baselines": "networks.build",
    "bench": "measure.bench",
    "build": "networks.build",
    "cache_latents": "training.feed",
    "collect": "latent.collect",
    "compare": "measure.bench",
    "compress": "search.compress",
    "cut_points": "latent.cut",
    "evaluate": "measure.accuracy",
    "explain": "explanations.explain",
    "fine_tune": "training.tune",
    "fit_class_ideals": "ideals.classwise",
    "spectral_complexity": "theory.complexity",
    "study": "theory.study",
    "train_classifier": "training.tune",
    "truncate": "latent.cut",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'vinets' has no attribute {name!r}")
    return getattr(import_module(f"vinets.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
