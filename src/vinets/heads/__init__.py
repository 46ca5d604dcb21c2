"""What replaces the layers behind the cut: polynomials, and what they are compared with."""

from vinets.heads.base import HEADS, Head, HeadOptions, LastLayer
from vinets.heads.closed import ChosenHead, LDAHead, RidgeHead
from vinets.heads.distance import DistanceHead
from vinets.heads.facts import BuildFacts
from vinets.heads.linear import BaselineOptions, ComponentsHead, LinearHead, PooledHead
from vinets.heads.local import LocalHead, LocalOptions, LocalPolynomials, LocalReLUHead
from vinets.heads.maps import HeadMaps, LinearMap, PolynomialMap
from vinets.heads.mlp import MLPHead
from vinets.heads.pieces import LinearPath, SpatialSum
from vinets.heads.polynomial import PolynomialHead
from vinets.heads.products import ProductsHead, ProductsOptions
from vinets.heads.random import (
    LocalRandomMonomials,
    LocalSameDegrees,
    RandomMonomials,
    RandomOptions,
    SameDegrees,
)
from vinets.heads.relu_units import ReLUUnits
from vinets.heads.simkd import SimKDHead
from vinets.heads.sizes import SizeOptions
from vinets.heads.units import UnitsHead
from vinets.heads.vanishing import GlobalPolynomials, VanishingHead, VanishingOptions

__all__ = [
    "HEADS",
    "BaselineOptions",
    "BuildFacts",
    "ChosenHead",
    "ComponentsHead",
    "DistanceHead",
    "GlobalPolynomials",
    "Head",
    "HeadMaps",
    "HeadOptions",
    "LDAHead",
    "LastLayer",
    "LinearHead",
    "LinearMap",
    "LinearPath",
    "LocalHead",
    "LocalOptions",
    "LocalPolynomials",
    "LocalRandomMonomials",
    "LocalReLUHead",
    "LocalSameDegrees",
    "MLPHead",
    "PolynomialHead",
    "PolynomialMap",
    "PooledHead",
    "ProductsHead",
    "ProductsOptions",
    "RandomMonomials",
    "RandomOptions",
    "ReLUUnits",
    "RidgeHead",
    "SameDegrees",
    "SimKDHead",
    "SizeOptions",
    "SpatialSum",
    "UnitsHead",
    "VanishingHead",
    "VanishingOptions",
]
