"""``vinets cuts``, ``evaluate``, ``bench`` and ``predict``: look at networks, and use them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from vinets import pretrained
from vinets.cli.parameters import parameter, takes
from vinets.cli.shared import (
    DATA,
    OUTPUT,
    RUNNING,
    SIZES,
    WEIGHTS,
    CommonOptions,
    DataOptions,
    NetworkName,
    Shape,
    open_data,
    seed_and_device,
    show,
    watching,
)
from vinets.core.options import whole
from vinets.core.settings import FormatOptions, WindowOptions


@takes()
def cuts(
    model: Annotated[str, parameter(None, "A folder of vinets train, or a name: {networks}.")],
    /,
    *,
    data: Annotated[
        str | None, parameter(DATA, "Takes the shape of its inputs: {data formats}.")
    ] = None,
    shape: Shape = None,
    weights: Annotated[Path | None, parameter(DATA, WEIGHTS)] = None,
    match: Annotated[str | None, parameter(OUTPUT, "All cuts whose name holds this text.")] = None,
    every: Annotated[bool, parameter(OUTPUT, "All cuts.", None, "--all")] = False,
    common: CommonOptions,
) -> None:
    """List where to cut a network, from its input to its output.

    Shown are the cuts that vinets compress tries, which differ in what they cost, and those of the
    paper, marked with the name of their preset; --all shows every one, many of which hardly differ.
    Shape is that of the latents; parameters and multiply-adds (MACs) are those that the cut
    network still needs; removed is the share of convolutions that the cut takes away.

    Example: vinets cuts resnet18 --shape 3,32,32

    Example: vinets cuts resnet18 --shape 3,32,32 --match layer3
    """
    from vinets.core.device import each
    from vinets.latent.cut import cut_points
    from vinets.models import PRESETS
    from vinets.report import Column, Row, Table
    from vinets.runs.open import open_uncut
    from vinets.search.space import choose_cuts

    device = seed_and_device(common)
    opened, example, _ = open_uncut(model, data, shape, weights=weights)
    marks = {cut: name for name, (of, cut) in PRESETS.items() if of == opened.architecture}
    inputs = each(example, lambda tensor: tensor.to(device))
    known = cut_points(opened.network.to(device), inputs)
    points = [p for p in known if match is None or match in p.name]
    if not points:
        raise ValueError(f"No cut of {opened.name} has {match!r} in its name.")
    parameters = sum(p.numel() for p in opened.network.parameters())
    tried = {p.name for p in choose_cuts(known, parameters)}
    listed = [asdict(p) | {"preset": marks.get(p.name), "tried": p.name in tried} for p in points]
    facts = {"model": model, "architecture": opened.architecture, "points": listed}
    if match is None and not every:
        points = [p for p in points if p.name in tried or p.name in marks] or points
    columns = (
        Column("index", format="d"),
        Column("name"),
        Column("shape"),
        Column("parameters", format=","),
        Column("macs", "MACs", ","),
        Column("removed", format=".0%"),
        *([Column("preset")] if marks else []),
    )
    rows = tuple(
        Row(asdict(p) | {"shape": "×".join(map(str, p.shape)), "preset": marks.get(p.name, "")})
        for p in points
    )
    shown = show(common, facts, Table("cuts", "Cuts, from the input to the output", columns, rows))
    if shown and len(points) < len(known) and match is None and not common.quiet:
        print(
            f"{len(points)} of {len(known)} cuts: those that vinets compress tries"
            f"{', and those of the paper' if marks else ''}. --all shows every one."
        )


@takes()
def evaluate(
    net: NetworkName,
    /,
    *,
    data_options: DataOptions,
    part: Annotated[str, parameter(DATA, "Part of the data: test or train.")] = "test",
    batch_size: Annotated[int, parameter(DATA, "Examples at once.", whole())] = 512,
    common: CommonOptions,
) -> None:
    """Evaluate a network: accuracy, top-5 accuracy, loss and calibration, and class by class.

    With --json the confusion matrix comes along: a row per label, a column per prediction.

    Example: vinets evaluate out/small --data digits

    A network of your own is named again, because opening a folder runs no file.

    Example: vinets evaluate out/small@net.py:MyNet --data digits
    """
    from vinets.core.checks import one_of
    from vinets.measure import evaluate as measure
    from vinets.measure.level import warn_of_low_accuracy

    device = seed_and_device(common)
    one_of("vinets", "part", part, ("test", "train"))
    opened, split = open_data(net, data_options, common)
    source = split.test if part == "test" else split.train
    with watching(common.quiet) as progress:
        progress.start(f"evaluating {opened.name}", len(source))
        classes = list(opened.classes or source.classes)
        evaluation = measure(
            opened.network,
            split,
            part=part,
            device=device,
            batch_size=batch_size,
            classes=classes,
            caption=f"{opened.name} on {split.name}, {part}",
            progress=progress,
        )
        warn_of_low_accuracy(
            opened.name, opened.network, source, evaluation.accuracy, opened.stated, device
        )
    facts = {"network": net, "data": data_options.data, "part": part, "classes": classes}
    show(common, facts | evaluation.to_dict(), evaluation.table, evaluation.by_class)


@takes("warmup")
def bench(
    nets: Annotated[
        list[str],
        parameter(
            None,
            "Folders of vinets build or vinets train, files of vinets export (.onnx), or names: "
            "resnet18.",
        ),
    ],
    /,
    *,
    shape: Shape = None,
    batch_sizes: Annotated[
        Any,  # a tuple of integers
        parameter(RUNNING, "Examples at once, with commas in between.", SIZES, shown="1,32,256"),
    ] = (1, 32, 256),
    windows: WindowOptions,
    formats: FormatOptions,
    compile: Annotated[bool, parameter(RUNNING, "Use torch.compile.")] = False,
    common: CommonOptions,
) -> None:
    """Measure speed, memory and size of networks side by side.

    The networks take turns, so that a change in the machine's load affects all of them. Prints
    images per second (mean and deviation over the windows), the ratio to the first network (median
    over the windows), the latency of one batch, peak memory, floating-point operations per
    example, and parameters by part. Exported files run on the CPU in the runtime and the precision
    that their rows name, with as many threads as torch.

    Example: vinets bench out/base out/small small-int8.onnx --batch-sizes 1,256
    """
    from vinets.measure import bench as measure
    from vinets.networks.open import noise_like, open_side_by_side

    seed_and_device(common)
    opened, example = open_side_by_side(nets, shape)
    with watching(common.quiet) as progress:
        progress.start("timing", 1)
        comparison = measure(
            {name: network.network for name, network in opened.items()},
            noise_like(example, max(batch_sizes), common.seed),
            batch_sizes=batch_sizes,
            device=common.device,
            compile=compile,
            windows=windows,
            formats=formats,
        )
        progress.advance(1)
    show(common, comparison.to_dict(), comparison.speed_table, comparison.size_table)


@takes()
def predict(
    net: Annotated[
        str,
        parameter(
            None,
            "A folder of vinets build or vinets train, or a network of the package: "
            f"{', '.join(pretrained.names())}.",
        ),
    ],
    path: Annotated[
        Path | None,
        parameter(
            None,
            "An image, or a folder of images.",
            shown="the picture that comes with the network, where one does",
        ),
    ] = None,
    /,
    *,
    top: Annotated[int, parameter(OUTPUT, "Classes to show.", whole())] = 3,
    batch_size: Annotated[int, parameter(RUNNING, "Images at once.", whole())] = 64,
    common: CommonOptions,
) -> None:
    """Classify images: the most probable classes of each.

    Images are resized and normalised as the network knows it from its training.

    Example: vinets predict out/small holiday.png --top 5

    Example: vinets predict vinets/digits-cnn-products
    """
    from vinets.data.folders import image_files
    from vinets.networks.open import open_network
    from vinets.report import Column, Table
    from vinets.runs.open import predict_images

    device = seed_and_device(common)
    opened = open_network(net)
    if path is None and pretrained.is_name(net):
        path = pretrained.example(net)
    if path is None:
        raise ValueError(f"Pass an image, or a folder of images: {net} comes without a picture.")
    files = image_files(path)
    with watching(common.quiet) as progress:
        predictions = predict_images(
            opened, files, top=top, batch_size=batch_size, device=device, progress=progress
        )
    rows = [
        (one.path if rank == 0 else "", guess.name, guess.probability)
        for one in predictions
        for rank, guess in enumerate(one.classes)
    ]
    columns = [Column("image"), Column("class"), Column("probability", format=".2%")]
    table = Table.from_rows("predictions", f"What {opened.name} says", columns, rows)
    show(common, {"network": net, "predictions": predictions}, table)
