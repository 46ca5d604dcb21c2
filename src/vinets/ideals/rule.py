"""The rule by which candidates vanish, and the settings of a construction."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """The rule by which a candidate vanishes.

    ``unit``: its best combination with unit coefficient vector has mean square at most ``psi``;
    otherwise the combination with leading coefficient 1, whose other coefficients have l1 norm at
    most ``radius``, and are found by ``oracle``. Where that starts, and when it stops, is given by
    ``start``, ``stop`` and ``tol``, see :class:`~vinets.ideals.oavi.OAVI`.
    """

    psi: float
    unit: bool
    radius: float = float("inf")
    oracle: str = "exact"
    start: str = "least-squares"
    stop: str = "vanishing"
    tol: float = 0.01


@dataclass(frozen=True)
class Settings:
    """Settings of a run; only the degree, the border and low precision change the result."""

    max_degree: int | None = None
    border: str = "groebner"
    precision: str = "float64"
    memory_limit: int = 16 << 20
    panel: int = 64
