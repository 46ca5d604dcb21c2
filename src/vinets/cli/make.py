"""``vinets train``, ``build`` and ``compress``: make networks, and put them into folders."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vinets.cli import shared
from vinets.cli.parameters import DATA, OUTPUT, RUNNING, read_run, spread, takes
from vinets.core import settings
from vinets.core.files import locked
from vinets.core.options import flag_of, option_fields
from vinets.core.settings import LatentOptions, SearchOptions, SpeedOptions, TrainingOptions
from vinets.pretrained import expectation

# --- train ------------------------------------------------------------------------------------


@takes(without="weights classes")
def train(
    *,
    model: str | None = DATA.option("{networks}.", None, shown="that of the recipe"),
    recipe: str | None = DATA.option(
        "Network, data and training by one name, with what to expect: "
        + "; ".join(f"{name} ({expectation(name)})" for name in settings.RECIPES)
        + ". Other options override it; data of CIFAR lie in the folder data, unless --data says "
        "where.",
        None,
        completer=lambda context: settings.RECIPES,
    ),
    data: str | None = DATA.option("{data formats}.", None, shown="that of the recipe"),
    reading: shared.TrainingReadingOptions,
    out: Path = OUTPUT.option("Folder for the network."),
    changes: dict[str, Any],
    common: shared.FolderOptions,
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
    from vinets.data.images import CROP_DETAIL, augment_by, normalise_by
    from vinets.measure.doubt import AccuracyWarning, low_accuracy_sentence
    from vinets.report import Table
    from vinets.runs.scratch import recipe_called, recipe_for, train_into

    known = None if recipe is None else recipe_called(recipe)
    if known is not None:
        if model not in (None, known.model):
            raise ValueError(f"{recipe} is for {known.model}. Leave out --model, or --recipe.")
        model, data = known.model, data or known.data
    if model is None or not data:
        raise ValueError(
            "Pass --model and --data, or --recipe, which has both, such as --recipe digits-cnn."
        )
    start = recipe_for(model) if known is None else known.recipe
    chosen = replace(start, **changes, seed=common.seed)
    how: dict[str, Any] = {"size": reading.size, "resize": reading.resize or "squash"}
    with common.progress() as progress:
        how |= {"skip_unreadable": reading.skip_unreadable, "progress": progress}
        how["detail"] = 1.0 if reading.scale is None else CROP_DETAIL
        split = load_data(data, seed=reading.split_seed, **how)
    common.tell_reading(data, split)
    split = normalise_by(split, reading.mean, reading.std)
    split = augment_by(split, reading.flip, reading.crop, reading.scale)
    with locked(out, wait=common.wait), common.progress() as progress:
        how = {"recipe": chosen, "options": reading.keywords()["options"], "device": common.device}
        run = train_into(out, model, split, **how, progress=progress)
    right, tested_on = run.test["accuracy"], len(split.test)
    doubt = low_accuracy_sentence(model, right, tested_on, len(split.test.classes), stated=right)
    if doubt is not None:
        warnings.warn(doubt, AccuracyWarning, stacklevel=2)
    row = {
        "parameters": f"{run.parameters:,}",
        "accuracy": f"{right:.2%}",
        "loss": f"{run.test['loss']:.4f}",
        "calibration error": f"{run.test['calibration_error']:.4f}",
        "seconds": f"{run.seconds:.1f}",
    }
    table = Table.from_rows("training", f"{model} on {split.name}", list(row), [[*row.values()]])
    if common.show({"out": out} | as_plain(run), table):
        if recipe is not None and not changes and (words := expectation(recipe)):
            common.note(f"The recipe is known to reach {words}.")
        net = _again(out, model, data, reading)
        common.note(f"Saved in {out}. Next: vinets compress {net} --budget drop=1 --out out/small")


# There is no teacher, no head and no cut; the seed is that of the command.
NOT_OF_UNCUT = (
    *("seed", "distill", "temperature", "standardize", "vanish", "trained", "backbone_rate"),
    *("backbone_decay", "norms", "memory_format", "compiled", "views", "dtype", "projected"),
)
train.__annotations__["changes"] = spread(
    settings.BACKBONE, NOT_OF_UNCUT, settings.SMALL_RECIPES, switched=True
)


def _again(out: Path, model: str, data: str, reading: shared.ReadingOptions) -> str:
    """Return how a shell names what was made of a network, and its data."""
    words = replace(reading, weights=None, model_option=()).words(shared.ReadingOptions)
    return shlex.join((shared.opened_again(out, model), "--data", data, *words))


# --- build ------------------------------------------------------------------------------------

DEFAULT_HEAD = "vanishing"

GONE = {
    "--placement": "Write --head vanishing, --head local or --head products instead.",
    "--preset": "Name the network and pass --cut; --head products makes what was best.",
    "--tune": "Write --train backbone or --train last:N instead.",
    "--head-parameters": "Write --parameters instead.",
    "--epochs 0": "Heads that need no training are made by --head closed.",
}
"""Options of version 0.2, and what is written in their place."""


@takes()
def build(
    model: str = shared.UNCUT,
    *,
    data: str = shared.DATA_SET,
    reading: shared.TrainingReadingOptions,
    cut: str | int = shared.CUT,
    out: Path = OUTPUT.option("Folder for the network and its results."),
    head: str = RUNNING.option("The head behind the cut: {heads}.", DEFAULT_HEAD),
    options: dict[str, Any],
    recipe: dict[str, Any],
    latents: dict[str, Any],
    timing: SpeedOptions,
    limit: int | None = DATA.option("Training examples to use.", None, shown="all of them"),
    baselines: bool = RUNNING.option(
        "Train and measure the heads that it is compared with, too.", False, negative=True
    ),
    half: bool = OUTPUT.option("Store the network in half precision, to compute in single.", False),
    common: shared.FolderOptions,
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
    from vinets.data.conversion import limit_source
    from vinets.heads import HEADS, VanishingOptions
    from vinets.models.networks import SIZES
    from vinets.networks.network import CutNetwork
    from vinets.runs.compare import compare_heads, comparison_table, head_trials, remarks
    from vinets.runs.trial import Trial

    def trial_of(architecture: str | None) -> Trial:
        # sizes of a VI-Net, and of heads that are as large, are those of the paper's pipeline
        usual = Trial.of(DEFAULT_HEAD, cut=cut, **SIZES.get(architecture or "", {}))
        trial = usual if head == DEFAULT_HEAD else Trial.of(head, cut=cut)
        compared = isinstance(getattr(trial.options, "like", None), VanishingOptions)
        like = {"like": usual.options} if compared else {}
        chosen = replace(trial.options, **like, **options)  # type: ignore[type-var]
        read = LatentOptions(**(HEADS[head].latent_defaults(chosen) | latents))
        training = replace(trial.recipe, **recipe)
        if training.layers != 0 and (training.views or training.projected):
            raise ValueError(
                "--views and --project-once are for a backbone that stays as it is. Leave them "
                "out, or pass --train coefficients."
            )
        trial = replace(trial, options=chosen, recipe=training, latents=read)
        return replace(trial, timing=timing, seed=common.seed)

    head_trials(trial_of(None), baselines=baselines)  # complains before any work
    opened, split = shared.open_data(model, data, reading, common, uncut=True)
    with locked(out, wait=common.wait), common.progress() as progress:
        result = compare_heads(
            opened.network,
            replace(split, train=limit_source(split.train, limit, common.seed)),
            trial_of(opened.architecture),
            out,
            baselines=baselines,
            device=common.device,
            command=("vinets", *sys.argv[1:]),
            stated=opened.stated,
            say=lambda text: common.note(f"{text} {opened.guessed}".rstrip()),
            progress=progress,
        )
    if half:
        uncut = opened.network.cpu() if opened.architecture is None else None
        CutNetwork.from_pretrained(out, backbone=uncut).half().save_pretrained(out)
    if not common.json:
        common.note(str(result.first.build))
    if common.show(result, comparison_table(result)):
        for sentence in remarks(result):
            common.note(sentence)
        net = _again(out, model, data, reading)
        common.note(f"Saved in {out}. Next: vinets evaluate {net}")


def choose_head(words: Sequence[str]) -> None:
    """Let ``build`` take the options of the head that a line names, or its file of options."""
    from vinets.heads import HEADS

    split = [word.split("=", 1) if word.startswith("--") else [word] for word in words]
    parts = [part for one in split for part in one]
    pairs = dict(zip(parts, [*parts[1:], ""], strict=True))
    for old, new in GONE.items():
        if old in pairs or old in map(" ".join, pairs.items()):
            raise ValueError(f"{old} is no option any more. {new}")
    file = pairs.get("--config")
    head = pairs.get("--head") or (read_run(file).get("head") if file else None)
    kind = HEADS[str(head or DEFAULT_HEAD)]
    # The recipe has the seed of the command; what a baseline is like is not said on a line.
    starts = {"options": kind.Options(), "latents": LatentOptions()}
    starts["recipe"] = TrainingOptions(**kind.training_defaults)
    for name, start in starts.items():
        build.__annotations__[name] = spread(start, ("seed", "like"), switched=True)


def refuse_option(flag: str) -> None:
    """Complain about an option of other heads; pass over any other."""
    from vinets.heads import HEADS

    known = {kind: map(flag_of, option_fields(head.Options)) for kind, head in HEADS.items()}
    heads = [kind for kind, flags in known.items() if flag in flags]
    if heads:
        raise ValueError(
            f"{flag} is an option of other heads: {', '.join(heads)}. Leave it out, or pass "
            f"--head {heads[0]}."
        )


# --- compress ---------------------------------------------------------------------------------


@takes()
def compress(
    model: str = shared.UNCUT,
    *,
    data: str = shared.DATA_SET,
    reading: shared.TrainingReadingOptions,
    budget: list[str] = RUNNING.option(
        "What may be lost, in points, or what it may cost: drop=0.5, params=1e6, params=10%, "
        "size=4MB, macs=50%, latency=2ms@cpu,batch=1. May be given several times."
    ),
    out: Path = OUTPUT.option("Folder for the network, results and the page."),
    searching: SearchOptions,
    dry_run: bool = RUNNING.option("Say what would be tried, and how long it would take.", False),
    workers: shared.WorkerOptions,
    common: shared.FolderOptions,
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
    from vinets.search.compress import plan as make_plan
    from vinets.search.page import command_lines, rounds_table

    wanted, jobs = parse_budget(budget), workers.jobs_or_cluster
    chosen: dict[str, Any] = {"seed": common.seed, "device": common.device}
    opened, split = shared.open_data(model, data, reading, common, uncut=True)

    def say(text: str) -> None:
        common.note(f"{text} {opened.guessed}".rstrip())

    if dry_run:
        with common.progress() as progress:
            how = {"stated": opened.stated, "say": say, "progress": progress, **chosen}
            plan = make_plan(opened.network, split, wanted, searching, **how)
        if common.show(plan, rounds_table(plan)):
            print(plan)
        return
    read = reading.words(shared.ReadingOptions)
    words = CommandWords(
        model=model,
        data=("--data", data, *read),
        augment=reading.words()[len(read) :],
        device=() if common.device == "auto" else ("--device", common.device),
        out=str(out),
        saved=shared.opened_again(out, model),
    )
    with locked(out, wait=common.wait), common.progress() as progress:
        result = search_for(
            opened.network,
            split,
            wanted,
            searching=searching,
            out=out,
            jobs=jobs,
            command=("vinets", *sys.argv[1:]),
            stated=opened.stated,
            say=say,
            words=words,
            progress=progress,
            **chosen,
        )
    if common.show(result, result.table):
        print("\n".join((str(result), "\nTo make each again:", *command_lines(result))))
        for line in result.notes:
            common.note(line)
        # not evaluate, which would test on the examples that were used to choose, too
        next_one = f"vinets export {shlex.quote(words.saved)} --out small.onnx"
        common.note(f"Saved in {out}, with report.html. Next: {next_one}")
