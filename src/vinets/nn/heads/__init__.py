"""What replaces the layers behind the cut: polynomials, and the rivals they are compared with."""

from vinets.nn.heads.base import Head, LinearPath, SpatialSum
from vinets.nn.heads.local import LocalHead, LocalReLUHead
from vinets.nn.heads.rivals import LinearHead, MLPHead
from vinets.nn.heads.vanishing import RandomMonomials, VanishingHead

__all__ = [
    "HEADS",
    "Head",
    "LinearHead",
    "LinearPath",
    "LocalHead",
    "LocalReLUHead",
    "MLPHead",
    "RandomMonomials",
    "SpatialSum",
    "VanishingHead",
]

HEADS: dict[str, type[Head]] = {
    head.kind: head
    for head in (VanishingHead, RandomMonomials, LocalHead, LocalReLUHead, LinearHead, MLPHead)
}
