"""Distances to classes against the field: classifiers without training, and strange examples.

    python -m benchmarks.distance classify --latents LATENTS
    python -m benchmarks.distance ood --latents LATENTS MORE_LATENTS ...

Folders of latents are those of :mod:`benchmarks.distance_latents`, one for each set of weights.
A folder may lack a network; ``ood`` then has one fewer of its kind.
Every setting is chosen by cross-validation on the training examples at hand. One thread is used;
seconds have the choosing in them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

import torch
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from torch import Tensor, nn

from benchmarks.distance_latents import CUTS, FAR, HOME, SIDE, classifier, known, read
from benchmarks.record import keep, seconds
from vinets.data.source import choose_per_class
from vinets.heads.class_distances import choose_space, fit_distances, spaces, try_spaces
from vinets.heads.closed import fit_ridge
from vinets.models import create_model
from vinets.scores import SCORES, Activations, LayerScore, fit_layer_score, rates

if TYPE_CHECKING:
    from vinets.report import Table

DEFAULTS: dict[str, list[Any]] = {"networks": list(CUTS), "sizes": [5, 20, 100, 500]}
NEAR = {"cifar10": "cifar100", "cifar100": "cifar10"}
FOLDS = 3
HELD = 0.2  # of the test images, which tell distances what is usual; the others are judged
BATCH = 250  # examples whose cost is measured
OURS = "distances and energy"

Answer = Callable[[Tensor], Tensor]


def cpu_seconds(run: Callable[[], Any]) -> float:
    """Median time of ``run`` on one thread, whatever runs beside it."""
    return seconds(run, clock=time.process_time)


def command(options: argparse.Namespace) -> str:
    """What was called, folders by their names."""
    folders = " ".join(folder.name for folder in options.latents)
    line = f"python -m benchmarks.distance {options.what} --latents {folders}"
    for name in ("networks", "sizes"):
        if getattr(options, name) != DEFAULTS[name]:
            line += f" --{name} {' '.join(map(str, getattr(options, name)))}"
    return line


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
    for network in options.networks:
        rows = []
        home = HOME[network]
        train = read(options.latents[0], network, "train")
        test = read(options.latents[0], network, f"{home}-test")
        classes = int(train["labels"].max()) + 1
        for cut in CUTS[network]:
            scale = train[cut].std()  # of no effect but on numbers that are too small for float32
            features, wanted = train[cut] / scale, test[cut] / scale
            most = len(features) // classes
            for size in sorted({min(size, most) for size in options.sizes}):
                for draw in range(options.draws):
                    index = choose_per_class(train["labels"], size, draw)
                    points, labels = features[index], train["labels"][index]
                    row: dict[str, Any] = {"network": network, "cut": cut}
                    row |= {"examples": size, "draw": draw}
                    for name, fit in CLASSIFIERS.items():
                        begin = time.process_time()  # of one thread, whatever runs beside it
                        answer = fit(points, labels, classes)
                        row[f"{name}_seconds"] = time.process_time() - begin
                        right = (answer(wanted) == test["labels"]).double().mean()
                        row[f"{name}_points"] = 100 * float(right)
                        if hasattr(answer, "space"):
                            row["space"] = str(answer.space)
                    print(row, flush=True)
                    rows.append(row)
            # what there is so far
            keep(f"distance_classify_{network}", rows, options.out, command=command(options))


# --- strange examples -------------------------------------------------------------------------


def seen_of(folder: Path, network: str, part: str) -> Activations:
    """What is kept; the last layer sees the average of the last map."""
    found = read(folder, network, part)
    layers = {cut: found[cut] for cut in CUTS[network] if cut != "layer1"}
    return Activations(found["layer4"], found["logits"], found.get("labels"), layers)


def some(seen: Activations, index: slice) -> Activations:
    labels = None if seen.labels is None else seen.labels[index]
    layers = {name: t[index] for name, t in seen.layers.items()}
    return Activations(seen.features[index], seen.logits[index], labels, layers)


def scores_of(
    train: Activations, held: Activations, linear: nn.Linear
) -> Iterator[tuple[str, Callable[[Activations], Tensor]]]:
    """Every score, fitted: those of others, and distances with energy, alone, and by layer."""
    for name, kind in SCORES.items():
        yield name, kind(linear).fit(train)
    whole = fit_layer_score(train, held)
    yield OURS, whole
    yield "distances alone", replace(whole, energy=None)
    for name, layer in whole.layers.items():
        yield f"distances, {name} alone", LayerScore({name: layer}, None)


@torch.no_grad()
def ood(options: argparse.Namespace) -> None:
    rows = []
    for network, folder in product(options.networks, options.latents):
        if not known(folder, network):
            continue
        home = HOME[network]
        train = seen_of(folder, network, "train")
        test = seen_of(folder, network, f"{home}-test")
        count = int(HELD * len(test.logits))
        held, inside = some(test, slice(count)), some(test, slice(count, None))
        strange = {"near": seen_of(folder, network, f"{NEAR[home]}-test")}
        strange |= {part: seen_of(folder, network, part) for part in FAR}
        batch = some(inside, slice(BATCH))
        linear = classifier(folder, network)
        model = create_model(network, linear.out_features).eval()
        images = torch.randn(BATCH, 3, SIDE, SIDE)
        forward = cpu_seconds(lambda: model(images))  # noqa: B023
        for name, score in scores_of(train, held, linear):
            row: dict[str, Any] = {"network": network, "weights": folder.name, "score": name}
            usual = score(inside)
            for title, seen in strange.items():
                auroc, fpr = rates(usual, score(seen))
                row |= {f"{title}_auroc_points": 100 * auroc, f"{title}_fpr95_points": 100 * fpr}
            row["far_auroc_points"] = sum(row[f"{part}_auroc_points"] for part in FAR) / len(FAR)
            if isinstance(score, LayerScore):
                row["spaces"] = [asdict(layer.space) for layer in score.layers.values()]
            row["forward_share"] = cpu_seconds(lambda: score(batch)) / forward  # noqa: B023
            print(row, flush=True)
            rows.append(row)
        keep("distance_ood", rows, options.out, command=command(options))  # what there is


def ood_table(record: Mapping[str, Any]) -> Table:
    """Means and deviations over networks of one kind, and how far ours is ahead of each score.

    Of distances at one layer, those at the last are shown.
    """
    from vinets.report import Column, Row, Table

    shown = {
        "near_auroc_points": "near: AUROC",
        "near_ahead_points": "ours ahead by",
        "near_fpr95_points": "near: FPR95",
        "far_auroc_points": "far: AUROC",
        "far_ahead_points": "ours ahead by",
        **{f"{part}_auroc_points": FAR[part] for part in FAR},
        "forward_share": "of a forward pass",
    }
    names = ("network", "score")
    ours = {(r["network"], r["weights"]): r for r in record["rows"] if r["score"] == OURS}
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in record["rows"]:
        if row["score"].startswith("distances, ") and "layer4 alone" not in row["score"]:
            continue
        mine = ours[row["network"], row["weights"]]
        leads = {
            f"{title}_ahead_points": mine[f"{title}_auroc_points"] - row[f"{title}_auroc_points"]
            for title in ("near", "far")
            if not row["score"].startswith("distances")
        }
        groups.setdefault((row["network"], row["score"]), []).append(row | leads)
    rows = []
    for key, runs in groups.items():
        values: dict[str, Any] = dict(zip(names, key, strict=True))
        for name in shown:
            found = [run[name] for run in runs if name in run]
            if found:
                values[name] = mean(found)
                values[f"{name}_std"] = stdev(found) if len(found) > 1 else None
        rows.append(Row(values, marked=key[1] == OURS))
    columns = [Column(name) for name in names]
    for name, label in shown.items():
        form = "+.2f" if "ahead" in name else ".1%" if name == "forward_share" else ".2f"
        columns.append(Column(name, label, form, None if form == ".1%" else f"{name}_std"))
    return Table("distance_ood", "Strange examples", tuple(columns), tuple(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("classify", "ood"))
    parser.add_argument("--latents", type=Path, nargs="+", required=True)
    parser.add_argument("--networks", nargs="+", default=DEFAULTS["networks"])
    parser.add_argument("--sizes", nargs="+", type=int, default=DEFAULTS["sizes"])
    parser.add_argument("--draws", type=int, default=1, help="of the examples")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"classify": classify, "ood": ood}[options.what](options)


if __name__ == "__main__":
    main()
