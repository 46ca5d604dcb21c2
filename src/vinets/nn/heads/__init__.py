"""What replaces the layers behind the cut: polynomials, and what they are compared with."""

from vinets.nn.heads.base import Head, LinearPath, SpatialSum
from vinets.nn.heads.local import LocalHead, LocalReLUHead, relu_like
from vinets.nn.heads.plain import ComponentsHead, LinearHead, MLPHead
from vinets.nn.heads.random import LocalRandomMonomials, RandomMonomials, random_like
from vinets.nn.heads.vanishing import VanishingHead

__all__ = [
    "HEADS",
    "ComponentsHead",
    "Head",
    "LinearHead",
    "LinearPath",
    "LocalHead",
    "LocalRandomMonomials",
    "LocalReLUHead",
    "MLPHead",
    "RandomMonomials",
    "SpatialSum",
    "VanishingHead",
    "random_like",
    "relu_like",
]

HEADS: dict[str, type[Head]] = {
    head.kind: head
    for head in (
        VanishingHead,
        RandomMonomials,
        LocalHead,
        LocalRandomMonomials,
        LocalReLUHead,
        LinearHead,
        ComponentsHead,
        MLPHead,
    )
}
