"""``vinets train``, ``build`` and ``compress``: make networks, and put them into folders."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vinets.cli.parameters import parameter, read_run, spread, takes
from vinets.cli.shared import (
    CUT,
    CUT_HELP,
    DATA,
    OUTPUT,
    RUNNING,
    DataOptions,
    FolderOptions,
    TrainingDataOptions,
    UncutName,
    WorkerOptions,
    note,
    open_data,
    opened_again,
    show,
    watching,
)
from vinets.core.files import locked
from vinets.core.options import flag_of, option, text, whole
from vinets.core.settings import (
    BACKBONE,
    RECIPES,
    SMALL,
    LatentOptions,
    SearchOptions,
    SpeedOptions,
    TrainingOptions,
)
from vinets.pretrained import expectation

if TYPE_CHECKING:
    from vinets.runs.trial import Trial

# --- train ------------------------------------------------------------------------------------

# There is no teacher, no head and no cut; the seed is that of the command.
NOT_OF_UNCUT = (
    *("seed", "distill", "temperature", "standardize", "vanish"),
    *("trained", "backbone_rate", "backbone_decay", "norms", "memory_format", "compiled"),
    *("views", "dtype", "projected"),
)


def _recipe_default(name: str) -> str:
    """Return the default of a field of the recipe, and what small networks have instead."""
    usual = getattr(BACKBONE, name)
    others = {network: getattr(recipe, name) for network, recipe in SMALL.items()}
    differ = [f"{value} for {network}" for network, value in others.items() if value != usual]
    shown = "no limit" if usual is None else str(usual)
    if isinstance(usual, bool):
        shown = "yes" if usual else "no"
    return "; ".join([shown, *differ])


@dataclass(frozen=True)
class RecipeDataOptions(TrainingDataOptions):
    """Where data to train on comes from; a recipe knows."""

    data: str = option("", text(), "{data formats}.", shown="that of the recipe")


@takes("weights")
def train(
    *,
    model: Annotated[str | None, parameter(DATA, "{networks}.", shown="that of the recipe")] = None,
    recipe: Annotated[
        str | None,
        parameter(
            DATA,
            "Network, data and training by one name, with what to expect: "
            + "; ".join(f"{name} ({expectation(name)})" for name in RECIPES)
            + ". Other options override it; data of CIFAR lie in the folder data, unless --data "
            "says where.",
            completer=lambda context: RECIPES,
        ),
    ] = None,
    data_options: RecipeDataOptions,
    out: Annotated[Path, parameter(OUTPUT, "Folder for the network.")],
    settings: Annotated[dict[str, Any], BACKBONE, NOT_OF_UNCUT, _recipe_default],
    common: FolderOptions,
) -> None:
    """Train a network from scratch, to be cut later.

    Writes network.json and weights.safetensors into the folder, and checkpoints between epochs:
    the same command goes on after the last of them. The network is evaluated on the test part at
    the end.

    Example: vinets train --model digits_cnn --data digits --out out/base

    Example: vinets train --recipe cifar10-resnet18 --out weights/cifar10-resnet18
    """
    from vinets.core.plain import as_plain
    from vinets.data import load_data
    from vinets.data.images import augment_by, normalise_by
    from vinets.measure.level import AccuracyWarning, low_accuracy_sentence
    from vinets.report import Column, Row, Table
    from vinets.runs.scratch import recipe_called, recipe_for, train_into

    if recipe is None and (model is None or not data_options.data):
        raise ValueError(
            "Pass --model and --data, or --recipe, which has both, such as --recipe digits-cnn."
        )
    data, start = data_options.data, recipe_for(model or "")
    if recipe is not None:
        known = recipe_called(recipe)
        if model is not None and model != known.model:
            raise ValueError(f"{recipe} is for {known.model}. Leave out --model, or --recipe.")
        model, data, start = known.model, data or known.data, known.recipe
    assert model is not None
    chosen = replace(start, **settings, seed=common.seed)
    split = load_data(data, seed=data_options.split_seed, size=data_options.size)
    split = augment_by(
        normalise_by(split, data_options.mean, data_options.std),
        data_options.flip,
        data_options.crop,
    )
    with locked(out, wait=common.wait), watching(common.quiet) as progress:
        run = train_into(out, model, split, recipe=chosen, device=common.device, progress=progress)
    tested_on, right = len(split.test), run.test["accuracy"]
    sentence = low_accuracy_sentence(model, right, tested_on, len(split.test.classes), stated=right)
    if sentence is not None:
        warnings.warn(sentence, AccuracyWarning, stacklevel=2)
    columns = (
        Column("parameters", format=","),
        Column("accuracy", format=".2%"),
        Column("loss", format=".4f"),
        Column("calibration_error", "calibration error", ".4f"),
        Column("seconds", format=".1f"),
    )
    values = run.test | {"parameters": run.parameters, "seconds": run.seconds}
    table = Table("training", f"{model} on {split.name}", columns, (Row(values),))
    if not show(common, {"out": str(out)} | as_plain(run), table):
        return
    if recipe is not None and not settings and (words := expectation(recipe)):
        note(f"The recipe is known to reach {words}.", common.quiet)
    again = replace(data_options, data=data).words(DataOptions)
    line = shlex.join((opened_again(out, model), *again))
    note(
        f"Saved in {out}. Next: vinets compress {line} --budget drop=1 --out out/small",
        common.quiet,
    )


# --- build ------------------------------------------------------------------------------------

DEFAULT_HEAD = "vanishing"

GONE = {
    "--placement": "Write --head vanishing, --head local or --head products instead.",
    "--preset": "Name the network and pass --cut; --head products makes what was best.",
    "--tune": "Write --train backbone or --train last:N instead.",
    "--head-parameters": "Write --parameters instead.",
}
"""Options of version 0.2, and what is written in their place."""


@takes()
def build(
    model: UncutName,
    /,
    *,
    data_options: TrainingDataOptions,
    cut: Annotated[str | int, parameter(DATA, CUT_HELP, CUT)],
    out: Annotated[Path, parameter(OUTPUT, "Folder for the network and its results.")],
    head: Annotated[str, parameter(RUNNING, "The head behind the cut: {heads}.")] = DEFAULT_HEAD,
    options: dict[str, Any],
    recipe: dict[str, Any],
    latents: dict[str, Any],
    timing: SpeedOptions,
    limit: Annotated[
        int | None,
        parameter(DATA, "Training examples to use.", whole(), shown="all of them"),
    ] = None,
    baselines: Annotated[
        bool,
        parameter(
            RUNNING, "Train and measure the heads that it is compared with, too.", negative=True
        ),
    ] = False,
    half: Annotated[
        bool, parameter(OUTPUT, "Store the network in half precision; it computes in single.")
    ] = False,
    common: FolderOptions,
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
    from vinets.runs.compare import compare_heads, comparison_table, head_trials, remarks

    given = options, recipe, latents
    head_trials(_trial(head, None, cut, *given), baselines=baselines)  # complains before any work
    opened, split = open_data(model, data_options, common, uncut=True)
    trial = _trial(head, opened.architecture, cut, *given)
    trial = replace(trial, timing=timing, seed=common.seed)
    with locked(out, wait=common.wait), watching(common.quiet) as progress:
        result = compare_heads(
            opened.network,
            replace(split, train=limit_source(split.train, limit, common.seed)),
            trial,
            out,
            baselines=baselines,
            device=common.device,
            command=("vinets", *sys.argv[1:]),
            stated=opened.stated,
            progress=progress,
        )
    if half:
        uncut = opened.network.cpu() if opened.architecture is None else None
        CutNetwork.from_pretrained(out, backbone=uncut).half().save_pretrained(out)
    if not common.json:
        note(str(result.first.build), common.quiet)
    if not show(common, result, comparison_table(result)):
        return
    for sentence in remarks(result):
        note(sentence, common.quiet)
    read = replace(data_options, weights=None)  # the folder has its own
    again = shlex.join((opened_again(out, model), *read.words(DataOptions)))
    note(f"Saved in {out}. Next: vinets evaluate {again}", common.quiet)


def _trial(
    head: str,
    architecture: str | None,
    cut: str | int,
    options: Mapping[str, Any],
    recipe: Mapping[str, Any],
    latents: Mapping[str, Any],
) -> Trial:
    """Return the trial of a head with the options that were given.

    The sizes of a VI-Net, and of heads that are as large, are those of the paper's pipeline.
    """
    from vinets.heads import HEADS, VanishingOptions
    from vinets.models.networks import SIZES
    from vinets.runs.trial import Trial

    usual = Trial.of(DEFAULT_HEAD, cut=cut, **SIZES.get(architecture or "", {}))
    trial = usual if head == DEFAULT_HEAD else Trial.of(head, cut=cut)
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


def choose_head(words: Sequence[str]) -> None:
    """Let ``build`` take the options of the head that a line names, or its file of options."""
    from vinets.heads import HEADS

    for word in words:
        name = word.partition("=")[0]
        if name in GONE:
            raise ValueError(f"{name} is no option any more. {GONE[name]}")
    if _value(words, "--epochs") == "0":
        raise ValueError(
            "--epochs 0 is no option any more. Heads that need no training are made by --head "
            "closed."
        )
    head, file = _value(words, "--head"), _value(words, "--config")
    if head is None:
        head = str(read_run(file).get("head", DEFAULT_HEAD)) if file else DEFAULT_HEAD
    kind = HEADS[head]
    training = TrainingOptions(**kind.training_defaults)
    # The recipe has the seed of the command; what a baseline is like is not said on a line.
    for name, start in (
        ("options", kind.Options),
        ("latents", LatentOptions),
        ("recipe", training),
    ):
        build.__annotations__[name] = spread(start, ("seed", "like"), keep=dict)
        build.__kwdefaults__ = {**(build.__kwdefaults__ or {}), name: {}}


def _value(words: Sequence[str], flag: str) -> str | None:
    """Return what the words of a line give an option, before they are parsed."""
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word == flag or word.startswith(f"{flag}="):
            return word.partition("=")[2] if "=" in word else following
    return None


def refuse_option(flag: str) -> None:
    """Complain about an option of other heads; pass over any other."""
    from vinets.heads import HEADS

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


# --- compress ---------------------------------------------------------------------------------


@takes()
def compress(
    model: UncutName,
    /,
    *,
    data_options: TrainingDataOptions,
    budget: Annotated[
        list[str],
        parameter(
            RUNNING,
            "What may be lost, in points, or what it may cost: drop=0.5, params=1e6, params=10%, "
            "size=4MB, macs=50%, latency=2ms@cpu,batch=1. May be given several times.",
        ),
    ],
    out: Annotated[Path, parameter(OUTPUT, "Folder for the network, results and the page.")],
    searching: SearchOptions,
    dry_run: Annotated[
        bool, parameter(RUNNING, "Say what would be tried, and how long it would take.")
    ] = False,
    workers: WorkerOptions,
    common: FolderOptions,
) -> None:
    """Find a small network that does what this one does, within a budget.

    Cuts of the network and heads behind them are tried in rounds, plain heads like polynomial ones:
    all for a few epochs, the better ones for longer, the last few to the end. With drop=, the
    smallest network that loses no more is wanted; without, the most accurate one. Half of the test
    part is used to choose, the other half to test what was chosen. The network is saved in the
    folder, with results.json and report.html. The same command goes on where it was interrupted.
    With --jobs or --cluster, the trainings of a round run side by side, with the same results.

    Example: vinets compress out/base --data digits --budget drop=0.5 --out out/small

    Example: vinets compress out/resnet18 --data cifar10:data --budget params=10% --budget
    latency=50%@cpu --out out/small
    """
    from vinets.search import CommandWords, parse_budget
    from vinets.search import compress as search_for
    from vinets.search.compress import divide
    from vinets.search.page import command_lines, rounds_table
    from vinets.search.rounds import Search

    wanted, jobs = parse_budget(budget), workers.jobs_or_cluster
    opened, split = open_data(model, data_options, common, uncut=True)
    network = opened.network
    chosen: dict[str, Any] = {"seed": common.seed, "device": common.device}
    if dry_run:
        with watching(common.quiet) as progress:
            setup, _ = divide(network, split, searching.limit, **chosen)
            plan = Search(setup, wanted, out, searching, common.seed, progress=progress).plan()
        if show(common, plan, rounds_table(plan)):
            print(plan)
        return
    words = CommandWords(
        model=model,
        data=data_options.words(DataOptions),
        augment=data_options.words()[len(data_options.words(DataOptions)) :],
        device=() if common.device == "auto" else ("--device", common.device),
        out=str(out),
        saved=opened_again(out, model),
    )
    with locked(out, wait=common.wait), watching(common.quiet) as progress:
        result = search_for(
            network,
            split,
            wanted,
            searching=searching,
            out=out,
            jobs=jobs,
            command=("vinets", *sys.argv[1:]),
            stated=opened.stated,
            words=words,
            progress=progress,
            **chosen,
        )
    if not show(common, result, result.table):
        return
    print(result)
    print("\nTo make each again:")
    for line in command_lines(result):
        print(line)
    for line in result.notes:
        note(line, common.quiet)
    # not evaluate, which would test on the examples that were used to choose, too
    next_one = f"vinets export {shlex.quote(opened_again(out, model))} --out small.onnx"
    note(f"Saved in {out}, with report.html. Next: {next_one}", common.quiet)
