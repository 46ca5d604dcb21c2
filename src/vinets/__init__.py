"""Approximate vanishing ideals for deep learning."""

from vinets.ideals.abm import ABM
from vinets.ideals.oavi import OAVI

__version__ = "0.1.0"

__all__ = ["ABM", "OAVI"]
