"""``vinets ood``: how well a network tells examples that belong to none of its classes."""

from __future__ import annotations

from typing import Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import DATA, RUNNING, Common, Reading, option
from vinets.cli.output import note_normalisation, print_json, seeded, watching


@takes(reading=Reading, common=Common)
def ood(
    *,
    net: Annotated[
        str,
        typer.Argument(
            help="A folder of vinets build or vinets train, or a network with --weights: "
            "{networks}."
        ),
    ],
    reading: Reading,
    ood: Annotated[
        list[str],
        option(
            DATA,
            "Images of none of the classes: noise, textures, or data as for --data; repeatable.",
        ),
    ],
    layers: Annotated[
        str | None,
        option(
            RUNNING,
            "Layers whose distances are taken together, such as layer2,layer3,layer4.",
            show_default="five from the middle of the network to its end",
        ),
    ] = None,
    per_class: Annotated[
        int, option(RUNNING, "Training examples of a class to fit scores to.", min=4)
    ] = 512,
    count: Annotated[int, option(RUNNING, "Test images, and images of each set.", min=8)] = 2000,
    common: Common,
) -> None:
    """Measure how well out-of-distribution images are detected, by several scores.

    Test images of the data are compared with those of every other set. AUROC is the probability
    that an image of the other set gets the larger score, in percent; FPR95 is the share of such
    images that pass a threshold which 95 % of the network's own images pass. Distances to the
    classes at several layers are compared with scores from the literature. All are fitted to
    training images; distances also use a quarter of the test images, which is not judged.

    Example: vinets ood out/base --data digits --ood noise --ood textures
    """
    from vinets.core.device import resolve_device
    from vinets.networks.open import require_weights
    from vinets.report import Column, Row, Table, print_table
    from vinets.runs.open import open_with_data
    from vinets.scores.detect import compare_scores, ood_images

    seeded(common.seed)
    there = resolve_device("vinets", common.device)
    opened, split = open_with_data(net, **reading.keywords())
    require_weights(opened)
    note_normalisation(opened, split, common.quiet)
    preprocessing = getattr(split.test, "preprocessing", None)  # only sources of images have one
    if preprocessing is None:
        raise ValueError(f"{reading.data} has no images, which vinets ood is for.")
    others = {spec: ood_images(spec, preprocessing, count, common.seed) for spec in ood}
    with watching(common.quiet) as progress:
        found = compare_scores(
            opened.network.to(there),
            split,
            others,
            layers=None if layers is None else layers.split(","),
            per_class=per_class,
            count=count,
            seed=common.seed,
            progress=progress,
        )
    if common.json:
        print_json({"network": net, "data": reading.data, "scores": found})
        return
    columns = [Column("score")]
    for k, spec in enumerate(others):
        columns.append(Column(f"auroc_{k}", f"{spec}: AUROC", ".1f", better="higher"))
        columns.append(Column(f"fpr_{k}", "FPR95", ".1f", better="lower"))
    rows = []
    for name in dict.fromkeys(one.score for one in found):
        values: dict[str, str | float] = {"score": name}
        for k, spec in enumerate(others):
            one = next(f for f in found if (f.score, f.data) == (name, spec))
            values |= {f"auroc_{k}": 100 * one.auroc, f"fpr_{k}": 100 * one.fpr95}
        rows.append(Row(values))
    caption = f"{opened.name}: {split.name} against other images"
    print_table(Table("ood", caption, tuple(columns), tuple(rows)))
