"""Numbers as the paper prints them."""

from __future__ import annotations

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

_PRINTED = {
    "VI-Net18-Tiny": (1.86, 0.68, 1.18, 88.62, 100798),
    "VI-Net18-Small": (2.84, 2.18, 0.66, 92.66, 79307),
    "VI-Net18-Medium": (4.35, 3.96, 0.39, 92.92, 71851),
    "VI-Net18-Large": (9.20, 8.81, 0.39, 93.02, 62086),
    "VI-Net34-Tiny": (3.52, 2.85, 0.67, 71.94, 42064),
    "VI-Net34-Small": (5.88, 5.21, 0.67, 74.03, 37611),
    "VI-Net34-Medium": (14.60, 14.20, 0.40, 74.66, 29285),
    "VI-Net34-Large": (19.32, 18.92, 0.40, 74.78, 27862),
}
VARIANTS = {
    name: dict(zip(("total", "base", "head", "accuracy", "speed"), row, strict=True))
    for name, row in _PRINTED.items()
}
"""Table 2: millions of parameters, accuracy in percent, images per second.

The latter are at batch size 256, on a GPU that the paper does not name.
"""

UNCUT: dict[str, dict[str, float]] = {
    "resnet18": {"total": 11.24, "base": 11.24, "accuracy": 92.89, "speed": 66533},
    "resnet34": {"total": 20.35, "base": 20.35, "accuracy": 74.75, "speed": 28253},
}
"""Table 2: the uncut networks."""
