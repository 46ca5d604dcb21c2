"""Numbers as the paper prints them."""

from __future__ import annotations

__all__ = ["GENERATORS", "SPEEDS", "UNCUT", "VARIANTS"]

GENERATORS: dict[str, dict[float, dict[str, float]]] = {
    "resnet18": {
        64.5: {"monomials": 8386, "polynomials": 53132, "seconds": 6468.36},
        53.3: {"monomials": 4462, "polynomials": 14297, "seconds": 245.09},
        46.7: {"monomials": 1561, "polynomials": 4346, "seconds": 11.73},
        26.7: {"monomials": 167, "polynomials": 1319, "seconds": 7.31},
        6.7: {"monomials": 130, "polynomials": 1280, "seconds": 6.94},
    },
    "resnet34": {
        75.8: {"monomials": 7625, "polynomials": 188743, "seconds": 3368.76},
        50.1: {"monomials": 5196, "polynomials": 53675, "seconds": 82.46},
        43.9: {"monomials": 1990, "polynomials": 30004, "seconds": 18.38},
        25.1: {"monomials": 196, "polynomials": 12978, "seconds": 7.46},
        7.1: {"monomials": 237, "polynomials": 12997, "seconds": 8.56},
    },
}
"""Table 1, by the printed percentage of layers removed."""

VARIANTS: dict[str, dict[str, float]] = {
    "VI-Net18-Tiny": {"total": 1.86, "base": 0.68, "head": 1.18, "accuracy": 88.62},
    "VI-Net18-Small": {"total": 2.84, "base": 2.18, "head": 0.66, "accuracy": 92.66},
    "VI-Net18-Medium": {"total": 4.35, "base": 3.96, "head": 0.39, "accuracy": 92.92},
    "VI-Net18-Large": {"total": 9.20, "base": 8.81, "head": 0.39, "accuracy": 93.02},
    "VI-Net34-Tiny": {"total": 3.52, "base": 2.85, "head": 0.67, "accuracy": 71.94},
    "VI-Net34-Small": {"total": 5.88, "base": 5.21, "head": 0.67, "accuracy": 74.03},
    "VI-Net34-Medium": {"total": 14.60, "base": 14.20, "head": 0.40, "accuracy": 74.66},
    "VI-Net34-Large": {"total": 19.32, "base": 18.92, "head": 0.40, "accuracy": 74.78},
}
"""Table 2: millions of parameters, accuracy in percent."""

SPEEDS: dict[str, float] = {
    "VI-Net18-Tiny": 100798,
    "VI-Net18-Small": 79307,
    "VI-Net18-Medium": 71851,
    "VI-Net18-Large": 62086,
    "resnet18": 66533,
    "VI-Net34-Tiny": 42064,
    "VI-Net34-Small": 37611,
    "VI-Net34-Medium": 29285,
    "VI-Net34-Large": 27862,
    "resnet34": 28253,
}
"""Table 2: images per second at batch size 256, on a GPU that the paper does not name."""

UNCUT: dict[str, dict[str, float]] = {
    "resnet18": {"total": 11.24, "base": 11.24, "accuracy": 92.89},
    "resnet34": {"total": 20.35, "base": 20.35, "accuracy": 74.75},
}
"""Table 2: the uncut networks."""
