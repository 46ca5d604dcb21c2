"""Put a head behind a cut, train it, and compare it with the uncut network and with baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vinets.core.device import each, resolve_device
from vinets.core.files import read_json, slug, write_json
from vinets.core.plain import as_plain, from_plain
from vinets.core.progress import Progress
from vinets.data.source import DataSplit
from vinets.heads import HEADS
from vinets.latent.cut import resolve_cut, say_left_out
from vinets.measure import machine
from vinets.measure.accuracy import over_images
from vinets.networks.build import rival_options
from vinets.report.numbers import number
from vinets.report.values import Column, Row, Table, Value
from vinets.runs.setup import Setup
from vinets.runs.store import Store, run_trials
from vinets.runs.trial import SpeedFacts, TrainingFacts, Trial

UNCUT = "uncut"
SHORT_HEADINGS = {
    "backbone": "back.",
    "projection": "proj.",
    "monomials": "mono.",
    "coefficients": "coeffs",
    "linear": "lin.",
}


@dataclass(frozen=True)
class BuildResult:
    """Heads behind one cut next to the uncut network, as ``results.json`` holds them."""

    command: tuple[str, ...]  # empty from Python
    machine: Mapping[str, Any]  # see vinets.measure.machine
    data: str  # its name
    seed: int  # starts every draw
    cut: str  # name of the module that the network ends with
    shape: tuple[int, int]  # channels and positions of the latents
    networks: dict[str, TrainingFacts]  # by the label of the head, first the one asked for
    timed: SpeedFacts  # all of them in turns with the uncut network, "uncut"
    left_out: str = ""  # a sentence on a cut that not all paths pass
    skipped: int = 0  # files of the data that were left out, because they cannot be read

    @property
    def first(self) -> TrainingFacts:
        """The head that was asked for; the others are baselines."""
        return next(iter(self.networks.values()))

    @classmethod
    def read(cls, path: str | Path) -> BuildResult:
        """Read ``results.json``; earlier versions wrote networks in a form of their own."""
        values = read_json(Path(path))
        if "comparison" in values:
            found = values.pop("comparison")
            uncut, networks = found["uncut"], {}
            speeds = {one["name"]: one["speed"] for one in (uncut, *found["networks"])}
            (right,), parameters = uncut["accuracies"], sum(uncut["parts"].values())
            for one in found["networks"]:
                history = one["history"]
                kept = history["epochs"][history["best"] - 1]
                networks[one["name"]] = {
                    **{"accuracy": one["accuracies"][0], "uncut": right, "parts": one["parts"]},
                    **{"train_accuracy": kept["accuracy"], "loss": kept["loss"]},
                    **{"seconds": one["seconds_train"], "history": history},
                    **{"wrong": next(iter(one["wrong"]), None), "best_epoch": history["best"]},
                }
            next(iter(networks.values())).update(
                build=found.get("build"), vanishing=found.get("vanishing")
            )
            values |= {"cut": found["cut"], "shape": found["shape"], "networks": networks}
            values["timed"] = {"speeds": speeds, "uncut": right, "parameters": parameters}
        return from_plain(cls, values, str(path))


def compare_heads(
    model: nn.Module,
    data: DataSplit,
    trial: Trial,
    out: str | Path,
    *,
    baselines: bool = False,
    device: torch.device | str = "auto",
    command: Sequence[str] = (),
    stated: float | None = None,
    say: Callable[[str], Any] = str,
    progress: Progress | str | None = "auto",
) -> BuildResult:
    """Put a head behind a cut, train it, and compare it with the uncut network.

    The folded network is saved in ``out`` with ``results.json``, baselines below ``out/baselines``.
    The same call goes on where it was interrupted. A folder of other settings, weights or data is
    refused.

    Parameters
    ----------
    model
        The pretrained network, whole; it is moved to ``device``.
    trial
        Where to cut, the head and every option; ``Trial.of(cut="relu2")`` takes the paper's.
    baselines
        Train and measure the rivals of the head on the same latents as well.
    command, stated, say
        As for :func:`vinets.compress`.
    """
    on = resolve_device("compare_heads", device)
    setup, store = Setup(UNCUT, model, data, on), Store(out, "a cut network")
    store.check_kind()
    setup.look_at_accuracy(stated, say)
    heads = head_trials(replace(trial, network=UNCUT), baselines=baselines)
    timed = speed_trial(heads)
    run_trials([*heads.values(), timed], {UNCUT: setup}, store, progress=progress)
    results = {name: store.read(one) for name, one in heads.items()}
    shape = next(iter(results.values())).shape
    assert shape is not None  # because it has a cut
    example = each(setup.train.example(), lambda t: t.to(on))
    cut = resolve_cut(model, trial.cut, example)
    built = BuildResult(
        command=tuple(command),
        machine=machine(on),
        data=data.name,
        skipped=data.skipped,
        seed=trial.seed,
        cut=cut,
        shape=shape,
        networks={name: one.trained for name, one in results.items()},
        timed=store.read(timed).timed,
        left_out=say_left_out(model, cut, example),
    )
    write_json(store.folder / "results.json", as_plain(built))
    return built


def head_trials(trial: Trial, *, baselines: bool) -> dict[str, Trial]:
    """Return the trial of a head, and of every baseline, by the label of the head."""
    # An empty save means none, and "." is the folder of the store itself.
    mine = replace(trial, detailed=True, save=".")
    kind = HEADS[mine.head]
    trials = {kind.label: mine}
    if baselines and not kind.rivals:
        having = ", ".join(name for name, head in HEADS.items() if head.rivals)
        raise ValueError(
            f"A head of kind {mine.head!r} has no baselines to be compared with. Leave them out, "
            f"or choose one that has: {having}."
        )
    for name in kind.rivals if baselines else ():
        rival, options = HEADS[name], rival_options(name, mine.head, mine.options)
        one = replace(mine, head=name, options=options, save=f"baselines/{slug(rival.label)}")
        # What the uncut network's classifier sees is not in a cache.
        changes = {"views": None, "projected": False} if rival.matches_features else {}
        trials[rival.label] = one.change(**changes)
    return trials


def speed_trial(heads: Mapping[str, Trial]) -> Trial:
    """Return the trial that times all these networks and the uncut one, in turns."""
    first = next(iter(heads.values()))
    compared = tuple((name, trial.save) for name, trial in heads.items())
    kept = {name: getattr(first, name) for name in ("network", "timing", "sampling")}
    return Trial(**kept, task="speed", compared=compared, alone=True)


def comparison_table(result: BuildResult) -> Table:
    """List the uncut network and the heads behind a cut, in percent and percentage points (Δ)."""
    # Parts of polynomials come first, and in their order.
    parts = dict.fromkeys(part for network in result.networks.values() for part in network.parts)
    named = [part for part in dict.fromkeys([*SHORT_HEADINGS, *parts]) if part in parts]
    columns = (
        Column("network"),
        Column("accuracy", "accuracy %", ".2f", better="higher", short="acc. %"),
        Column("gap", "Δ", "+.2f"),
        *(Column(name, format=",", short=SHORT_HEADINGS.get(name, "")) for name in named),
        Column("parameters", "total", ","),
        Column("speed", "images/s", ",.0f", better="higher", short="img/s"),
        Column("seconds", "", ".1f", short="s"),
    )
    right, size, speeds = result.timed.uncut, result.timed.parameters, result.timed.speeds
    values: dict[str, Value] = {"network": UNCUT, "accuracy": 100 * right, "backbone": size}
    rows = [Row(values | {"parameters": size, "speed": speeds[UNCUT].mean})]
    for name, one in result.networks.items():
        values = {"network": name, "accuracy": 100 * one.accuracy, **one.parts}
        values |= {"gap": 100 * (one.accuracy - right), "parameters": one.parameters}
        values["seconds"] = one.seconds + (sum(one.build.seconds.values()) if one.build else 0)
        rows.append(Row(values | {"speed": speeds[name].mean}, marked=one is result.first))
    channels, positions = result.shape
    caption = f"Cut at {result.cut}: {channels} channels at {positions} positions"
    return Table("comparison", caption, columns, tuple(rows))


def remarks(result: BuildResult) -> list[str]:
    """Say how polynomials vanish, if a head is neither smaller nor faster, and which is ahead."""
    (name, *_), ours = result.networks, result.first
    sentences = [result.left_out] if result.left_out else []
    if ours.vanishing is not None:
        sentences.append(f"On the test examples, {ours.vanishing}.")
    if ours.parameters >= result.timed.parameters:
        times = number(ours.parameters / result.timed.parameters, ".1f")
        sentences.append(
            f"{name} is not smaller, with {times} times the parameters of the uncut network: "
            "choose another cut (vinets cuts) or a smaller head, or let vinets compress choose."
        )
    one, uncut = result.timed.speeds[name], result.timed.speeds[UNCUT]
    if one.mean + one.std < uncut.mean - uncut.std:
        share = number(one.mean / uncut.mean, ".2f")
        sentences.append(f"{name} is not faster: it runs at {share} of the uncut network's speed.")
    for other, theirs in result.networks.items():
        if theirs is ours or theirs.parameters > ours.parameters:
            continue
        assert theirs.wrong is not None and ours.wrong is not None and ours.tested is not None
        gap = over_images([(theirs.wrong, ours.wrong, ours.tested)])
        if gap.word == "ahead":
            points = number(gap.value, ".2f")
            sentences.append(
                f"{other} is ahead of {name} by {points} points, with no more parameters."
            )
    return sentences
