"""Networks that end in polynomials."""

from vinets.nn.blocks import BlockPolynomialLayer
from vinets.nn.heads import (
    ComponentsHead,
    LinearHead,
    LocalHead,
    LocalReLUHead,
    MLPHead,
    RandomMonomials,
    VanishingHead,
)
from vinets.nn.network import CutNetwork, Record, VINet
from vinets.nn.polynomial import PolynomialLayer

__all__ = [
    "BlockPolynomialLayer",
    "ComponentsHead",
    "CutNetwork",
    "LinearHead",
    "LocalHead",
    "LocalReLUHead",
    "MLPHead",
    "PolynomialLayer",
    "RandomMonomials",
    "Record",
    "VINet",
    "VanishingHead",
]
