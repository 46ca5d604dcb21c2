"""Put a head behind a cut, train it, and compare it with the uncut network and with baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vinets.core.device import each, resolve_device
from vinets.core.files import slug, write_json
from vinets.core.plain import as_plain
from vinets.core.progress import Progress
from vinets.data.source import DataSplit
from vinets.heads import HEADS
from vinets.latent.cut import resolve_cut
from vinets.measure import machine
from vinets.networks.build import rival_options
from vinets.runs.comparison import Comparison, NetworkResult
from vinets.runs.run import run_trials
from vinets.runs.setup import Origin, Setup
from vinets.runs.store import Store
from vinets.runs.trial import Trial

UNCUT = "uncut"


@dataclass(frozen=True)
class BuildResult:
    """What ``results.json`` holds."""

    command: tuple[str, ...]  # for the record
    machine: Mapping[str, Any]  # of vinets.measure.machine
    data: str  # its name
    seed: int  # of every draw
    comparison: Comparison  # of every network that was measured


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
    setup.warn_of_low_accuracy(origin.stated)
    heads = head_trials(replace(trial, network=UNCUT), baselines=baselines)
    timed = speed_trial(heads)
    run_trials([*heads.values(), timed], {UNCUT: setup}, store, progress=progress)
    speeds = store.read(timed).timed.speeds
    networks = []
    for name, one in heads.items():
        found = store.read(one).trained
        seconds = None if found.build is None else sum(found.build.seconds.values())
        wrong = (found.wrong or (),)
        networks.append(
            NetworkResult(
                name,
                found.parts,
                (found.accuracy,),
                wrong,
                speeds[name],
                seconds,
                found.seconds,
                found.history,
            )
        )
    uncut = NetworkResult(
        UNCUT, {"backbone": setup.parameters}, (setup.accuracy,), (setup.wrong,), speeds[UNCUT]
    )
    ours = store.read(next(iter(heads.values())))  # of the VI-Net, or of the head in its place
    report = ours.trained.build
    cut = resolve_cut(model, trial.cut, each(setup.train.example(), lambda t: t.to(on)))
    assert ours.shape is not None  # of a trial with a cut
    vanishing = ours.trained.vanishing
    comparison = Comparison(cut, ours.shape, uncut, tuple(networks), report, vanishing)
    result = BuildResult(origin.command, machine(on), data.name, trial.seed, comparison)
    write_json(store.folder / "results.json", as_plain(result))
    return result


def head_trials(trial: Trial, *, baselines: bool) -> dict[str, Trial]:
    """The trial of a head, and of every baseline next to polynomials, by the label of the head."""
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
    """The speed of all these networks and of the uncut one, in turns."""
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
