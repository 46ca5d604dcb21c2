"""What replaces the layers behind the cut: polynomials, and what they are compared with."""

from vinets.heads.base import HEADS, PLACEMENTS, Head, LastLayer, Reference
from vinets.heads.distance import DistanceHead
from vinets.heads.linear import ComponentsHead, LinearHead, PooledHead
from vinets.heads.local import LocalHead, LocalPolynomials, LocalReLUHead
from vinets.heads.maps import HeadMaps, LinearMap, PolynomialMap
from vinets.heads.mlp import MLPHead
from vinets.heads.pieces import LinearPath, SpatialSum
from vinets.heads.polynomial import PolynomialHead
from vinets.heads.products import ProductsHead
from vinets.heads.random import (
    LocalRandomMonomials,
    LocalSameDegrees,
    RandomMonomials,
    SameDegrees,
)
from vinets.heads.simkd import SimKDHead
from vinets.heads.units import ReLUUnits, UnitsHead
from vinets.heads.vanishing import GlobalPolynomials, VanishingHead

__all__ = [
    "HEADS",
    "PLACEMENTS",
    "ComponentsHead",
    "DistanceHead",
    "GlobalPolynomials",
    "Head",
    "HeadMaps",
    "LastLayer",
    "LinearHead",
    "LinearMap",
    "LinearPath",
    "LocalHead",
    "LocalPolynomials",
    "LocalRandomMonomials",
    "LocalReLUHead",
    "LocalSameDegrees",
    "MLPHead",
    "PolynomialHead",
    "PolynomialMap",
    "PooledHead",
    "ProductsHead",
    "RandomMonomials",
    "ReLUUnits",
    "Reference",
    "SameDegrees",
    "SimKDHead",
    "SpatialSum",
    "UnitsHead",
    "VanishingHead",
]
