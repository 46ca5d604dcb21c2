"""The demo: cut a small network at several places and see what polynomials do behind each cut.

Needs no network and no GPU. Prints tables, and writes ``results.json``, ``report.html`` and the
best VI-Net into the folder.
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vinets.checks import optional_positive_int, parameter_error
from vinets.data import DataSplit, digits
from vinets.files import write_json, write_text
from vinets.latent.pca import fit_pca
from vinets.measure import machine
from vinets.models import digits_cnn
from vinets.nn import VINet
from vinets.nn.heads import VanishingHead
from vinets.pipeline.compare import comparison_of, head_trials, speed_trial
from vinets.pipeline.comparison import Comparison
from vinets.pipeline.context import CutContext
from vinets.pipeline.setup import Setup
from vinets.pipeline.store import Store
from vinets.pipeline.trial import Trial
from vinets.pipeline.trials import run_trials
from vinets.plain import as_plain
from vinets.progress import Progress, progress_of
from vinets.report import as_characters, comparison_table, demo_page, html, print_page, print_table
from vinets.report.demo_page import ComplexityFacts, DemoResult, ExampleResult, outcome_page
from vinets.running import resolve_device
from vinets.settings import Caching, Finding, Placing, Projecting, Pruning, Recipe, Timing
from vinets.theory import cut_complexity, spectral_complexity
from vinets.training import train_classifier

START = Trial(
    finding=Finding(psi=0.03, max_degree=3),
    projecting=Projecting(components=32, train_projection=True),
    pruning=Pruning(keep=16),
    placing=Placing(linear_path=8),
    recipe=Recipe(epochs=40, batch_size=64, weight_decay=0.01),  # the digits are few
    caching=Caching(views=8),
    timing=Timing(batch=256, repeats=5, seconds=0.15, where="cpu"),
    baseline_degree=3,
)
"""The settings behind every cut."""

DEMO_CUTS = ("relu1", "relu2", "pool", "relu3")  # earliest first
BACKBONE = Recipe(epochs=15, batch_size=64, learning_rate=0.1, schedule="one-cycle", validation=0.0)
QUICK_CUTS = ("pool", "relu3")
QUICK = {"epochs": 2, "views": 1, "batch": 64, "repeats": 2, "seconds": 0.01}
WRITTEN = ("results{}.json", "report{}.html", "vinet{}")  # with what a quick run adds to names


def run_demo(
    out: str | Path,
    *,
    seed: int = 0,
    seeds: int = 1,
    quick: bool = False,
    device: torch.device | str = "auto",
    progress: Progress | str | None = "auto",
) -> DemoResult:
    """Train a network on digits, cut it, and compare VI-Nets with baselines.

    Parameters
    ----------
    out : path
        Folder for ``results.json``, ``report.html`` and the saved network ``vinet``, whose names
        end in ``-quick`` after a quick run; it is made if need be. A demo that was interrupted goes
        on; one that was finished starts anew.
    seed, seeds : int
        ``seed`` is that of the split into training and test images, and the first of ``seeds``
        seeds of training, of whose accuracies the means are taken. Speed, histories and the saved
        network are those of the first one.
    quick : bool, default=False
        Two cuts and little training, to see that everything works.
    device : str, default="auto"
        Where networks are trained; "auto" is a GPU where there is one. Speed is that of the CPU.
    """
    begin = time.perf_counter()
    if optional_positive_int("run_demo", "seeds", seeds) is None:
        raise parameter_error("run_demo", "seeds", "a positive integer", seeds)
    device = resolve_device("run_demo", device)
    store, watch = _store(out), progress_of(progress)
    start = START.change(**QUICK) if quick else START
    cuts = QUICK_CUTS if quick else DEMO_CUTS
    words = ["vinets", "demo", "--out", str(out), "--seed", str(seed)]
    words += ["--seeds", str(seeds)] * (seeds > 1) + ["--quick"] * quick
    with torch.random.fork_rng(devices=[]):  # the caller's draws go on as if nothing had happened
        data = digits(seed)
        setups = _trained(data, quick, range(seed, seed + seeds), device, watch)
        found = [_compared(start, cut, setups, store, watch) for cut in cuts]
        # The best on held-out images, for the test images are not there to choose by.
        best, ours = max(found, key=lambda pair: _held_out(pair[0]))
        results, page, saved = (name.format("-quick" if quick else "") for name in WRITTEN)
        shutil.copytree(store.folder / ours.save, store.folder / saved, dirs_exist_ok=True)
        context = CutContext(setups[seed], ours, watch)
        _, report = context.polynomials(ours)
        flat = torch.cat([values.flatten(1) for values, _ in context.latents.store.chunks()])
        result = DemoResult(
            command=shlex.join(words),
            machine=machine("cpu"),
            seed=seed,
            seeds=seeds,
            batch=start.timing.batch,
            data=data.name,
            train=len(data.train),
            test=len(data.test),
            comparisons=tuple(comparison for comparison, _ in found),
            theory=_theory(setups[seed], found, store),
            saved=best.cut,
            example=_classified(store.folder / saved, data),
            settings=_settings(start),
            seconds=time.perf_counter() - begin,
            quick=quick,
            pictures=report.pictures,
            plane=fit_pca(lambda: [flat], 2).transform(flat).cpu().double().numpy(),
        )
    write_json(store.folder / results, plain_result(result))
    write_text(store.folder / page, html(demo_page(result)))
    print_page(outcome_page(result))
    print(f"\nWritten to {store.folder}: {page}, {results}, {saved}/")
    return result


def _store(out: str | Path) -> Store:
    """The folder; what a finished demo left there is removed."""
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise parameter_error("run_demo", "out", "a folder", str(out), "A file has this name.")
    marks = [folder / WRITTEN[0].format(kind) for kind in ("", "-quick")]
    if any(mark.is_file() for mark in marks):  # written last: the demo was finished
        networks = [WRITTEN[2].format(kind) for kind in ("", "-quick")]
        for name in ("trials", "checkpoints", "networks", *networks):
            shutil.rmtree(folder / name, ignore_errors=True)
        for path in (folder / "store.json", *marks):
            path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    return Store(folder)


def _trained(
    data: DataSplit, quick: bool, seeds: Sequence[int], device: torch.device, watch: Progress
) -> dict[int, Setup]:
    """The uncut network of every seed."""
    setups = {}
    for seed in seeds:
        torch.manual_seed(seed)  # the first weights; the caller has forked the global generator
        model = digits_cnn()
        recipe = replace(BACKBONE, seed=seed, epochs=2 if quick else BACKBONE.epochs)
        history = train_classifier(model, data.train, recipe=recipe, device=device, progress=watch)
        setups[seed] = Setup(f"seed {seed}", model, data, device, history)
    return setups


def _compared(
    start: Trial, cut: str, setups: Mapping[int, Setup], store: Store, watch: Progress
) -> tuple[Comparison, Trial]:
    """Carry out the trials behind a cut and print what they gave; and the first VI-Net's trial."""
    heads = []
    for seed, setup in setups.items():
        mine = replace(start, network=setup.name, cut=cut, seed=seed)
        heads.append(head_trials(mine, baselines=True, folder=f"networks/{cut}-{seed}"))
    timed = speed_trial(heads[0])
    every = [trial for one in heads for trial in one.values()]
    named = {setup.name: setup for setup in setups.values()}
    run_trials([*every, timed], named, store, progress=watch)
    found = {name: [store.read(one[name]) for one in heads] for name in heads[0]}
    comparison = comparison_of(found, store.read(timed), list(setups.values()))
    print_table(comparison_table(comparison))
    return comparison, heads[0][VanishingHead.label]


def _held_out(comparison: Comparison) -> tuple[float, int]:
    """Accuracy of the VI-Net on the held-out training images; of equals the smaller one."""
    ours = comparison.networks[0]
    accuracy = None if ours.history is None else ours.history.kept.validation_accuracy
    return accuracy or 0.0, -ours.parameters


def _theory(
    setup: Setup, found: Sequence[tuple[Comparison, Trial]], store: Store
) -> ComplexityFacts:
    """Spectral complexity of the uncut network and, with the theorem's bounds, of every VI-Net."""
    example = setup.data.train.example()
    assert isinstance(example, Tensor)
    cuts = {}
    for comparison, trial in found:
        network = VINet.from_pretrained(store.folder / trial.save)
        cuts[comparison.cut] = cut_complexity(network, example)
    # On the CPU, where the saved networks were loaded; nothing is trained after this.
    return ComplexityFacts(spectral_complexity(setup.model.cpu(), example), cuts)


@torch.no_grad()
def _classified(directory: Path, data: DataSplit) -> ExampleResult:
    """Load a saved VI-Net and ask it about the first test image."""
    network = VINet.from_pretrained(directory)
    inputs, labels = next(data.test.batches(1))
    assert isinstance(inputs, Tensor)
    probabilities = network(inputs)[0].softmax(0).tolist()
    classes = network.record.classes
    return ExampleResult(
        0,
        classes[int(labels[0])],
        classes[probabilities.index(max(probabilities))],
        dict(zip(classes, probabilities, strict=True)),
        as_characters(inputs[0, 0]),
    )


def plain_result(result: DemoResult) -> dict[str, Any]:
    """What ``results.json`` holds: of the theory, what follows from the norms as well."""
    uncut, cuts = result.theory.uncut, {}
    for cut, found in result.theory.cuts.items():
        bounds = found.head.bounds
        cuts[cut] = found.whole.to_dict() | {
            "log10_kappa": found.whole.log10_R - uncut.log10_R,
            "log10_R_guaranteed": found.guaranteed.log10_R,
            "bounds": None if bounds is None else bounds.to_dict(),
        }
    plain: dict[str, Any] = as_plain(result)
    return plain | {"theory": as_plain({"uncut": uncut.to_dict(), "cuts": cuts})}


def _settings(trial: Trial) -> dict[str, object]:
    """Every setting that is the same behind all cuts, flat."""
    return {
        f"{group}.{name}": value
        for group in ("finding", "placing", "projecting", "pruning", "recipe", "caching")
        for name, value in as_plain(getattr(trial, group)).items()
        if (group, name) != ("recipe", "seed")
    }
