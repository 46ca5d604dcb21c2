"""``vinets build``: from a classifier to polynomials, or another head, behind a cut."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vinets.cli.config import read_run
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
from vinets.core.options import flag_of
from vinets.core.settings import LatentOptions, SpeedOptions, TrainingOptions

if TYPE_CHECKING:
    from vinets.runs.trial import Trial

DEFAULT = "vanishing"

GONE = {
    "--placement": "Write --head vanishing, --head local or --head products instead.",
    "--preset": "Name the network and pass --cut; --head products makes what was best.",
}
"""Options of version 0.2, and what is written in their place."""


class HeadCommand(LateHelp):
    """A command whose options are those of the head that its line names.

    They are known once the heads are imported, so that its help takes longer than others.
    """

    def make_context(
        self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        path, rest = config_in(args)
        told = {} if path is None else read_run(Path(path))
        command = _command(_head_in(rest, str(told.get("head", DEFAULT))))
        self.params = command.params  # complaints are told in terms of these
        known = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)}
        flags = [word.partition("=")[0] for word in rest if word.startswith("--")]
        for flag in [*flags, *(f"--{name}" for name in told)]:
            if flag not in known:
                _refuse(flag)
        return command.make_context(info_name, args, parent, **extra)


def _head_in(words: list[str], found: str) -> str:
    """Return the head that the words of a line name, or the one that was found elsewhere."""
    for place, word in enumerate(words):
        if word.startswith("--head="):
            found = word.partition("=")[2]
        elif word == "--head" and place + 1 < len(words):
            found = words[place + 1]
    return found


def _refuse(flag: str) -> None:
    """Complain about an option of other heads, or of an earlier version; pass over any other."""
    from vinets.heads import HEADS

    if flag in GONE:
        raise ValueError(f"{flag} is no option any more. {GONE[flag]}")
    heads = [
        kind
        for kind, head in HEADS.items()
        if flag in {flag_of(one) for one in fields(head.Options) if "domain" in one.metadata}
    ]
    if heads:
        raise ValueError(
            f"{flag} is an option of other heads: {', '.join(heads)}. Leave it out, or pass "
            f"--head {heads[0]}."
        )


def _command(head: str) -> Any:
    """Make the command with the options of a head."""
    from vinets.heads import HEADS

    kind = HEADS[head]
    recipe = TrainingOptions(**kind.training_defaults)
    opened = {"options": None, "latents": None, "recipe": None}
    groups = {"options": kind.Options, "latents": LatentOptions, "recipe": recipe}
    # The recipe has the seed of the command; what a baseline is like is not said on a line.
    made = takes(("seed", "like"), opened, **groups, timing=SpeedOptions)(_build)
    app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
    app.command(cls=LateHelp, name="build", help=build.__doc__, no_args_is_help=True)(made)
    return typer.main.get_command(app)


def build() -> None:
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


@takes(reading=TrainingData, common=Filling)
def _build(
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
    from vinets.data.sources import limit_source
    from vinets.networks.network import CutNetwork
    from vinets.networks.open import require_weights
    from vinets.report import print_table
    from vinets.runs.compare import compare_heads, comparison_table, head_trials, remarks
    from vinets.runs.open import open_uncut
    from vinets.runs.setup import Origin

    given = options, recipe, latents
    head_trials(_trial(head, None, cut, *given), baselines=baselines)  # complains before any work
    opened, _, split = open_uncut(model, **reading.keywords())
    trial = _trial(head, opened.architecture, cut, *given)
    trial = replace(trial, timing=timing, seed=common.seed)
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

    The sizes of a VI-Net, and of heads that are as large, are those of the paper's pipeline.
    """
    from vinets.heads import HEADS, VanishingOptions
    from vinets.models.presets import SIZES
    from vinets.runs.trial import Trial

    usual = Trial.of(DEFAULT, cut=cut_of(cut), **SIZES.get(architecture or "", {}))
    trial = usual if head == DEFAULT else Trial.of(head, cut=cut_of(cut))
    if isinstance(getattr(trial.options, "like", None), VanishingOptions):
        options = {"like": usual.options, **options}
    chosen = replace(trial.options, **options)  # type: ignore[type-var]
    read = LatentOptions(**(HEADS[head].latent_defaults(chosen) | dict(latents)))
    training = replace(trial.recipe, **recipe)
    for flag, cached in (("--views", training.views), ("--project-once", training.projected)):
        if cached and training.layers != 0:
            raise ValueError(
                f"{flag} is for a backbone that stays as it is. Leave it out, or pass --train "
                "coefficients."
            )
    return replace(trial, options=chosen, recipe=training, latents=read)
