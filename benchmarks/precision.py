"""What storing the evaluated terms in low precision costs in decisions.

``agreement`` is the share of terms common to the order ideals in the given precision and in
float64; ``first_difference`` is the position in O at which they part. ``largest_mean_square`` is
recomputed in float64 from the coefficients, relative to psi: above 1 a generator breaks its rule.

    python -m benchmarks.precision
"""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.record import keep, seconds
from vinets import ABM
from vinets.data.synthetic import latent_like

PRECISIONS = ("float64", "float32", "float16", "bfloat16")


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    Z = latent_like(512, 64, 16, noise=0.15)
    for normalization, psi in (("unit", 0.1), ("unit", 0.01), ("leading", 0.1), ("leading", 0.01)):
        exact = None
        for precision in PRECISIONS:
            model = ABM(psi, normalization=normalization, max_degree=3, precision=precision)
            took = seconds(lambda model=model: model.fit(Z), repeats=3)
            order = [tuple(t) for t in model.order_ideal_.tolist()]
            exact = exact or order
            values = model.generators_.evaluate(Z)
            rows.append(
                {
                    "rule": normalization,
                    "psi": psi,
                    "precision": precision,
                    "path": model.report_.path,
                    "terms": len(order),
                    "generators": len(model.generators_),
                    "agreement": len(set(order) & set(exact)) / len(set(order) | set(exact)),
                    "first_difference": next(
                        (i for i, (a, b) in enumerate(zip(order, exact, strict=False)) if a != b),
                        None,
                    ),
                    "largest_mean_square": float(np.max(np.mean(values**2, axis=0))) / psi,
                    "seconds": took,
                }
            )
    keep("precision", rows, points=512, variables=64, rank=16, noise=0.15, seed=0)


if __name__ == "__main__":
    main()
