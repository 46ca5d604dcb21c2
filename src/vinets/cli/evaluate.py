"""``vinets evaluate``: how often a network is right."""

from __future__ import annotations

from typing import Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import DATA, Common, Reading, option
from vinets.cli.output import note_normalisation, print_json, seeded, watching


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

    Example: vinets evaluate out/small --data digits

    A network of your own is named again, for opening a folder runs no file.

    Example: vinets evaluate out/small@net.py:MyNet --data digits
    """
    from vinets.core.checks import one_of
    from vinets.core.device import resolve_device
    from vinets.measure import evaluate as evaluated
    from vinets.measure.doubt import warn_of_low_accuracy
    from vinets.networks.open import require_weights
    from vinets.report import print_table
    from vinets.runs.open import open_with_data

    seeded(common.seed)
    one_of("vinets", "part", part, ("test", "train"))
    there = resolve_device("vinets", common.device)
    opened, split = open_with_data(net, **reading.keywords())
    require_weights(opened, reading.data)
    note_normalisation(opened, split, common.quiet)
    source = split.test if part == "test" else split.train
    with watching(common.quiet) as progress:
        progress.start(f"evaluating {opened.name}", len(source))
        classes = list(opened.classes or source.classes)
        found = evaluated(
            opened.network,
            split,
            part=part,
            device=there,
            batch_size=batch_size,
            classes=classes,
            caption=f"{opened.name} on {split.name}, {part}",
            progress=progress,
        )
        warn_of_low_accuracy(
            opened.name, opened.network, source, found.accuracy, opened.stated, there
        )
    if common.json:
        facts = {"network": net, "data": reading.data, "part": part, "classes": classes}
        print_json(facts | found.to_dict())
        return
    print_table(found.table)
    print_table(found.by_class)
