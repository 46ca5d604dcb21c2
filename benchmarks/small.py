"""Small tables and point sets against lean NumPy loops, one CPU thread, CPU milliseconds.

``fit`` against loops over single terms that keep and border the Gram matrix (for ABM with one
eigenvalue problem a term, for OAVI with one solve); ``transform`` against products that were
planned once, and against scikit-learn's ``PolynomialFeatures(degree=1)``, whose checks of input and
output are those of any estimator; and the evaluation of all monomials up to degree 3 against
``PolynomialFeatures``. The loops check nothing and report nothing; ours are the estimators as
they are. Medians of runs that take turns.

    python -m benchmarks.small
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures
from threadpoolctl import threadpool_limits

from benchmarks.engine import PSI, same
from benchmarks.record import keep
from vinets import ABM, OAVI
from vinets.algebra.evaluation import EvaluationPlan
from vinets.algebra.terms import TermSet
from vinets.data.synthetic import latent_like

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import reference

DEGREE, TURNS = 3, 41
MODELS = {
    "ABM": (lambda: ABM(PSI, max_degree=DEGREE), True),
    "OAVI": (lambda: OAVI(PSI, oracle="exact", max_degree=DEGREE), False),
}


def point_sets() -> dict[str, np.ndarray]:
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.c_[np.cos(angle), np.sin(angle)]
    table = MinMaxScaler((-1, 1)).fit_transform(load_breast_cancer().data)
    return {
        "circle": circle,
        "circle, 20 points": circle[::10],
        "spiral": circle * np.linspace(0.2, 1, 200)[:, None],
        "iris": MinMaxScaler((-1, 1)).fit_transform(load_iris().data),
        "breast cancer": table,
        "breast cancer, 50 rows": table[:50],
        "latent-like, 30 variables": latent_like(300, 30, 4, seed=1),
    }


def main() -> None:
    rows = []
    with threadpool_limits(1):
        torch.set_num_threads(1)
        for name, Z in point_sets().items():
            for label, (make, unit) in MODELS.items():
                rows.append({"points": name, "rows": len(Z), "n": Z.shape[1], "algorithm": label})
                rows[-1] |= compare(Z, make, unit)
        features = [monomials(name, Z) for name, Z in point_sets().items()]
    facts = {"psi": PSI, "max_degree": DEGREE, "turns": TURNS}
    keep("small", rows, **facts)
    keep("small_monomials", features, **facts)


def compare(Z: np.ndarray, make: Callable[[], ABM | OAVI], unit: bool) -> dict:
    model, plain = make().fit(Z), reference.gram_loop(Z, PSI, unit, DEGREE)
    ours, loop = taking_turns(
        lambda: make().fit(Z), lambda: reference.gram_loop(Z, PSI, unit, DEGREE)
    )
    planned = reference.PlainTransform(plain)
    there, here = planned(Z), model.transform(Z)
    simplest = PolynomialFeatures(1).fit(Z)
    mine, theirs, floor = taking_turns(
        lambda: model.transform(Z), lambda: planned(Z), lambda: simplest.transform(Z)
    )
    return {
        "terms": model.report_.n_terms,
        "generators": model.report_.n_generators,
        "fit_ms": ours,
        "fit_loop_ms": loop,
        "fit_ratio": loop / ours,
        "transform_ms": mine,
        "transform_loop_ms": theirs,
        "transform_ratio": theirs / mine,
        "transform_floor_ms": floor,
        "same": same(model, plain) and bool(np.allclose(there, here, atol=1e-6)),
    }


def monomials(name: str, Z: np.ndarray) -> dict:
    n = Z.shape[1]
    blocks = [
        np.array(list(combinations_with_replacement(range(n), d)), dtype=np.int64)
        for d in range(1, DEGREE + 1)
    ]
    plan = EvaluationPlan.of(TermSet(n, (np.zeros((1, 0), dtype=np.int64), *blocks)))
    points, features = torch.from_numpy(Z), PolynomialFeatures(DEGREE).fit(Z)
    ours, theirs = taking_turns(lambda: plan.evaluate(points), lambda: features.transform(Z))
    return {
        "points": name,
        "terms": features.n_output_features_,
        "plan_ms": ours,
        "polynomial_features_ms": theirs,
        "ratio": theirs / ours,
    }


def taking_turns(*runs: Callable[[], object]) -> list[float]:
    """Median CPU milliseconds of each, all of them in every turn."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(TURNS):
        for run, mine in zip(runs, times, strict=True):
            begin = time.process_time()
            run()
            mine.append(1e3 * (time.process_time() - begin))
    return [statistics.median(mine) for mine in times]


if __name__ == "__main__":
    main()
