"""``vinets build``: from a classifier to polynomials, or another head, behind a cut."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from click import NoSuchOption

from vinets.cli.generate import takes
from vinets.cli.late_help import LateHelp, config_in
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
from vinets.core.settings import LatentOptions, SpeedOptions, TrainingOptions

if TYPE_CHECKING:
    from vinets.runs.trial import Trial

DEFAULT = "vanishing"


class HeadCommand(LateHelp):
    """A command whose options are those of the head that its line names.

    They are known once the heads are imported, so that its help takes longer than others.
    """

    def make_context(
        self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        if not args:  # without a word, the help is shown
            return super().make_context(info_name, args, parent, **extra)
        inner = _command(_head_in(args))
        try:
            return inner.make_context(info_name, args, parent, **extra)
        except NoSuchOption as error:
            flag = error.option_name
            heads = _heads_with(flag.removeprefix("--").replace("-", "_"))
            if not heads:
                raise
            raise ValueError(
                f"{flag} is an option of other heads: {', '.join(heads)}. Leave it out, or pass "
                f"--head {heads[0]}."
            ) from None


def _head_in(words: list[str]) -> str:
    """Return the head that the words of a line name, or the file behind --config."""
    from vinets.cli.config import read_run

    path, rest = config_in(words)
    found = DEFAULT if path is None else str(read_run(Path(path)).get("head", DEFAULT))
    for place, word in enumerate(rest):
        if word.startswith("--head="):
            found = word.partition("=")[2]
        elif word == "--head" and place + 1 < len(rest):
            found = rest[place + 1]
    return found


def _heads_with(name: str) -> list[str]:
    from vinets.heads import HEADS

    return [k for k, head in HEADS.items() if name in {one.name for one in fields(head.Options)}]


@cache
def _command(head: str) -> Any:
    """Make the command with the options of a head."""
    from vinets.heads import HEADS

    kind = HEADS[head]
    recipe = TrainingOptions(**kind.training_defaults)
    opened = {"options": None, "latents": None, "recipe": None}
    groups = {"options": kind.Options, "latents": LatentOptions, "recipe": recipe}
    # The recipe has the seed of the command; what a baseline is like is not said on a line.
    made = takes(("seed", "like"), opened, **groups, timing=SpeedOptions)(build)
    app = typer.Typer(rich_markup_mode="markdown")
    app.command(cls=LateHelp, name="build")(made)
    return typer.main.get_command(app)


@takes(reading=TrainingData, common=Filling)
def build(
    *,
    model: Annotated[
        str,
        typer.Argument(help="A folder of vinets train, or a network with --weights: {networks}."),
    ],
    reading: TrainingData,
    cut: Annotated[str, option(DATA, CUT)],
    out: Annotated[Path, option(OUTPUT, "Folder for the network and its results.")],
    head: Annotated[str, option(RUNNING, "The head behind the cut: {heads}.")] = DEFAULT,
    options: dict[str, Any],
    recipe: dict[str, Any],
    latents: dict[str, Any],
    timing: SpeedOptions,
    limit: Limit = None,
    baselines: Annotated[
        bool,
        option(
            RUNNING,
            "Train and measure the heads that it is compared with, too.",
            "--baselines/--no-baselines",
        ),
    ] = False,
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

    With --head, another head stands behind the cut, with options of its own: vinets build --head
    products --help shows those of product heads. They start at random, are trained together with
    the backbone, and the uncut network teaches them.

    Example: vinets build out/base --data digits --cut pool --head products --out out/products

    Heads such as ridge and closed need no training.
    """
    from vinets.data.sources import limit_source
    from vinets.networks.network import CutNetwork
    from vinets.report import print_table
    from vinets.runs.compare import compare_heads, head_trials
    from vinets.runs.comparison import comparison_table, remarks
    from vinets.runs.opening import open_uncut, require_weights
    from vinets.runs.setup import Origin

    opened, _, split = open_uncut(model, **reading.keywords())
    trial = _trial(head, opened.architecture, cut, options, recipe, latents)
    trial = replace(trial, timing=timing, seed=common.seed)
    head_trials(trial, baselines=baselines)  # complains before any work
    require_weights(opened, reading.data)
    assert split is not None  # --data is required
    note_normalisation(opened, split, common.quiet)
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


def _trial(
    head: str,
    architecture: str | None,
    cut: str,
    options: Mapping[str, Any],
    recipe: Mapping[str, Any],
    latents: Mapping[str, Any],
) -> Trial:
    """Return the trial of a head with the options that were given.

    The sizes of a VI-Net are those of the paper's pipeline for the network.
    """
    from vinets.heads import HEADS
    from vinets.models.presets import SIZES
    from vinets.runs.trial import Trial

    sizes = SIZES.get(architecture or "", {}) if head == DEFAULT else {}
    trial = Trial.of(head, cut=cut_of(cut), **sizes)
    chosen = replace(trial.options, **options)  # type: ignore[type-var]
    read = LatentOptions(**(HEADS[head].latent_defaults(chosen) | dict(latents)))
    return replace(trial, options=chosen, recipe=replace(trial.recipe, **recipe), latents=read)
