"""When a candidate vanishes, and how to run: the two things a construction is told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """When a candidate vanishes.

    ``unit``: its best combination with unit coefficient vector has mean square at most ``psi``;
    otherwise the combination with leading coefficient 1, whose other coefficients have l1 norm at
    most ``radius``, and are found by ``oracle``.
    """

    psi: float
    unit: bool
    radius: float = float("inf")
    oracle: str = "exact"


@dataclass(frozen=True)
class Settings:
    """How to run: of these only the degree, the border and low precision change the result."""

    max_degree: int | None = None
    border: str = "groebner"
    precision: str = "float64"
    memory_limit: int = 16 << 20
    panel: int = 64
