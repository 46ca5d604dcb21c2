"""Put a head behind a cut, train it, and compare it with the uncut network and with baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import nn

from vinets.core.device import each, resolve_device
from vinets.core.files import slug, write_json
from vinets.core.plain import as_plain
from vinets.core.progress import Progress
from vinets.data.source import DataSplit
from vinets.heads import HEADS, BuildFacts
from vinets.heads.facts import VanishingFacts
from vinets.latent.cut import resolve_cut
from vinets.measure import machine
from vinets.measure.level import over_images
from vinets.networks.build import rival_options
from vinets.report.formats import number
from vinets.report.values import Column, Row, Table, Value
from vinets.runs.run import run_trials
from vinets.runs.setup import Origin, Setup
from vinets.runs.store import Store
from vinets.runs.trial import Speed, Trial
from vinets.training.checkpoint import History

UNCUT = "uncut"
SHORT_HEADINGS = {
    "backbone": "back.",
    "projection": "proj.",
    "monomials": "mono.",
    "coefficients": "coeffs",
    "linear": "lin.",
}


@dataclass(frozen=True)
class NetworkResult:
    """One network of a comparison."""

    name: str  # as in tables: "uncut", "product head", "linear, flat"
    parts: dict[str, int]  # parameters of each part, folded; "backbone" among them
    accuracies: tuple[float, ...]  # on the test images, in [0, 1], one for every seed
    wrong: tuple[tuple[int, ...], ...] = ()  # for every seed, the test images it gets wrong
    speed: Speed | None = None  # measured in turns with the others of the comparison
    seconds_build: float | None = None  # building the head, its latents included
    seconds_train: float | None = None
    history: History | None = None  # every epoch of the first seed

    @property
    def accuracy(self) -> float:
        """Mean accuracy over the seeds."""
        return fmean(self.accuracies)

    @property
    def parameters(self) -> int:
        """Count of everything that is stored."""
        return sum(self.parts.values())

    @property
    def parameters_head(self) -> int:
        """Count of everything that is stored behind the cut."""
        return self.parameters - self.parts.get("backbone", 0)

    @property
    def seconds(self) -> float:
        """Seconds to build and to train it."""
        return (self.seconds_build or 0.0) + (self.seconds_train or 0.0)


@dataclass(frozen=True)
class Comparison:
    """Heads behind one cut, all trained alike, next to the uncut network."""

    cut: str  # name of the module that the network ends with
    shape: tuple[int, int]  # channels and positions of the latents
    uncut: NetworkResult  # all of it, untouched
    networks: tuple[NetworkResult, ...]  # polynomials first, then the baselines; or another head
    build: BuildFacts | None = None  # how the head of the first seed was built
    vanishing: VanishingFacts | None = None  # how a trained VI-Net vanishes on the test examples


@dataclass(frozen=True)
class BuildResult:
    """What ``results.json`` holds."""

    command: tuple[str, ...]  # empty from Python
    machine: Mapping[str, Any]  # see vinets.measure.machine
    data: str  # its name
    seed: int  # starts every draw
    comparison: Comparison


def compare_heads(
    model: nn.Module,
    data: DataSplit,
    trial: Trial,
    out: str | Path,
    *,
    baselines: bool = False,
    device: torch.device | str = "auto",
    origin: Origin = Origin(),  # noqa: B008 - frozen
    progress: Progress | str | None = "auto",
) -> BuildResult:
    """Put a head behind a cut, train it, and compare it with the uncut network.

    The folded network is saved in ``out`` with ``results.json``, baselines below ``out/baselines``.
    The same call goes on where it was interrupted. Other settings, weights or data in the same
    folder are refused.

    Parameters
    ----------
    model : Module
        The pretrained network, whole; it is moved to ``device``.
    data : DataSplit
        What to train and what to test on.
    trial : Trial
        Where to cut, the head and every option; ``Trial.of(cut="relu2")`` takes the paper's.
    out : path
        Folder for the results.
    baselines : bool, default=False
        Train and measure the rivals of the head on the same latents as well.
    device : str or torch.device, default="auto"
        Where to work.
    origin : Origin
        For the record, and for a warning where the network is less accurate than it was.
    """
    on = resolve_device("compare_heads", device)
    setup, store = Setup(UNCUT, model, data, on), Store(out)
    setup.look_at_accuracy(origin)
    heads = head_trials(replace(trial, network=UNCUT), baselines=baselines)
    timed = speed_trial(heads)
    run_trials([*heads.values(), timed], {UNCUT: setup}, store, progress=progress)
    results = {name: store.read(one) for name, one in heads.items()}
    speeds = store.read(timed).timed.speeds
    networks = []
    for name, result in results.items():
        facts = result.trained
        assert facts.wrong is not None and facts.build is not None  # because trials are detailed
        networks.append(
            NetworkResult(
                name,
                facts.parts,
                (facts.accuracy,),
                (facts.wrong,),
                speeds[name],
                sum(facts.build.seconds.values()),
                facts.seconds,
                facts.history,
            )
        )
    parts = {"backbone": setup.parameters}
    uncut = NetworkResult(UNCUT, parts, (setup.accuracy,), (setup.wrong,), speeds[UNCUT])
    cut = resolve_cut(model, trial.cut, each(setup.train.example(), lambda t: t.to(on)))
    ours = next(iter(results.values()))  # the result of the head that was asked for
    assert ours.shape is not None  # because it has a cut
    facts = ours.trained
    comparison = Comparison(cut, ours.shape, uncut, tuple(networks), facts.build, facts.vanishing)
    built = BuildResult(origin.command, machine(on), data.name, trial.seed, comparison)
    write_json(store.folder / "results.json", as_plain(built))
    return built


def head_trials(trial: Trial, *, baselines: bool) -> dict[str, Trial]:
    """Return the trial of a head, and of every baseline, by the label of the head."""
    # An empty save means none, and "." is the folder of the store itself.
    mine = replace(trial, detailed=True, save=".")
    kind = HEADS[mine.head]
    trials = {kind.label: mine}
    if not baselines:
        return trials
    if not kind.rivals:
        having = ", ".join(name for name, head in HEADS.items() if head.rivals)
        raise ValueError(
            f"A head of kind {mine.head!r} has no baselines to be compared with. Leave them out, "
            f"or choose one that has: {having}."
        )
    for name in kind.rivals:
        rival = HEADS[name]
        recipe = mine.recipe
        if rival.matches_features:  # what the uncut network's classifier sees is not in a cache
            recipe = replace(recipe, views=None, projected=False)
        trials[rival.label] = replace(
            mine,
            head=name,
            options=rival_options(name, mine.head, mine.options),
            save=f"baselines/{slug(rival.label)}",
            recipe=recipe,
        )
    return trials


def speed_trial(heads: Mapping[str, Trial]) -> Trial:
    """Return the trial that times all these networks and the uncut one, in turns."""
    first = next(iter(heads.values()))
    compared = tuple((name, trial.save) for name, trial in heads.items())
    return Trial(
        network=first.network,
        task="speed",
        timing=first.timing,
        sampling=first.sampling,
        compared=compared,
        alone=True,
    )


def comparison_table(comparison: Comparison) -> Table:
    """List the uncut network and the heads behind a cut; what was not measured has no column.

    Accuracies are in percent, differences Δ to the uncut network in percentage points.
    """
    uncut = comparison.uncut
    networks = (uncut, *comparison.networks)
    # Parts of polynomials come first, and in their order.
    parts = dict.fromkeys(part for network in networks for part in network.parts)
    named = [part for part in dict.fromkeys([*SHORT_HEADINGS, *parts]) if part in parts]
    columns = [
        Column("network"),
        Column("accuracy", "accuracy %", ".2f", better="higher", short="acc. %"),
        Column("gap", "Δ", "+.2f"),
        *(Column(name, format=",", short=SHORT_HEADINGS.get(name, "")) for name in named),
        Column("parameters", "total", ","),
        Column("speed", "images/s", ",.0f", better="higher", short="img/s"),
        Column("seconds", "", ".1f", short="s"),
    ]
    rows = []
    for index, network in enumerate(networks):
        values: dict[str, Value] = {"network": network.name, "accuracy": 100 * network.accuracy}
        if network is not uncut:
            values["gap"] = 100 * (network.accuracy - uncut.accuracy)
        values |= network.parts | {"parameters": network.parameters}
        if network.speed is not None:
            values["speed"] = network.speed.mean
        if network.seconds:
            values["seconds"] = network.seconds
        rows.append(Row(values, marked=index == 1))  # the first head behind the cut
    known = {name for row in rows for name in row.values}
    channels, positions = comparison.shape
    return Table(
        "comparison",
        f"Cut at {comparison.cut}: {channels} channels at {positions} positions",
        tuple(column for column in columns if column.name in known),
        tuple(rows),
    )


def remarks(comparison: Comparison) -> list[str]:
    """Say how polynomials vanish, and what one would not want.

    That is a network that is no smaller than the uncut one, or not the best head.

    Examples
    --------
    >>> uncut, large = (NetworkResult("it", {"all": size}, (0.9,)) for size in (9, 18))
    >>> remarks(Comparison("pool", (8, 4), uncut, (large,)))[0][:61]
    'it is not smaller, with 2.0 times the parameters of the uncut'
    """
    uncut, (ours, *others) = comparison.uncut, comparison.networks
    sentences = []
    if comparison.vanishing is not None:
        sentences.append(f"On the test examples, {comparison.vanishing}.")
    if ours.parameters >= uncut.parameters:
        times = number(ours.parameters / uncut.parameters, ".1f")
        sentences.append(
            f"{ours.name} is not smaller, with {times} times the parameters of the uncut network: "
            "choose another cut (vinets cuts) or a smaller head, or let vinets compress choose."
        )
    for other in others:
        splits = []
        for theirs, mine, right in zip(other.wrong, ours.wrong, ours.accuracies, strict=False):
            if mine:  # the number of test examples follows from the share of those that are wrong
                splits.append((theirs, mine, round(len(mine) / (1 - right))))
        ahead = splits and over_images(splits).word == "ahead"
        if other.parameters <= ours.parameters and ahead:
            gap = number(100 * (other.accuracy - ours.accuracy), ".2f")
            sentences.append(
                f"{other.name} is ahead of {ours.name} by {gap} points, with no more parameters."
            )
    return sentences
