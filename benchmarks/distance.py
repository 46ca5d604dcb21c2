"""Distances to classes against the field: classifiers without training, and strange examples.

    python -m benchmarks.distance classify --latents LATENTS
    python -m benchmarks.distance ood --latents LATENTS MORE_LATENTS ...

Folders of latents are those of :mod:`benchmarks.distance_latents`, one for each set of weights.
Every setting is chosen by cross-validation on the training examples at hand. One thread is used;
seconds have the choosing in them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from torch import Tensor, nn

from benchmarks.distance_latents import CUTS, FAR, HOME, SIDE, classifier, read
from benchmarks.record import keep, seconds
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

SIZES = (5, 20, 100, 500)
NEAR = {"cifar10": "cifar100", "cifar100": "cifar10"}
FOLDS = 3
BATCH = 250  # examples whose cost is measured
OURS = "distances and energy"

Answer = Callable[[Tensor], Tensor]


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
        train = read(options.latents[0], network, "train")
        test = read(options.latents[0], network, f"{home}-test")
        classes = int(train["labels"].max()) + 1
        for cut in CUTS[network]:
            scale = train[cut].std()  # of no effect but on numbers that are too small for float32
            features, wanted = train[cut] / scale, test[cut] / scale
            for size in options.sizes:
                if size > len(features) // classes:
                    continue
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
    keep("distance_classify", rows, options.out)


# --- strange examples -------------------------------------------------------------------------

Part = dict[str, Tensor]


def seen(part: Part) -> Seen:
    """What the last layer sees, which is the average of the last map."""
    return Seen(part["layer4"], part["logits"], part.get("labels"))


def scores_of(train: Part, linear: nn.Linear, cuts: list[str]) -> Iterator[tuple[str, Any]]:
    """Every score, fitted: those of others, and distances with energy, alone, and cut by cut."""
    for name, kind in SCORES.items():
        made = kind(linear).fit(seen(train))
        yield name, lambda part, made=made: made(seen(part))
    labels = train["labels"]
    whole = fit_strangeness(
        {cut: train[cut] for cut in cuts},
        labels,
        int(labels.max()) + 1,
        logits=train["logits"],
        candidates=spaces(),
    )
    yield OURS, lambda part: whole(part, part["logits"])
    yield "distances alone", replace(whole, energy=None)
    for cut in cuts:
        yield f"distances, {cut} alone", Strangeness({cut: whole.layers[cut]})


@torch.no_grad()
def ood(options: argparse.Namespace) -> None:
    rows = []
    for network, folder in product(options.networks, options.latents):
        home = HOME[network]
        train = read(folder, network, "train")
        linear = classifier(folder, network)
        inside, *outside = (
            read(folder, network, part) for part in (f"{home}-test", f"{NEAR[home]}-test", *FAR)
        )
        some = {name: t[:BATCH] for name, t in inside.items()}
        model = create_model(network, linear.out_features).eval()
        images = torch.randn(BATCH, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)
        model = model.to(memory_format=torch.channels_last)
        cuts = [cut for cut in CUTS[network] if cut != "layer1"]
        for name, score in scores_of(train, linear, cuts):
            row = {"network": network, "weights": folder.name, "score": name}
            usual = score(inside)
            for title, part in zip(("near", *FAR), outside, strict=True):
                auroc, fpr = rates(usual, score(part))
                row |= {f"{title}_auroc_points": 100 * auroc, f"{title}_fpr95_points": 100 * fpr}
            far = [row[f"{title}_auroc_points"] for title in FAR]
            row["far_auroc_points"] = sum(far) / len(far)
            # both in turn: other work on the machine slows them alike
            whole = seconds(lambda: model(images), repeats=3)  # noqa: B023
            row["forward_share"] = seconds(lambda: score(some), repeats=3) / whole  # noqa: B023
            print(row, flush=True)
            rows.append(row)
    keep("distance_ood", rows, options.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("classify", "ood"))
    parser.add_argument("--latents", type=Path, nargs="+", required=True)
    parser.add_argument("--networks", nargs="+", default=list(CUTS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--draws", type=int, default=3, help="of fewer than 500 examples a class")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"classify": classify, "ood": ood}[options.what](options)


if __name__ == "__main__":
    main()
