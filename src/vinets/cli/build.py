"""``vinets build``: from a classifier to polynomials, or another head, behind a cut."""

from __future__ import annotations

import shlex
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vinets.cli.generate import takes, told
from vinets.cli.options import (
    CUT,
    DATA,
    OUTPUT,
    RUNNING,
    Filling,
    Limit,
    Reading,
    TrainingData,
    cut_of,
    opened_again,
    option,
)
from vinets.cli.output import note, note_normalisation, print_json, watching
from vinets.core.files import locked
from vinets.core.settings import BEST, PAPER, TrialSettings

if TYPE_CHECKING:
    from vinets.runs.trial import Trial


Baselines = Annotated[
    bool,
    option(
        RUNNING, "Train and measure other heads, too: {baselines}.", "--baselines/--no-baselines"
    ),
]


def _words(name: str) -> str | None:
    """The defaults of a field, where the paper and products of forms differ."""
    for group in fields(TrialSettings):
        paper, best = getattr(PAPER, group.name), getattr(BEST, group.name)
        for one in fields(paper):
            ours, theirs = getattr(paper, one.name), getattr(best, one.name)
            if one.name == name and ours != theirs:
                return f"{told(one, ours)}; {told(one, theirs)} with --placement products"
    return None


# the recipe has the seed of the command, and all of the data is used
@takes(("seed", "train", "test"), {"settings": _words}, settings=PAPER)
@takes(reading=TrainingData, common=Filling)
def build(
    *,
    model: Annotated[
        str | None,
        typer.Argument(
            help="A folder of vinets train, or a network with --weights: {networks}.",
            show_default="the network of the preset",
        ),
    ] = None,
    reading: TrainingData,
    cut: Annotated[str | None, option(DATA, CUT)] = None,
    out: Annotated[Path, option(OUTPUT, "Folder for the network and its results.")],
    settings: dict[str, dict[str, Any]],
    preset: Annotated[
        str | None,
        option(
            RUNNING,
            "paper: polynomials found on the latents, the backbone as it is; VI-Net18-Tiny to "
            "VI-Net34-Large: that with the network, cut and sizes of a VI-Net of the paper; best: "
            "products of forms, the backbone tuned with them; best-tiny to best-large: that behind "
            "the paper's cuts of a resnet18 or resnet34. Other options override it.",
            show_default="best with --placement products, else paper",
        ),
    ] = None,
    head: Annotated[
        str,
        option(
            RUNNING,
            "Head behind the cut: vi for the polynomials of --placement, or a plain head to "
            "compare with, trained in the same way: {heads}.",
        ),
    ] = "vi",
    limit: Limit = None,
    baselines: Baselines = False,
    half: Annotated[
        bool, option(OUTPUT, "Store the network in half precision; it computes in single.")
    ] = False,
    common: Filling,
) -> None:
    """Cut a network, put polynomials behind the cut, and train what is left.

    Polynomials that nearly vanish on one class each are found on latents of the training data:
    generators of the ideals of the classes. Those that are large on other classes are kept, and a
    linear layer on their absolute values is trained. The result, a VI-Net, is compared with the
    uncut network: accuracy on the test part, parameters, images per second. It is saved in the
    folder, with results.json. The same command goes on where it was interrupted.

    Example: vinets build out/base --data digits --cut pool --out out/small

    With --placement products, products of linear forms stand at every position of the map instead.
    They start at random, are trained together with the backbone, and the uncut network teaches
    them. Options that are for one of these ways are refused in the other.

    Example: vinets build out/base --data digits --cut pool --placement products --out out/products

    With --head, another head is trained in their place, in the same way. With --epochs 0 nothing
    is trained: the head is the best in closed form, and the command says which that is and why.

    Example: vinets build --preset VI-Net18-Small --weights resnet18.safetensors --data cifar10:data
    --out out/small
    """
    from vinets.data.sources import limit_source
    from vinets.networks.network import CutNetwork
    from vinets.report import print_table
    from vinets.runs.compare import compare_heads, head_trials
    from vinets.runs.comparison import comparison_table, remarks
    from vinets.runs.opening import open_uncut, require_weights
    from vinets.runs.setup import Origin

    model, trial, backbone = _chosen(preset, model, cut, settings, common.seed)
    trial = replace(trial, head=head)
    head_trials(trial, baselines=baselines)  # complains before any work
    opened, _, split = open_uncut(model, **reading.keywords())
    require_weights(opened, reading.data)
    assert split is not None  # --data is required
    note_normalisation(opened, split, common.quiet)
    if backbone is not None and opened.architecture not in (None, backbone):
        raise ValueError(
            f"{preset} is a {backbone}, and the network given is a {opened.architecture}. Pass "
            "--cut in place of --preset."
        )
    with locked(out, wait=common.wait), watching(common.quiet) as progress:
        result = compare_heads(
            opened.network,
            replace(split, train=limit_source(split.train, limit, common.seed)),
            trial,
            out,
            baselines=baselines,
            device=common.device,
            origin=Origin(("vinets", *sys.argv[1:]), opened.stated),
            progress=progress,
        )
    if half:
        uncut = opened.network.cpu() if opened.architecture is None else None
        CutNetwork.from_pretrained(out, backbone=uncut).half().save_pretrained(out)
    if common.json:
        print_json(result)
        return
    if result.comparison.build is not None:
        note(str(result.comparison.build), common.quiet)
    print_table(comparison_table(result.comparison))
    for sentence in remarks(result.comparison):
        note(sentence, common.quiet)
    read = replace(reading, weights=None)  # the folder has its own
    again = shlex.join((opened_again(out, model), *read.words(Reading)))
    note(f"Saved in {out}. Next: vinets evaluate {again}", common.quiet)


def _chosen(
    name: str | None,
    model: str | None,
    cut: str | None,
    given: dict[str, dict[str, Any]],
    seed: int,
) -> tuple[str, Trial, str | None]:
    """The network, what is made of it, and which network the preset is for."""
    from vinets.ideals.choose import choose_ideal
    from vinets.networks.uncut import architecture_in
    from vinets.runs.presets import settings_with, start_of
    from vinets.runs.trial import Trial

    architecture = model
    # the sizes of a VI-Net, and the cuts of some presets, depend on the network in the folder
    if model is not None and Path(model).is_dir():
        architecture = architecture_in(Path(model))
    start = start_of(name, architecture, given["placing"].get("placement"))
    cut, model = cut or start.cut, model or start.backbone
    if model is None:
        raise ValueError("Pass MODEL, a folder or the name of a network, or --preset.")
    if cut is None:
        raise ValueError("Pass --cut, such as --cut 50% (see vinets cuts MODEL), or --preset.")
    settings = settings_with(start.settings, given)
    trial = Trial(cut=cut_of(cut), seed=seed, **vars(settings))
    choose_ideal(trial.finding, trial.placing, trial.projecting)  # complains before any work
    return model, trial, start.backbone
