"""``vinets predict``: what an image shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vinets.cli.options import OUTPUT, RUNNING, Device, Json, Quiet, Seed, option
from vinets.cli.output import print_json, print_table, seeded, watching

__all__ = ["predict"]


def predict(
    net: Annotated[str, typer.Argument(help="A folder of vinets build or vinets train.")],
    path: Annotated[Path, typer.Argument(help="An image, or a folder of images.")],
    top: Annotated[int, option(OUTPUT, "--top", help="Classes to show.", min=1)] = 3,
    batch_size: Annotated[int, option(RUNNING, "--batch-size", help="Images at once.", min=1)] = 64,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Classify images: the most probable classes of each.

    Images are resized and normalised as the network knows it from its training.

    Example: vinets predict out/vinet holiday.png --top 5
    """
    from vinets.cli.networks import open_network, require_weights
    from vinets.running import resolve_device

    seeded(seed)
    place = resolve_device("vinets", device)
    opened = open_network(net)
    require_weights(opened)
    if opened.preprocessing is None:
        raise ValueError(
            f"{opened.name} has no preprocessing on record, so that it is not known how an image "
            "becomes its input. Train or build it on images."
        )
    files = image_files(path)
    found: list[dict[str, Any]] = []
    network = opened.network.to(place)
    with watching(quiet) as progress:
        progress.start("predicting", len(files))
        for start in range(0, len(files), batch_size):
            some = files[start : start + batch_size]
            inputs = [opened.preprocessing.read(file) for file in some]
            found += _predicted(network, inputs, some, opened.classes, top)
            progress.advance(len(some))
    if json:
        print_json({"network": net, "predictions": found})
        return
    rows = [
        [entry["path"] if rank == 0 else "", guess["name"], f"{guess['probability']:.2%}"]
        for entry in found
        for rank, guess in enumerate(entry["classes"])
    ]
    print_table(["image", "class", "probability"], rows, left=2)


def image_files(path: Path) -> list[Path]:
    """The image itself, or the images in a folder and below it, sorted."""
    from vinets.data.files import SUFFIXES

    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FileNotFoundError(f"{path} does not exist. Pass an image or a folder of images.")
    files = sorted(f for f in path.rglob("*") if f.suffix.lower() in SUFFIXES and f.is_file())
    if not files:
        raise ValueError(f"{path} holds no images. Files may end in {', '.join(sorted(SUFFIXES))}.")
    return files


def _predicted(
    network: Any, inputs: list[Any], files: list[Path], classes: tuple[str, ...], top: int
) -> list[dict[str, Any]]:
    import torch

    from vinets.running import call, evaluating, logits_of

    place = next(network.parameters()).device
    with evaluating(network):
        output = call(network, torch.cat(inputs).to(place))
    logits = logits_of(output)
    values, index = logits.float().softmax(1).topk(min(top, logits.shape[1]), dim=1)
    names = classes or tuple(str(k) for k in range(logits.shape[1]))
    return [
        {
            "path": str(file),
            "classes": [
                {"name": names[k], "probability": p}
                for k, p in zip(row.tolist(), shares.tolist(), strict=True)
            ],
        }
        for file, row, shares in zip(files, index, values, strict=True)
    ]
