"""Heads that replace the layers behind a cut: polynomials, and the heads to compare with."""

from vinets.heads.base import HEADS, Head, HeadOptions, LastLayer
from vinets.heads.class_distances import DistanceHead
from vinets.heads.closed import ChosenHead, LDAHead, RidgeHead
from vinets.heads.facts import BuildFacts
from vinets.heads.linear import ComponentsHead, LinearHead, MLPHead, PooledHead
from vinets.heads.local import LocalHead, LocalOptions, LocalPolynomials
from vinets.heads.pieces import HeadMaps, LinearMap, LinearPath, PolynomialMap, SpatialSum
from vinets.heads.polynomial_head import PolynomialHead
from vinets.heads.products import ProductsHead, ProductsOptions, ReLUUnits
from vinets.heads.random import (
    LocalRandomMonomials,
    LocalReLUHead,
    LocalSameDegrees,
    RandomMonomials,
    RandomOptions,
    SameDegrees,
)
from vinets.heads.simkd import SimKDHead
from vinets.heads.units import UnitsHead
from vinets.heads.vanishing import (
    BaselineOptions,
    GlobalPolynomials,
    SizeOptions,
    VanishingHead,
    VanishingOptions,
)

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
