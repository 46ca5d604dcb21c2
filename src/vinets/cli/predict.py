"""``vinets predict``: what an image shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vinets.cli.generate import takes
from vinets.cli.options import OUTPUT, RUNNING, Common, option
from vinets.cli.output import print_json, seeded, watching


@takes(common=Common)
def predict(
    *,
    net: Annotated[
        str,
        typer.Argument(
            help="A folder of vinets build or vinets train, or a network of the package: "
            "{pretrained}."
        ),
    ],
    path: Annotated[
        Path | None,
        typer.Argument(
            help="An image, or a folder of images.",
            show_default="the picture that comes with the network, where one does",
        ),
    ] = None,
    top: Annotated[int, option(OUTPUT, "Classes to show.", min=1)] = 3,
    batch_size: Annotated[int, option(RUNNING, "Images at once.", min=1)] = 64,
    common: Common,
) -> None:
    """Classify images: the most probable classes of each.

    Images are resized and normalised as the network knows it from its training.

    Example: vinets predict out/small holiday.png --top 5

    Example: vinets predict vinets/digits-cnn-products
    """
    from vinets import pretrained
    from vinets.data.folders import image_files
    from vinets.networks.open import open_network
    from vinets.report import Column, Table, print_table
    from vinets.runs.open import predict_images

    seeded(common.seed)
    opened = open_network(net)
    if path is None and pretrained.is_name(net):
        path = pretrained.example(net)
    if path is None:
        raise ValueError(f"Pass an image, or a folder of images: {net} comes without a picture.")
    files = image_files(path)
    with watching(common.quiet) as progress:
        found = predict_images(
            opened, files, top=top, batch_size=batch_size, device=common.device, progress=progress
        )
    if common.json:
        print_json({"network": net, "predictions": found})
        return
    rows = [
        (one.path if rank == 0 else "", guess.name, guess.probability)
        for one in found
        for rank, guess in enumerate(one.classes)
    ]
    columns = [Column("image"), Column("class"), Column("probability", format=".2%")]
    print_table(Table.from_rows("predictions", f"What {opened.name} says", columns, rows))
