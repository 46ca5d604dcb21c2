"""Approximate vanishing ideals for deep learning."""

from vinets.estimators import VanishingIdealClassifier
from vinets.ideals.abm import ABM
from vinets.ideals.classwise import ClassIdeals, fit_class_ideals
from vinets.ideals.oavi import OAVI
from vinets.ideals.vca import VCA
from vinets.latent.cut import CutPoint, cut_points, truncate

__version__ = "0.1.0"

__all__ = [
    "ABM",
    "OAVI",
    "VCA",
    "ClassIdeals",
    "CutPoint",
    "VanishingIdealClassifier",
    "cut_points",
    "fit_class_ideals",
    "truncate",
]
