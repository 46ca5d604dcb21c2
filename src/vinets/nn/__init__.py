"""Networks that end in polynomials."""

from vinets.nn.blocks import BlockPolynomialLayer
from vinets.nn.heads import (
    HEADS,
    ComponentsHead,
    Head,
    LinearHead,
    LocalHead,
    LocalReLUHead,
    MLPHead,
    PooledHead,
    RandomMonomials,
    Reference,
    SameDegrees,
    VanishingHead,
)
from vinets.nn.network import CutNetwork, Record, VINet
from vinets.nn.polynomial import PolynomialLayer

__all__ = [
    "HEADS",
    "BlockPolynomialLayer",
    "ComponentsHead",
    "CutNetwork",
    "Head",
    "LinearHead",
    "LocalHead",
    "LocalReLUHead",
    "MLPHead",
    "PolynomialLayer",
    "PooledHead",
    "RandomMonomials",
    "Record",
    "Reference",
    "SameDegrees",
    "VINet",
    "VanishingHead",
]
