"""The demo: cut a small network at several places and see what polynomials do behind each cut.

    python -m vinets.demo --out out/demo

Needs no network and no GPU. Prints tables, and writes ``results.json``, ``report.html`` and the
best VI-Net into the folder.
"""

from __future__ import annotations

import argparse
import copy
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets.checks import optional_positive_int, parameter_error
from vinets.data import DataSplit, digits
from vinets.ideals.abm import ABM
from vinets.ideals.base import VanishingIdeal
from vinets.latent.pca import fit_pca
from vinets.measure import compare, machine
from vinets.models import digits_cnn
from vinets.nn import CutNetwork, VINet
from vinets.pipeline import BuildReport, Latents, baselines, build, collect
from vinets.plotting import plot_generators, plot_points, plot_scores
from vinets.progress import Progress, progress_of
from vinets.report import as_characters, demo_html, print_outcome, print_table
from vinets.report.results import NARROW_COLUMNS, result_cells, result_row
from vinets.running import resolve_device
from vinets.theory import cut_complexity, spectral_complexity
from vinets.training import History, Recipe, cache_latents, fine_tune, train_classifier

__all__ = ["DEMO_CUTS", "DEMO_SETTINGS", "Settings", "run_demo"]


@dataclass(frozen=True)
class Settings:
    """What happens behind one cut.

    Parameters
    ----------
    ideal : VanishingIdeal
        The algorithm that finds the polynomials.
    build : dict
        Further arguments of :func:`vinets.pipeline.build`.
    recipe : Recipe
        How the VI-Net and all its baselines are trained.
    views : int
        Augmented passes over the training images whose latents are kept.
    """

    ideal: VanishingIdeal
    build: Mapping[str, Any]
    recipe: Recipe
    views: int = 8

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, flat: ``ideal.psi``, ``build.keep``, ``recipe.epochs``, ..."""
        groups = {
            "ideal": {"algorithm": type(self.ideal).__name__} | self.ideal.get_params(),
            "build": self.build,
            "recipe": {k: v for k, v in self.recipe.to_dict().items() if k != "seed"},
        }
        flat = {f"{group}.{k}": v for group, values in groups.items() for k, v in values.items()}
        return flat | {"views": self.views}


IDEAL = ABM(psi=0.03, max_degree=3)
BUILD = {"n_components": 32, "keep": 16, "train_projection": True, "linear_path": 8}
HEADS = Recipe(epochs=40, batch_size=64, weight_decay=0.01)  # the digits are few

DEMO_SETTINGS = {  # by cut, earliest first
    cut: Settings(IDEAL, BUILD, HEADS) for cut in ("relu1", "relu2", "pool", "relu3")
}
DEMO_CUTS = tuple(DEMO_SETTINGS)
BACKBONE = Recipe(epochs=15, batch_size=64, learning_rate=0.1, schedule="one-cycle", validation=0.0)
BATCH, WINDOWS, SECONDS = 256, 5, 0.15  # speed: images a pass, windows, seconds of each
QUICK_CUTS, QUICK_EPOCHS, QUICK_SECONDS = ("pool", "relu3"), 2, 0.01  # for --quick


def run_demo(
    out: str | Path,
    *,
    seed: int = 0,
    seeds: int = 1,
    quick: bool = False,
    device: str = "auto",
    progress: Progress | str | None = "auto",
) -> dict[str, Any]:
    """Train a network on digits, cut it, and compare VI-Nets with their baselines.

    Parameters
    ----------
    out : path
        Folder for ``results.json``, ``report.html`` and the saved network ``vinet``; it is made if
        need be, and files of an earlier run are replaced.
    seed : int, default=0
        Of the split into training and test images, and the first seed of training.
    seeds : int, default=1
        Repeat with so many seeds on the same split; accuracies are means over them. Speed,
        histories and the saved network are those of the first one.
    quick : bool, default=False
        Two cuts and little training, to see that everything works.
    device : str, default="auto"
        Where networks are trained; "auto" is a GPU where there is one. Speed is that of the CPU.
    progress : Progress, "auto" or None
        See :mod:`vinets.progress`.

    Returns
    -------
    dict
        What ``results.json`` holds.
    """
    begin = time.perf_counter()
    count = optional_positive_int("run_demo", "seeds", seeds)
    if count is None:
        raise parameter_error("run_demo", "seeds", "a positive integer", seeds)
    place = resolve_device("run_demo", device)
    folder = _folder(out)
    results = {
        "command": _command(out, seed, count, quick),
        "machine": machine("cpu"),
        "seed": seed,
        "seeds": count,
        "batch": BATCH,
    }
    with torch.random.fork_rng(devices=[]):  # the caller's draws go on as if nothing had happened
        data = digits(seed)
        best = _compare_cuts(results, data, quick, place, progress_of(progress))
        best.entrants[0].network.save_pretrained(folder / "vinet")
        results["saved"] = {"cut": best.cut, "folder": "vinet"}
        results["example"] = classify_one(folder / "vinet", data)
    results["seconds"] = time.perf_counter() - begin
    _write(folder, results, best)
    print_outcome(results)
    print(f"\nWritten to {folder}: report.html, results.json, vinet/")
    return results


def _compare_cuts(
    results: dict[str, Any], data: DataSplit, quick: bool, place: torch.device, watch: Progress
) -> Heat:
    """Fill ``results`` cut by cut; return the heat whose VI-Net is best on held-out images."""
    settings, backbone, window = _chosen(quick)
    seeds = range(results["seed"], results["seed"] + results["seeds"])
    models, uncut = _uncut(data, backbone, seeds, place, watch)
    results |= {"data": {"name": data.name, "train": len(data.train), "test": len(data.test)}}
    results |= {"uncut": uncut, "cuts": [], "rows": [], "histories": {}}
    firsts = []
    for cut, setting in settings.items():
        pairs = zip(models, seeds, strict=True)
        heats = [_compete(model, data, cut, setting, seed, place, watch) for model, seed in pairs]
        networks = {entrant.name: entrant.network for entrant in heats[0].entrants}
        speeds = _speeds({uncut["name"]: models[0], **networks}, data, window)
        _record(results, heats, setting, speeds)
        firsts.append(heats[0])
    results["theory"] = _theory(models[0], firsts, data)
    return max(firsts, key=lambda heat: heat.held_out)


@dataclass(frozen=True, eq=False)
class Entrant:
    """A trained head behind a cut, folded, with the test images that it gets wrong."""

    name: str
    network: CutNetwork
    history: History
    wrong: list[int]
    seconds: float


@dataclass(frozen=True, eq=False)
class Heat:
    """All heads behind one cut of one network; the VI-Net is the first."""

    cut: str
    shape: tuple[int, int]
    plane: Tensor  # (m, 2), principal components of the latents
    report: BuildReport
    entrants: tuple[Entrant, ...]

    @property
    def held_out(self) -> tuple[float, float]:
        """Accuracy of the VI-Net on the held-out training images; of equals the smaller one."""
        ours = self.entrants[0]
        accuracy = ours.history.epochs[ours.history.best - 1].validation_accuracy
        return accuracy or 0.0, -float(sum(ours.network.parts().values()))


def _compete(
    model: nn.Module,
    data: DataSplit,
    cut: str,
    setting: Settings,
    seed: int,
    place: torch.device,
    watch: Progress,
) -> Heat:
    """Build the VI-Net and its baselines behind ``cut`` and train all of them alike."""
    torch.manual_seed(seed)
    recipe, degree = replace(setting.recipe, seed=seed), setting.ideal.max_degree
    latents = collect(
        copy.deepcopy(model), data.train, cut, device=place, seed=seed, progress=watch
    )
    vinet, report = build(latents, ideal=setting.ideal, seed=seed, progress=watch, **setting.build)
    networks = {"VI-Net": vinet} | baselines(vinet, latents, max_degree=degree, seed=seed)
    views = cache_latents(
        vinet,
        data.train,
        views=setting.views,
        validation=recipe.validation,
        augment=recipe.augment,
        device=place,
        seed=seed,
        progress=watch,
    )
    entrants = []
    for name, network in networks.items():
        history = fine_tune(network, views, recipe=recipe, progress=watch)
        folded = copy.deepcopy(network.folded()).cpu()
        building = sum(report.seconds.values()) if network is vinet else 0.0
        seconds = building + history.seconds
        entrants.append(Entrant(name, folded, history, _wrong(folded, data), seconds))
    return Heat(cut, latents.shape, _plane(latents), report, tuple(entrants))


def _theory(model: nn.Module, heats: Sequence[Heat], data: DataSplit) -> dict[str, Any]:
    """Spectral complexity of the uncut network and, with the theorem's bounds, of every VI-Net."""
    example = data.train.example()
    assert isinstance(example, Tensor)
    uncut = spectral_complexity(model, example)
    cuts = {}
    for heat in heats:
        found = cut_complexity(heat.entrants[0].network, example)
        bounds = found.head.bounds
        cuts[heat.cut] = found.whole.to_dict() | {
            "log10_kappa": found.whole.log10_R - uncut.log10_R,
            "log10_R_guaranteed": found.guaranteed.log10_R,
            "bounds": None if bounds is None else bounds.to_dict(),
        }
    return {"uncut": uncut.to_dict(), "cuts": cuts}


def _plane(latents: Latents) -> Tensor:
    """First two principal components of the latents as a whole, (m, 2)."""
    flat = torch.cat([values.flatten(1) for values, _ in latents.store.chunks()])
    return fit_pca(lambda: [flat], 2).transform(flat).cpu()


def _uncut(
    data: DataSplit, recipe: Recipe, seeds: Sequence[int], place: torch.device, watch: Progress
) -> tuple[list[nn.Module], dict[str, Any]]:
    """The uncut network of every seed, and what is known of them."""
    models: list[nn.Module] = []
    histories = []
    for seed in seeds:
        torch.manual_seed(seed)
        model = digits_cnn()
        chosen = replace(recipe, seed=seed)
        histories.append(
            train_classifier(model, data.train, recipe=chosen, device=place, progress=watch)
        )
        models.append(model.cpu())
    numbers = sum(p.numel() for p in models[0].parameters())
    row = result_row(
        "uncut network",
        {"backbone": numbers},
        [_wrong(model, data) for model in models],
        len(data.test),
        seconds=histories[0].seconds,
        history=histories[0].to_dict(),
    )
    return models, row


def _record(
    results: dict[str, Any], heats: Sequence[Heat], setting: Settings, speeds: Mapping[str, Any]
) -> None:
    """Add what happened behind a cut to the results, and print it."""
    first = heats[0]
    rows = [
        result_row(
            entrant.name,
            entrant.network.parts(),
            [heat.entrants[position].wrong for heat in heats],
            results["data"]["test"],
            cut=first.cut,
            seconds=entrant.seconds,
            best_epoch=entrant.history.best,
            **speeds[entrant.name],
        )
        for position, entrant in enumerate(first.entrants)
    ]
    channels, positions = first.shape
    uncut = speeds[results["uncut"]["name"]]
    results["uncut"] = uncut | results["uncut"]  # the first cut's speed stays
    results["rows"] += rows
    results["histories"][first.cut] = {e.name: e.history.to_dict() for e in first.entrants}
    results["cuts"].append(
        {
            "cut": first.cut,
            "channels": channels,
            "positions": positions,
            "uncut": uncut,
            "settings": setting.to_dict(),
            "build": first.report.to_dict(),
            "report": str(first.report),
        }
    )
    title = f"Cut at {first.cut}: {channels} channels at {positions} positions"
    cells = result_cells(rows, results["uncut"] | uncut)
    print_table(title, NARROW_COLUMNS, cells, marked=(1,))


@torch.no_grad()
def _wrong(network: nn.Module, data: DataSplit) -> list[int]:
    """Positions of the test images that ``network`` gets wrong."""
    network.eval()
    answers = [network(inputs).argmax(1) == labels for inputs, labels in data.test.batches(BATCH)]
    return (~torch.cat(answers)).nonzero()[:, 0].tolist()


def _speeds(
    networks: Mapping[str, nn.Module], data: DataSplit, seconds: float
) -> dict[str, dict[str, float]]:
    """Images per second of networks that take turns."""
    measured = compare(
        networks,
        data.test.example(BATCH),
        batch_sizes=(BATCH,),
        repeats=WINDOWS,
        seconds=seconds,
        device="cpu",
    )
    return {
        name: {"images_per_second": speed.mean, "images_per_second_std": speed.std}
        for name, (speed,) in measured.items()
    }


@torch.no_grad()
def classify_one(directory: str | Path, data: DataSplit, index: int = 0) -> dict[str, Any]:
    """Load a saved VI-Net and ask it about one test image."""
    network = VINet.from_pretrained(directory)
    inputs, labels = next(data.test.subset(torch.tensor([index])).batches(1))
    assert isinstance(inputs, Tensor)
    probabilities = network(inputs)[0].softmax(0).tolist()
    classes = network.record.classes
    return {
        "index": index,
        "label": classes[int(labels[0])],
        "prediction": classes[probabilities.index(max(probabilities))],
        "probabilities": dict(zip(classes, probabilities, strict=True)),
        "picture": as_characters(inputs[0, 0]),
    }


def _write(folder: Path, results: dict[str, Any], best: Heat) -> None:
    """Numbers and page."""
    shown, classes = best.report.pictures, list(results["example"]["probabilities"])
    drawings = {
        "points": partial(plot_points, best.plane, shown.labels, classes),
        "generators": partial(plot_generators, shown.means, shown.owners, classes),
        "scores": partial(plot_scores, shown.scores, shown.kept),
    }
    text = json.dumps(results, indent=1, ensure_ascii=False)
    (folder / "results.json").write_text(text + "\n", encoding="utf-8")
    (folder / "report.html").write_text(demo_html(results, drawings), encoding="utf-8")


def _chosen(quick: bool) -> tuple[dict[str, Settings], Recipe, float]:
    """Settings by cut, how to train the network to be cut, and seconds to measure speed for."""
    if not quick:
        return DEMO_SETTINGS, BACKBONE, SECONDS
    short = {}
    for cut in QUICK_CUTS:
        setting = DEMO_SETTINGS[cut]
        recipe = replace(setting.recipe, epochs=QUICK_EPOCHS)
        short[cut] = replace(setting, recipe=recipe, views=1)
    return short, replace(BACKBONE, epochs=QUICK_EPOCHS), QUICK_SECONDS


def _folder(out: str | Path) -> Path:
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise parameter_error("run_demo", "out", "a folder", str(out), "A file has this name.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _command(out: str | Path, seed: int, seeds: int, quick: bool) -> str:
    words = ["python", "-m", "vinets.demo", "--out", str(out), "--seed", str(seed)]
    words += ["--seeds", str(seeds)] if seeds > 1 else []
    return shlex.join(words + ["--quick"] * quick)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``python -m vinets.demo``."""
    parser = argparse.ArgumentParser(
        prog="python -m vinets.demo", description="Cut a network, put polynomials behind the cut."
    )
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for the results")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of all training")
    parser.add_argument("--seeds", type=int, default=1, help="repeat with so many seeds")
    parser.add_argument("--quick", action="store_true", help="two cuts, little training")
    options = parser.parse_args(argv)
    try:
        run_demo(options.out, seed=options.seed, seeds=options.seeds, quick=options.quick)
    except (ValueError, OSError) as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
