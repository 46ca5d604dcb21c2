"""``vinets build``: from a classifier to a VI-Net."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vinets.cli.generate import takes
from vinets.cli.options import CUT, DATA, OUTPUT, RUNNING, Common, Reading, cut_of, option
from vinets.cli.output import note, print_json, watching
from vinets.settings import TrialSettings

if TYPE_CHECKING:
    from vinets.pipeline.trial import Trial


Baselines = Annotated[
    bool,
    option(
        RUNNING, "Train and measure other heads, too: {baselines}.", "--baselines/--no-baselines"
    ),
]


# the recipe has the seed of the command, and all of the data is used
@takes(("seed", "train", "test"), {"settings": None}, settings=TrialSettings)
@takes(reading=Reading, common=Common)
def build(
    *,
    model: Annotated[
        str | None,
        typer.Argument(
            help="A folder of vinets train, or the name of a network with --weights.",
            show_default="the network of the preset",
        ),
    ] = None,
    reading: Reading,
    cut: Annotated[str | None, option(DATA, CUT)] = None,
    out: Annotated[Path, option(OUTPUT, "Folder for the VI-Net and its results.")],
    settings: dict[str, dict[str, Any]],
    preset: Annotated[
        str | None,
        option(
            RUNNING,
            "A VI-Net of the paper, such as VI-Net18-Small: its network, cut and sizes; best: "
            "products, the backbone tuned with them; best-tiny to best-large: that behind the "
            "paper's cuts. Other options override it.",
        ),
    ] = None,
    baselines: Baselines = False,
    common: Common,
) -> None:
    """Cut a network and put polynomials that vanish on its classes behind the cut.

    Finds the polynomials on latents of the training data, trains them together with a linear
    layer, and compares the result with the uncut network: accuracy on the test part, parameters,
    images per second. The VI-Net is saved in the folder, with results.json. The same command
    goes on where it was interrupted.

    Example: vinets build out/base --data digits --cut pool --components 32 --keep 16 --out out/vi

    Example: vinets build out/resnet18 --data cifar10:data --preset VI-Net18-Small --out out/small

    Where there is a map, --placement local --distill 0.7 is smaller and more accurate. Most
    accurate are products of forms with the backbone tuned beside them, which takes longer:

    Example: vinets build out/resnet18 --data cifar10:data --cut layer1.1.bn2 --preset best --out
    out/best
    """
    from vinets.pipeline.compare import compare_heads
    from vinets.pipeline.opening import open_uncut, require_weights
    from vinets.report import comparison_table, print_table

    model, trial, backbone = _chosen(preset, model, cut, settings, common.seed)
    opened, _, split = open_uncut(model, **vars(reading))
    require_weights(opened)
    assert split is not None  # --data is required
    if backbone is not None and opened.architecture not in (None, backbone):
        raise ValueError(
            f"{preset} is a {backbone}, and the network given is a {opened.architecture}. Pass "
            "--cut in place of --preset."
        )
    with watching(common.quiet) as progress:
        result = compare_heads(
            opened.network,
            split,
            trial,
            out,
            baselines=baselines,
            device=common.device,
            command=["vinets", *sys.argv[1:]],
            progress=progress,
        )
    if common.json:
        print_json(result)
        return
    note(str(result.comparison.build), common.quiet)
    print_table(comparison_table(result.comparison))
    note(f"Saved in {out}. Next: vinets evaluate {out} --data {reading.data}", common.quiet)


def _chosen(
    name: str | None,
    model: str | None,
    cut: str | None,
    given: dict[str, dict[str, Any]],
    seed: int,
) -> tuple[str, Trial, str | None]:
    """The network, what is made of it, and which network the preset is for."""
    from vinets.ideals.choose import choose_ideal
    from vinets.pipeline.opening import open_network
    from vinets.pipeline.presets import start_of
    from vinets.pipeline.trial import Trial

    architecture = model
    # only these cuts depend on what is in the folder, which is otherwise opened when all is checked
    sized = name is not None and name.lower().startswith("best-")
    if sized and model is not None and Path(model).is_dir():
        architecture = open_network(model).architecture
    start = start_of(name, architecture, given["placing"].get("placement", "global"))
    cut, model = cut or start.cut, model or start.backbone
    if model is None:
        raise ValueError("Pass MODEL, a folder or the name of a network, or --preset.")
    if cut is None:
        raise ValueError("Pass --cut, such as --cut 50% (see vinets cuts MODEL), or --preset.")
    groups = {
        group: replace(getattr(start.settings, group), **changes)
        for group, changes in given.items()
    }
    trial = Trial(cut=cut_of(cut), seed=seed, **groups)
    choose_ideal(trial.finding, trial.placing, trial.projecting)  # complains before any work
    if trial.tuning.tune != "head" and trial.caching.views is not None:
        raise ValueError(
            f"--views caches latents of a backbone that stays as it is, and --tune "
            f"{trial.tuning.tune} changes it. Pass one of the two."
        )
    return model, trial, start.backbone
