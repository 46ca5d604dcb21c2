"""``vinets evaluate``: how often a network is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import DATA, Common, Reading, option
from vinets.cli.output import note_normalisation, print_json, seeded, watching

if TYPE_CHECKING:
    from vinets.measure import Evaluation
    from vinets.report import Table


@takes(reading=Reading, common=Common)
def evaluate(
    *,
    net: Annotated[
        str,
        typer.Argument(
            help="A folder of vinets build or vinets train, or a network with --weights: "
            "{networks}."
        ),
    ],
    reading: Reading,
    part: Annotated[str, option(DATA, "Part of the data: test or train.")] = "test",
    batch_size: Annotated[int, option(DATA, "Examples at once.", min=1)] = 512,
    common: Common,
) -> None:
    """Evaluate a network: accuracy, top-5 accuracy, loss and calibration, and class by class.

    With --json the confusion matrix comes along: a row per label, a column per prediction.

    Example: vinets evaluate out/vinet --data digits

    A network of your own is named again, for opening a folder runs no file.

    Example: vinets evaluate out/vinet@net.py:MyNet --data digits
    """
    from vinets.checks import one_of
    from vinets.measure import evaluate as measured
    from vinets.pipeline.doubt import warn_of_doubt
    from vinets.pipeline.opening import open_with_data, require_weights
    from vinets.report import print_table
    from vinets.running import resolve_device

    seeded(common.seed)
    one_of("vinets", "part", part, ("test", "train"))
    there = resolve_device("vinets", common.device)
    opened, split = open_with_data(net, **reading.keywords())
    require_weights(opened)
    note_normalisation(opened, split, common.quiet)
    source = split.test if part == "test" else split.train
    with watching(common.quiet) as progress:
        progress.start(f"evaluating {opened.name}", len(source))
        batches = source.batches(batch_size, device=there)
        found = measured(opened.network, batches, device=there, progress=progress)
        classes = list(opened.classes or source.classes)
        warn_of_doubt(opened.name, found.accuracy, found.examples, len(classes), opened.stated)
    if common.json:
        facts = {"network": net, "data": reading.data, "part": part, "classes": classes}
        print_json(facts | found.to_dict())
        return
    for table in _tables(f"{opened.name} on {split.name}, {part}", classes, found):
        print_table(table)


def _tables(caption: str, classes: list[str], found: Evaluation) -> tuple[Table, Table]:
    """The network as a whole, and class by class."""
    from vinets.report import Column, Row, Table

    columns = (
        Column("examples", format=","),
        Column("accuracy", format=".2%"),
        *([Column("top5", "top 5", ".2%")] if found.top5 is not None else []),
        Column("loss", format=".4f"),
        Column("calibration_error", "calibration error", ".4f"),
        Column("seconds", format=".2f"),
    )
    whole = Table("evaluation", caption, columns, (Row(found.to_dict()),))
    counts, shares = found.confusion.sum(1).tolist(), found.per_class.tolist()
    rows = zip(classes, counts, shares, strict=False)  # data may name more classes
    by_class = [Column("class"), *columns[:2]]
    return whole, Table.from_rows("classes", "Class by class", by_class, rows)
