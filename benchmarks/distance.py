"""Distances to classes against the field: classifiers without training, and strange examples.

    python -m benchmarks.distance_latents ... --out LATENTS
    python -m benchmarks.distance classify --latents LATENTS
    python -m benchmarks.distance ood --latents LATENTS

Latents are averages over positions at cuts of uncut networks. Every setting is chosen by
cross-validation on the training examples at hand. Seconds are of one thread, choosing included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from torch import Tensor, nn

from benchmarks.distance_latents import CUTS, FAR, GRID, HOME, read
from benchmarks.record import keep
from vinets.data.labels import choose_per_class
from vinets.distance import (
    SCORES,
    Seen,
    choose_space,
    fit_distances,
    fit_ridge,
    fit_strangeness,
    rates,
    spaces,
    try_spaces,
)
from vinets.distance.strangeness import Strangeness
from vinets.models import create_model
from vinets.models.weights import load_weights

SIZES = (5, 20, 100, 500)
NEAR = {"cifar10": "cifar100", "cifar100": "cifar10"}
FOLDS = 3

Answer = Callable[[Tensor], Tensor]


def pooled(latents: Tensor) -> Tensor:
    """Channels, averaged over the grid."""
    return latents.unflatten(1, (-1, GRID**2)).mean(2)


# --- classifiers ------------------------------------------------------------------------------


def sklearn_answer(model: Any) -> Callable[[Tensor, Tensor, int], Answer]:
    def fit(features: Tensor, labels: Tensor, classes: int) -> Answer:
        model.fit(features.numpy(), labels.numpy())
        return lambda x: torch.from_numpy(model.predict(x.numpy()))

    return fit


def qda(features: Tensor, labels: Tensor, classes: int) -> Answer:
    steps = make_pipeline(
        PCA(min(32, len(features) * 2 // 3 - 1)), QuadraticDiscriminantAnalysis(solver="eigen")
    )
    grid = {"quadraticdiscriminantanalysis__shrinkage": [0.1, 0.5, 0.9]}
    return sklearn_answer(GridSearchCV(steps, grid, cv=FOLDS))(features, labels, classes)


def knn(features: Tensor, labels: Tensor, classes: int) -> Answer:
    grid = {"n_neighbors": [1, 3, 10] if len(features) // classes < 20 else [1, 5, 20]}
    search = GridSearchCV(KNeighborsClassifier(), grid, cv=FOLDS)
    return sklearn_answer(search)(features, labels, classes)


def ridge(features: Tensor, labels: Tensor, classes: int) -> Answer:
    found = fit_ridge(features, labels, classes)
    return lambda x: found(x).argmax(1)


def distances(features: Tensor, labels: Tensor, classes: int) -> Answer:
    best = choose_space(try_spaces(features, labels, spaces(), classes)).space
    found = fit_distances(features, labels, best, classes)

    def answer(x: Tensor) -> Tensor:
        return torch.cat([found(part).argmin(1) for part in x.split(1000)])

    answer.space = best  # type: ignore[attr-defined]
    return answer


def lda() -> Any:
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")


CLASSIFIERS: dict[str, Callable[[Tensor, Tensor, int], Answer]] = {
    "nearest_mean": sklearn_answer(NearestCentroid()),
    "lda": sklearn_answer(lda()),
    "qda": qda,
    "knn": knn,
    "ridge": ridge,
    "distances": distances,
}


def classify(options: argparse.Namespace) -> None:
    rows = []
    for network in options.networks:
        home = HOME[network]
        train = read(options.latents, network, "train")
        test = read(options.latents, network, f"{home}-test")
        classes = int(train["labels"].max()) + 1
        for cut in options.cuts or CUTS[network]:
            if cut not in train:
                continue
            features, wanted = pooled(train[cut]), pooled(test[cut])
            scale = features.std()  # of no effect but on numbers that are too small for float32
            features, wanted = features / scale, wanted / scale
            for size in options.sizes:
                for draw in range(1 if size >= 500 else options.draws):
                    index = choose_per_class(train["labels"], size, draw)
                    points, labels = features[index], train["labels"][index]
                    row: dict[str, Any] = {"network": network, "cut": cut}
                    row |= {"examples": size, "draw": draw}
                    for name, fit in CLASSIFIERS.items():
                        begin = time.perf_counter()
                        answer = fit(points, labels, classes)
                        row[f"{name}_seconds"] = time.perf_counter() - begin
                        right = (answer(wanted) == test["labels"]).double().mean()
                        row[f"{name}_points"] = 100 * float(right)
                        if hasattr(answer, "space"):
                            row["space"] = str(answer.space)
                    print(row, flush=True)
                    rows.append(row)
    keep(options.name or "distance_classify", rows, options.out)


# --- strange examples -------------------------------------------------------------------------


def classifier_of(network: str, folder: Path | None, classes: int) -> nn.Linear:
    model = create_model(network, classes)
    if folder is not None:
        load_weights(model, folder / f"{network}_{HOME[network]}.safetensors")
    return model.float().get_submodule("fc").requires_grad_(False)  # type: ignore[return-value]


@torch.no_grad()
def ood(options: argparse.Namespace) -> None:
    rows = []
    for network in options.networks:
        home = HOME[network]
        train = read(options.latents, network, "train")
        if len(train["labels"]) > options.train:
            classes = int(train["labels"].max()) + 1
            index = choose_per_class(train["labels"], options.train // classes, 0)
            train = {name: t[index] for name, t in train.items()}
        labels, classes = train["labels"], int(train["labels"].max()) + 1
        parts = {
            part: read(options.latents, network, part)
            for part in (f"{home}-test", f"{NEAR[home]}-test", *FAR)
        }
        inside = f"{home}-test"
        last = CUTS[network][-1]
        linear = classifier_of(network, options.weights, classes)

        def seen(found: dict[str, Tensor], last: str = last) -> Seen:
            return Seen(pooled(found[last]), found["logits"], found.get("labels"))

        known = seen(train)
        assert torch.allclose(linear(known.features), known.logits, atol=0.05)  # float16 latents

        def compare(
            name: str,
            score: Callable[[dict[str, Tensor]], Tensor],
            fitted: float,
            *,
            parts: dict[str, dict[str, Tensor]] = parts,
            facts: dict[str, Any] = {"network": network, "inside": home},  # noqa: B006
            inside: str = inside,
        ) -> None:
            begin = time.perf_counter()
            ours = score(parts[inside])
            row: dict[str, Any] = facts | {"score": name, "fit_seconds": fitted}
            row["score_seconds"] = time.perf_counter() - begin
            for part, found in parts.items():
                if part != inside:
                    auroc, fpr = rates(ours, score(found))
                    title = "near" if part.endswith("-test") else part
                    row |= {f"{title}_auroc_points": 100 * auroc}
                    row |= {f"{title}_fpr95_points": 100 * fpr}
            far = [row[f"{part}_auroc_points"] for part in FAR]
            row["far_auroc_points"] = float(np.mean(far))
            print(row, flush=True)
            rows.append(row)

        for name, kind in SCORES.items():
            begin = time.perf_counter()
            made = kind(linear).fit(known)
            compare(name, lambda found, made=made: made(seen(found)), time.perf_counter() - begin)

        layers = [cut for cut in CUTS[network] if cut != "layer1"]
        features = {cut: pooled(train[cut]) for cut in layers}

        def at(found: dict[str, Tensor], cuts: list[str] = layers) -> dict[str, Tensor]:
            return {cut: pooled(found[cut]) for cut in cuts}

        begin = time.perf_counter()
        candidates = spaces()
        whole = fit_strangeness(
            features, labels, classes, logits=train["logits"], candidates=candidates
        )
        took = time.perf_counter() - begin
        alone = replace(whole, energy=None)
        compare("distances and energy", lambda found, f=whole: f(at(found), found["logits"]), took)
        compare("distances", lambda found, f=alone: f(at(found)), took)
        for cut in layers:
            one = Strangeness({cut: whole.layers[cut]})
            compare(f"distances, {cut} alone", lambda found, one=one: one(at(found)), took)
    keep(options.name or "distance_ood", rows, options.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("classify", "ood"))
    parser.add_argument("--latents", type=Path, required=True)
    parser.add_argument("--weights", type=Path, help="of the uncut networks; for ood")
    parser.add_argument("--networks", nargs="+", default=list(CUTS))
    parser.add_argument("--cuts", nargs="+")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--draws", type=int, default=3, help="of fewer than 500 examples a class")
    parser.add_argument("--train", type=int, default=10_000, help="examples for ood")
    parser.add_argument("--name", help="of the results")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"classify": classify, "ood": ood}[options.what](options)


if __name__ == "__main__":
    main()
