"""What replaces the layers behind the cut: polynomials, and what they are compared with."""

from vinets.nn.heads.base import HEADS, PLACEMENTS, Head, LastLayer, Reference
from vinets.nn.heads.distance import DistanceHead
from vinets.nn.heads.linear import ComponentsHead, LinearHead, PooledHead
from vinets.nn.heads.local import LocalHead, LocalPolynomials, LocalReLUHead
from vinets.nn.heads.maps import HeadMaps, LinearMap, PolynomialMap
from vinets.nn.heads.mlp import MLPHead
from vinets.nn.heads.pieces import LinearPath, SpatialSum
from vinets.nn.heads.polynomial import PolynomialHead
from vinets.nn.heads.products import ProductsHead
from vinets.nn.heads.random import (
    LocalRandomMonomials,
    LocalSameDegrees,
    RandomMonomials,
    SameDegrees,
)
from vinets.nn.heads.simkd import SimKDHead
from vinets.nn.heads.units import ReLUUnits, UnitsHead
from vinets.nn.heads.vanishing import GlobalPolynomials, VanishingHead

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
