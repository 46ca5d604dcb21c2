"""``vinets evaluate``: how often a network is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vinets.cli.options import (
    DATA,
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
from vinets.cli.output import print_json, print_table, seeded, watching

if TYPE_CHECKING:
    from vinets.progress import Progress

__all__ = ["evaluate"]


def evaluate(
    net: Annotated[
        str,
        typer.Argument(help="A folder of vinets build or vinets train, or a name with --weights."),
    ],
    data: Data,
    weights: Weights = None,
    part: Annotated[str, option(DATA, "--part", help="Part of the data: test or train.")] = "test",
    batch_size: Annotated[int, option(DATA, "--batch-size", help="Examples at once.", min=1)] = 512,
    size: Size = None,
    split_seed: SplitSeed = 0,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Evaluate a network: accuracy, top-5 accuracy, loss and calibration, and class by class.

    With --json the confusion matrix comes along: a row per label, a column per prediction.

    Example: vinets evaluate out/vinet --data digits
    """
    from vinets.checks import one_of
    from vinets.measure import evaluate as measured
    from vinets.pipeline.opening import open_with_data, require_weights
    from vinets.running import resolve_device

    seeded(seed)
    one_of("vinets", "part", part, ("test", "train"))
    there = resolve_device("vinets", device)
    opened, split = open_with_data(net, data, weights=weights, split_seed=split_seed, size=size)
    require_weights(opened)
    source = split.test if part == "test" else split.train

    with watching(quiet) as progress:
        progress.start(f"evaluating {opened.name}", len(source))
        batches = _counted(source.batches(batch_size, device=there), progress)
        found = measured(opened.network, batches, device=there).to_dict()
    classes = list(opened.classes or source.classes)
    facts = {"network": net, "data": data, "part": part, "classes": classes}
    if json:
        print_json(facts | found)
        return
    _show(opened.name, f"{split.name}, {part}", classes, found)


def _counted(batches: Iterator[Any], progress: Progress) -> Iterator[Any]:
    for inputs, labels in batches:
        yield inputs, labels
        progress.advance(len(labels))


def _show(name: str, where: str, classes: list[str], found: dict[str, Any]) -> None:
    columns = [name, "examples", "accuracy", "top 5", "loss", "calibration error", "seconds"]
    numbers = [
        f"{found['examples']:,}",
        _number(found["accuracy"], ".2%"),
        _number(found["top5"], ".2%"),
        _number(found["loss"], ".4f"),
        _number(found["calibration_error"], ".4f"),
        _number(found["seconds"], ".2f"),
    ]
    print_table(columns, [[where, *numbers]])
    rows = []
    for name, row, share in zip(classes, found["confusion"], found["per_class"], strict=False):
        rows.append([name, f"{sum(row):,}", _number(share, ".2%")])
    print_table(["class", "examples", "accuracy"], rows)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
