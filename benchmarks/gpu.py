"""Class-wise ideals on a GPU, coefficients included, against the same fits on the CPU beside it.

python -m benchmarks.gpu [--out DIR] [--quick]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.record import keep, seconds
from vinets import ABM, OAVI, fit_class_ideals
from vinets.data.synthetic import latent_like_classes

PROBLEMS = [
    ("10 classes, unit", ABM(0.01), {"n_classes": 10, "rank": 32, "noise": 0.15}),
    ("10 classes, unit, rich", ABM(0.01), {"n_classes": 10, "rank": 64, "noise": 0.5}),
    ("10 classes, leading", ABM(0.01, normalization="leading", max_degree=3),
     {"n_classes": 10, "rank": 8, "noise": 0.15}),
    ("100 classes, unit", ABM(0.03), {"n_classes": 100, "m": 375, "rank": 32, "noise": 0.15}),
    ("100 classes, unit, rich", ABM(0.05),
     {"n_classes": 100, "m": 375, "rank": 64, "noise": 0.15}),
    ("10 classes, bpcg", OAVI(0.01, oracle="bpcg", max_degree=3),
     {"n_classes": 10, "rank": 8, "noise": 0.05, "gain": 0.82}),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true", help="two classes, no repeats")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = [compare(*problem, device, options.quick) for problem in PROBLEMS]
    keep("gpu", rows, options.out, n=128, device=device)


def compare(name: str, model: ABM | OAVI, points: dict, device: str, quick: bool) -> dict:
    Z, y = latent_like_classes(**(points | ({"n_classes": 2, "m": 60} if quick else {})))
    on_device = torch.from_numpy(Z).to(device)
    fits = {}

    def batched() -> None:
        fits["gpu"] = fit_class_ideals(on_device, y, model, backend="batched")

    def processes() -> None:
        fits["cpu"] = fit_class_ideals(Z, y, model, backend="joblib", n_jobs=-1)

    gpu = seconds(batched, repeats=1 if quick else 3)
    cpu = seconds(processes, repeats=1 if quick else 3, warmup=2)
    same = all(
        (a.order_ideal_ == b.order_ideal_).all() and (a.leading_terms_ == b.leading_terms_).all()
        if a.report_.n_terms == b.report_.n_terms
        else False
        for (_, a), (_, b) in zip(fits["gpu"], fits["cpu"], strict=True)
    )
    worst = max(float(ideal.mean_squares_.max()) for _, ideal in fits["gpu"])
    return {
        "problem": name,
        "terms": sum(ideal.report_.n_terms for _, ideal in fits["gpu"]),
        "generators": fits["gpu"].n_generators,
        "coefficients_M": sum(i.generators_.tail.numel() for _, i in fits["gpu"]) / 1e6,
        "batched_s": gpu,
        "cpu_processes_s": cpu,
        "ratio": cpu / gpu,
        "same_decisions": same,
        "largest_mean_square": worst,
        "settings": {k: str(v) for k, v in {**points, "model": model}.items()},
    }


if __name__ == "__main__":
    main()
