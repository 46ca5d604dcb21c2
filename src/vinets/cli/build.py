"""``vinets build``: from a classifier to a VI-Net."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import (
    OUTPUT,
    RUNNING,
    Cut,
    Data,
    Device,
    Json,
    Quiet,
    Seed,
    Size,
    SplitSeed,
    Weights,
    option,
)
from vinets.cli.output import note, print_json, watching
from vinets.settings import (
    Caching,
    Collecting,
    Finding,
    Placing,
    Projecting,
    Pruning,
    Recipe,
    Timing,
)

if TYPE_CHECKING:
    from vinets.models import Preset

__all__ = ["build"]


@takes(
    ("seed",),
    collecting=Collecting,
    placing=Placing,
    projecting=Projecting,
    pruning=Pruning,
    finding=Finding,
    recipe=Recipe,
    caching=Caching,
    timing=Timing,
)
def build(
    data: Data,
    out: Annotated[Path, option(OUTPUT, "--out", help="Folder for the VI-Net and its results.")],
    collecting: Collecting,
    placing: Placing,
    projecting: Projecting,
    pruning: Pruning,
    finding: Finding,
    recipe: Recipe,
    caching: Caching,
    timing: Timing,
    model: Annotated[
        str | None,
        typer.Argument(
            help="A folder of vinets train, or the name of a network with --weights.",
            show_default="the network of the preset",
        ),
    ] = None,
    weights: Weights = None,
    size: Size = None,
    split_seed: SplitSeed = 0,
    cut: Cut = None,
    preset: Annotated[
        str | None,
        option(
            RUNNING,
            "--preset",
            help="A VI-Net of the paper, such as VI-Net18-Small: its network, cut, components, "
            "polynomials and monomials. Other options override it.",
        ),
    ] = None,
    baselines: Annotated[
        bool,
        option(
            RUNNING, "--baselines/--no-baselines", help="Train and measure the other heads too."
        ),
    ] = False,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Cut a network and put polynomials that vanish on its classes behind the cut.

    Finds the polynomials on latents of the training data, trains them together with a linear
    layer, and compares the result with the uncut network: accuracy on the test part, parameters,
    images per second. The VI-Net is saved in the folder, with results.json. The same command
    goes on where it was interrupted.

    Example: vinets build out/base --data digits --cut pool --components 32 --keep 16 --out out/vi

    Example: vinets build out/resnet18 --data cifar10:data --preset VI-Net18-Small --out out/small

    Where there is a map, --placement local --distill 0.7 is smaller and more accurate.
    """
    from vinets.cli.parsing import cut_of
    from vinets.ideals.choose import choose_ideal
    from vinets.pipeline.compare import compare_heads
    from vinets.pipeline.opening import open_uncut_with_data
    from vinets.pipeline.trial import Trial
    from vinets.plain import as_plain
    from vinets.report import comparison_table, print_table

    chosen = _chosen(preset, cut, model)
    if chosen is not None and placing.placement == "global":
        projecting, pruning = _sized(chosen, projecting, pruning)
    trial = Trial(
        cut=cut_of(cut) if cut is not None else chosen.cut if chosen is not None else "",
        finding=finding,
        collecting=collecting,
        placing=placing,
        projecting=projecting,
        pruning=pruning,
        recipe=recipe,
        caching=caching,
        timing=timing,
        seed=seed,
    )
    choose_ideal(finding, placing, projecting)  # complains before any work is done
    spec = model if model is not None else chosen.backbone if chosen is not None else ""
    opened, split = open_uncut_with_data(
        spec, data, weights=weights, split_seed=split_seed, size=size
    )
    _check_preset(chosen, opened.architecture)
    with watching(quiet) as progress:
        result = compare_heads(
            opened.network,
            split,
            trial,
            out,
            baselines=baselines,
            device=device,
            command=["vinets", *sys.argv[1:]],
            progress=progress,
        )
    if json:
        print_json(as_plain(result))
        return
    note(str(result.comparison.build), quiet)
    print_table(comparison_table(result.comparison))
    note(f"Saved in {out}. Next: vinets evaluate {out} --data {data}", quiet)


def _chosen(name: str | None, cut: str | None, model: str | None) -> Preset | None:
    """The preset, or None; raise where something is missing without one."""
    from vinets.models import preset

    if name is not None:
        return preset(name)
    if cut is None:
        raise ValueError("Pass --cut, such as --cut 50% (see vinets cuts MODEL), or --preset.")
    if model is None:
        raise ValueError("Pass MODEL, a folder or the name of a network, or --preset.")
    return None


def _check_preset(chosen: Preset | None, architecture: str | None) -> None:
    if chosen is not None and architecture not in (None, chosen.backbone):
        raise ValueError(
            f"{chosen.name} is a {chosen.backbone}, and the network given is a {architecture}. "
            "Pass --cut in place of --preset."
        )


def _sized(chosen: Preset, projecting: Projecting, pruning: Pruning) -> tuple[Projecting, Pruning]:
    """The sizes of the preset, where none were given; they are for one vector an example."""
    if projecting.components == "auto":
        projecting = replace(projecting, components=chosen.components)
    if pruning.keep == "auto":
        pruning = replace(pruning, keep=chosen.generators_per_class)
    if pruning.monomials == "auto":
        pruning = replace(pruning, monomials=chosen.monomials)
    return projecting, pruning
