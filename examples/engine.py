"""A tour of the vanishing-ideal engine: known curves and surfaces, noise, and digits.

    python examples/engine.py --out out/demo

Prints tables and polynomials, and writes `results.json`, `zero_sets.png` and `report.html`.
Takes about 15 seconds on one core; `--quick` takes a smaller part of everything.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import scipy
import sklearn
import torch
from engine_report import Panel, Section, print_section, save_figure, write_page
from rich.console import Console
from scipy.stats import binomtest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import vinets
from vinets import ABM, OAVI, VCA, VanishingIdealClassifier
from vinets.data.synthetic import circle, sphere
from vinets.ideals.plot import plot_class_values, plot_zero_sets, plot_zero_surface, values_by_class

TITLE = "Polynomials that vanish on your data"
INTRODUCTION = (
    "Given points, vinets looks for polynomials that are nearly zero on all of them: the "
    "generators G of their approximate vanishing ideal. The tolerance psi bounds the mean squared "
    "value of a generator. The terms of which no combination vanishes make up the order ideal O; "
    "every generator combines one more term with those of O."
)
COLUMNS = ["psi", "|G|", "degrees", "mean square", "on new points", "|O|", "ms", "path"]
NOISE = 0.02

# --- points with known equations --------------------------------------------------------------


def figure_eight(m: int, seed: int) -> np.ndarray:
    """Points (m, 2) of the curve x0^4 - 0.81 x0^2 + 0.81 x1^2 = 0."""
    angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, m)
    return 0.9 * np.c_[np.cos(angle), np.sin(angle) * np.cos(angle)]


def circle_with_centre(m: int, seed: int) -> np.ndarray:
    """Noisy points (m, 2), a quarter of them near the centre of the circle that the others form."""
    centre = NOISE * np.random.default_rng(seed + 1).normal(size=(m // 4, 2))
    return np.concatenate([circle(m - m // 4, NOISE, seed=seed), centre])


def describe(model: ABM | OAVI, new_points: np.ndarray) -> dict[str, Any]:
    """The numbers of a fit."""
    report = model.report_
    return {
        "algorithm": type(model).__name__,
        "psi": model.psi,
        "polynomials": list(model.generators_.strings()),
        "degrees": model.generators_.degrees.tolist(),
        "mean_squares": model.mean_squares_.tolist(),
        "mean_squares_on_new_points": (model.transform(new_points) ** 2).mean(0).tolist(),
        "order_ideal_size": report.n_terms,
        "seconds": report.seconds,
        "path": report.path,
    }


def geometry(
    name: str, title: str, text: str, fits: dict[str, dict[str, Any]], panels: list[Panel]
) -> Section:
    """A section on fits to known sets: one row of the table a fit."""
    rows = [
        [
            label,
            f"{fit['psi']:g}",
            str(len(fit["degrees"])),
            ", ".join(map(str, fit["degrees"])),
            f"{max(fit['mean_squares'], default=0):.1e}",
            f"{max(fit['mean_squares_on_new_points'], default=0):.1e}",
            str(fit["order_ideal_size"]),
            f"{1000 * fit['seconds']:.0f}",
            fit["path"],
        ]
        for label, fit in fits.items()
    ]
    polynomials = [(label, text) for label, fit in fits.items() for text in fit["polynomials"]]
    return Section(name, title, text, ["", *COLUMNS], rows, polynomials, panels, {"fits": fits})


def exact_section(m: int, seed: int) -> Section:
    # Leading coefficient 1 and x0 > x1 > x2, so that the equations come out as one writes them.
    exact = partial(ABM, psi=0.0, normalization="leading", variable_order="descending")
    sets = {
        "circle": (partial(circle, m, 0.0), 2),
        "figure eight": (partial(figure_eight, m), 4),
        "sphere": (partial(sphere, m, 0.0), 2),
    }
    models = {label: exact(max_degree=d).fit(draw(seed=seed)) for label, (draw, d) in sets.items()}
    fits = {label: describe(models[label], sets[label][0](seed=seed + 1)) for label in sets}
    points = figure_eight(m, seed)
    draw = partial(plot_zero_sets, models["figure eight"].generators_, points=points)
    text = (
        "Without noise and with psi = 0 the equations themselves come back, up to rounding: a "
        "circle and a sphere of radius 0.9, and a figure eight. They hold on new points as well. "
        "A psi this small needs the orthogonal path, which works on the values of the terms; "
        "otherwise their matrix of inner products, the Gram matrix, is enough."
    )
    return geometry("exact", "Exact points", text, fits, [Panel("exact figure eight", draw)])


def noisy_fits(
    points: np.ndarray, new_points: np.ndarray, psi: float
) -> tuple[ABM, dict[str, dict[str, Any]]]:
    """ABM and OAVI with the same tolerance: the ABM model, and the numbers of both."""
    models = [ABM(psi, max_degree=3).fit(points), OAVI(psi, max_degree=3).fit(points)]
    return models[0], {type(model).__name__: describe(model, new_points) for model in models}


def circle_section(m: int, seed: int) -> Section:
    points = circle(m, NOISE, seed=seed)
    model, fits = noisy_fits(points, circle(m, NOISE, seed=seed + 1), psi=0.002)
    text = (
        "Noise of standard deviation 0.02 moves x0² + x1² − 0.81 by about 2 · 0.9 · 0.02 at a "
        "point, so its mean square is about 0.0013; psi = 0.002 leaves a little room. ABM scales "
        "the coefficients of a generator to norm 1, OAVI its leading coefficient to 1, which is "
        "why their mean squares differ. OAVI's oracle stops as soon as the polynomial vanishes."
    )
    draw = partial(plot_zero_sets, model.generators_, points=points)
    return geometry("circle", "A noisy circle", text, fits, [Panel("noisy circle, ABM", draw)])


def sphere_section(m: int, seed: int) -> Section:
    points = sphere(2 * m, NOISE, seed=seed)
    model, fits = noisy_fits(points, sphere(2 * m, NOISE, seed=seed + 1), psi=0.002)
    text = (
        "The same in three dimensions, with the same noise and the same psi. One polynomial of "
        "degree 2 describes the points; its zero set is the surface in the picture."
    )
    draw = partial(plot_zero_surface, model.generators_, points=points, window=(-1.0, 1.0))
    panels = [Panel("noisy sphere, ABM", draw, three_d=True)]
    return geometry("sphere", "A noisy sphere", text, fits, panels)


def centre_section(m: int, seed: int) -> Section:
    points = circle_with_centre(m, seed)
    model, fits = noisy_fits(points, circle_with_centre(m, seed + 10), psi=0.001)
    text = (
        "Add the centre of the circle, and no polynomial of degree 2 vanishes any more. Of degree "
        "3 there are two, close to x0 (x0² + x1² − 0.81) and x1 (x0² + x1² − 0.81). Each is zero "
        "on a line as well as on the circle; the zeros of both are the circle and its centre."
    )
    count = min(len(model.generators_), 3)
    draw = partial(plot_zero_sets, model.generators_, points=points)
    panels = [
        Panel(f"circle and centre, generator {j}", partial(draw, index=j)) for j in range(count)
    ]
    panels.append(Panel("circle and centre, all generators", draw))
    return geometry("circle_with_centre", "A circle and its centre", text, fits, panels)


# --- digits -----------------------------------------------------------------------------------

GRID = {"estimator__psi": [0.1, 0.2, 0.3], "estimator__max_degree": [1, 2]}
PIXELS = [f"p{row}{column}" for row in range(8) for column in range(8)]


def competitors() -> dict[str, tuple[Any, dict[str, list[Any]]]]:
    """Models and the parameters to choose from: vanishing features first, then pixels."""
    models: dict[str, tuple[Any, dict[str, list[Any]]]] = {
        f"{type(ideal).__name__} + logistic": (VanishingIdealClassifier(ideal), GRID)
        for ideal in (ABM(), OAVI(), VCA())
    }
    scale = MinMaxScaler((-1, 1), clip=True)  # as VanishingIdealClassifier does
    linear = make_pipeline(scale, StandardScaler(), LogisticRegression(max_iter=1000))
    models["pixels + logistic"] = (linear, {"logisticregression__C": [0.01, 0.1, 1, 10]})
    models["pixels + RBF SVM"] = (make_pipeline(scale, SVC()), {"svc__C": [1, 10, 100]})
    return models


def telling_generators(model: VanishingIdealClassifier, X: np.ndarray, y: np.ndarray) -> list[str]:
    """Per class, the generator that is largest on other classes relative to its own."""
    X = model.scaler_.transform(X)
    found = []
    for label, ideal in model.ideals_:
        values = ideal.transform(X)
        means = np.array([values[y == k].mean(0) for k in model.classes_])
        own = model.classes_ == label
        contrast = means[~own].min(0) / np.maximum(means[own][0], 1e-3)
        found.append(list(ideal.generators_.strings(PIXELS))[contrast.argmax()])
    return found


def digits_section(seed: int, quick: bool) -> Section:
    X, y = load_digits(return_X_y=True)
    if quick:
        X, y = X[y < 3], y[y < 3]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
    folds = StratifiedKFold(3, shuffle=True, random_state=seed)  # of the training part alone
    searches, results, panels = {}, {}, []
    for name, (model, grid) in competitors().items():
        search = GridSearchCV(model, grid, cv=folds).fit(X, y)
        best, right = search.best_estimator_, search.predict(X_test) == y_test
        searches[name] = search
        results[name] = {
            "features": X.shape[1],
            "chosen": {key.split("__")[1]: value for key, value in search.best_params_.items()},
            "seconds": search.refit_time_,
            "cross_validation": search.best_score_,
            "accuracy": right.mean(),
            "errors": int((~right).sum()),
            "right": right.tolist(),
        }
        if isinstance(best, VanishingIdealClassifier):
            means = values_by_class(best.ideals_, best.scaler_.transform(X_test), y_test)
            results[name] |= {"features": best.ideals_.n_generators, "means": means.tolist()}
            panels.append(
                Panel(
                    f"digits, {name.split()[0]}", partial(plot_class_values, means, best.classes_)
                )
            )
    telling = telling_generators(searches["ABM + logistic"].best_estimator_, X, y)
    polynomials = [(f"ABM, digit {k}", text) for k, text in zip(np.unique(y), telling, strict=True)]
    columns = ["", "features", "psi, C", "degree", "fit s", "CV", "held out", "errors"]
    fewest = min(r["errors"] for r in results.values())
    rows = [
        [
            name,
            str(r["features"]),
            f"{r['chosen'].get('psi', r['chosen'].get('C')):g}",
            str(r["chosen"].get("max_degree", "")),
            f"{r['seconds']:.2f}",
            f"{r['cross_validation']:.3f}",
            f"{r['accuracy']:.3f}",
            f"{r['errors']} (best)" if r["errors"] == fewest else str(r["errors"]),
        ]
        for name, r in results.items()
    ]
    numbers = {
        "train": len(y),
        "test": len(y_test),
        "models": {
            name: {k: v for k, v in r.items() if k != "right"} for name, r in results.items()
        },
        "telling_generators": telling,
    }
    text = (
        f"One ideal per digit, fitted to {len(y)} images scaled to [−1, 1]; the features of an "
        "image are the absolute values of all generators, and logistic regression classifies them. "
        "The baselines see the pixels, scaled in the same way. psi and max_degree, like the C of "
        "the baselines, are chosen by 3-fold cross-validation on the training images; the "
        f"{len(y_test)} held-out images are looked at once."
    )
    title, reading = "Handwritten digits, 8 × 8 pixels", digits_reading(results)
    return Section("digits", title, text, columns, rows, polynomials, panels, numbers, reading)


def digits_reading(results: dict[str, dict[str, Any]]) -> tuple[str, ...]:
    """What the table of the digits says; who wins follows from the numbers."""
    ours = [name for name, r in results.items() if "means" in r]
    best = max(ours, key=lambda name: results[name]["cross_validation"])
    verdicts = [_verdict(results, best, baseline) for baseline in results if baseline not in ours]
    return (
        f"By cross-validation, {best} is the best of the three. {' '.join(verdicts)}",
        "The maps show how large the generators of one digit are on held-out images of another: "
        "small, dark, on the diagonal. The polynomials are those which tell a digit best from the "
        "others; p44 is the pixel in row 4 and column 4, counted from 0, and −1 where blank, as in "
        "the middle of a zero.",
    )


def _verdict(results: dict[str, dict[str, Any]], ours: str, baseline: str) -> str:
    """Who is right more often, and whether chance explains it (exact McNemar test)."""
    a, b = np.array(results[ours]["right"]), np.array(results[baseline]["right"])
    only_ours, only_baseline = int((a & ~b).sum()), int((b & ~a).sum())
    apart = only_ours + only_baseline
    p = binomtest(only_ours, apart).pvalue if apart else 1.0
    if only_ours == only_baseline:
        return f"It makes as many errors as {baseline}, {results[ours]['errors']}."
    outcome = "fewer" if only_ours > only_baseline else "more"
    chance = "rarely" if p < 0.05 else "easily"
    counts = f"{results[ours]['errors']} to {results[baseline]['errors']}"
    return (
        f"It makes {outcome} errors than {baseline}, {counts}, a difference that chance {chance} "
        f"makes (p\u00a0=\u00a0{p:.2g})."
    )


# --- all of it --------------------------------------------------------------------------------


def tour(out: Path, seed: int, quick: bool) -> None:
    """Run all sections and write what they find to a folder."""
    begin = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.print(TITLE, style="bold")
    console.print(INTRODUCTION, highlight=False)
    m = 120 if quick else 200
    OAVI(0.1, max_degree=2).fit(circle(10))  # the first call of anything is slow: not to be timed
    sections = []
    for make in (exact_section, circle_section, sphere_section, centre_section):
        sections.append(make(m, seed))
        print_section(sections[-1], console)
    sections.append(digits_section(seed, quick))
    print_section(sections[-1], console)

    versions = {"python": platform.python_version()}
    for module in (vinets, torch, np, scipy, sklearn, matplotlib):
        versions[module.__name__] = module.__version__
    numbers = {section.name: section.numbers for section in sections}
    results = {"versions": versions, "seed": seed, "quick": quick, "sections": numbers}
    files = [out / name for name in ("results.json", "zero_sets.png", "report.html")]
    files[0].write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    save_figure(sections, files[1])
    footer = f"Seed {seed}. " + ", ".join(f"{name} {v}" for name, v in versions.items()) + "."
    write_page(sections, files[2], title=TITLE, introduction=INTRODUCTION, footer=footer)
    console.print(f"\nDone in {time.perf_counter() - begin:.0f} s. Written:", highlight=False)
    for file in files:
        console.print(f"  {file}", highlight=False, soft_wrap=True)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="A tour of the vanishing-ideal engine.")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for the results")
    parser.add_argument("--seed", type=int, default=0, help="seed of all points and splits")
    parser.add_argument("--quick", action="store_true", help="fewer points, digits 0 to 2 only")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)  # the matrices here are small: threads cost more than they bring
    with threadpool_limits(1):
        tour(options.out, options.seed, options.quick)


if __name__ == "__main__":
    main()
