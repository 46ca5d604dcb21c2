"""``vinets cuts``, ``evaluate``, ``bench``, ``predict``, ``export``: use networks."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path

from vinets import pretrained
from vinets.cli import shared
from vinets.cli.parameters import DATA, OUTPUT, RUNNING, argument, takes
from vinets.core.options import choice
from vinets.core.settings import ExportOptions, FormatOptions, WindowOptions


@takes(without="size resize split_seed mean std classes")
def cuts(
    model: str = argument("A folder of vinets train, or a name: {networks}."),
    *,
    data: str | None = DATA.option("Takes the shape of its inputs: {data formats}.", None),
    shape: tuple[int, ...] | None = shared.SHAPE,
    reading: shared.ReadingOptions,
    match: str | None = OUTPUT.option("All cuts whose name holds this text.", None),
    every: bool = OUTPUT.option("All cuts.", False, flag="--all"),
    common: shared.CommonOptions,
) -> None:
    """List where to cut a network, from its input to its output.

    Shown are the cuts that vinets compress tries, which all paths from the inputs to the logits
    pass, and those of the paper, marked with the name of their preset; --all shows every one. A
    cut that some paths do not pass, such as one in a residual block, leaves out what they carry.
    Shape is that of the latents; parameters and multiply-adds (MACs) are those that the cut
    network still needs; removed is the share of convolutions that the cut takes away.

    Example: vinets cuts resnet18 --shape 3,32,32

    Example: vinets cuts resnet18 --shape 3,32,32 --match layer3
    """
    from vinets.core.device import each
    from vinets.latent.cut import cut_points
    from vinets.models import PRESETS
    from vinets.report import Column, Table
    from vinets.runs.on_data import open_uncut
    from vinets.search.space import choose_cuts

    device = common.start()
    opened, example, _ = open_uncut(model, data, shape, **reading.keywords())
    marks = {cut: name for name, (of, cut) in PRESETS.items() if of == opened.architecture}
    inputs = each(example, lambda tensor: tensor.to(device))
    known = cut_points(opened.network.to(device), inputs, every=True)
    points = [p for p in known if match is None or match in p.name]
    if not points:
        raise ValueError(f"No cut of {opened.name} has {match!r} in its name.")
    parameters = sum(p.numel() for p in opened.network.parameters())
    tried = {p.name for p in choose_cuts(known, parameters)}
    listed = [asdict(p) | {"preset": marks.get(p.name), "tried": p.name in tried} for p in points]
    facts = {"model": model, "architecture": opened.architecture, "points": listed}
    if match is None and not every:
        points = [p for p in points if p.name in tried or p.name in marks] or points
    formats = {"index": "d", "name": None, "shape": None, "parameters": ",", "MACs": ","}
    formats |= {"removed": ".0%", "all paths": None} | ({"preset": None} if marks else {})
    columns = [Column(name, format=one) for name, one in formats.items()]
    rows = []
    for p in points:
        size, mark = "×".join(map(str, p.shape)), marks.get(p.name, "")
        main = "yes" if p.main else "no"
        row = (p.index, p.name, size, p.parameters, p.macs, p.removed, main, mark)
        rows.append(row[: len(columns)])
    table = Table.from_rows("cuts", "Cuts, from the input to the output", columns, rows)
    if common.show(facts, table) and len(points) < len(known) and not (match or common.quiet):
        print(
            f"{len(points)} of {len(known)} cuts: those that vinets compress tries"
            f"{', and those of the paper' if marks else ''}. --all shows every one."
        )


@takes()
def evaluate(
    net: str = shared.NETWORK,
    *,
    data: str = shared.DATA_SET,
    reading: shared.ReadingOptions,
    part: str = DATA.option("Part of the data.", "test", choice("test", "train")),
    batch_size: int = DATA.option("Examples at once.", 512),
    common: shared.CommonOptions,
) -> None:
    """Evaluate a network: accuracy, top-5 accuracy, loss and calibration, and class by class.

    With --json the confusion matrix comes along: a row per label, a column per prediction.

    Example: vinets evaluate out/small --data digits

    A network of your own is named again, because opening a folder runs no file.

    Example: vinets evaluate out/small@net.py:MyNet --data digits
    """
    from vinets.measure import evaluate as measure
    from vinets.measure.doubt import doubt_accuracy

    device = common.start()
    opened, split = shared.open_data(net, data, reading, common)
    source = split.test if part == "test" else split.train
    classes = list(opened.classes or source.classes)
    with common.progress() as progress:
        progress.start(f"evaluating {opened.name}", len(source))
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
        known = evaluation.confusion, opened.stated, device
        doubt = doubt_accuracy(opened.name, opened.network, source, *known)
    if doubt is not None:
        warnings.warn(doubt, stacklevel=2)
    facts = {"network": net, "data": data, "part": part, "classes": classes}
    told = evaluation.to_dict() | {"skipped": split.skipped, "guessed": opened.guessed}
    common.show(facts | told, evaluation.table, evaluation.by_class)


@takes(without="warmup")
def bench(
    nets: list[str] = argument(
        "Folders of vinets build or vinets train, files of vinets export (.onnx), or names: "
        "resnet18."
    ),
    *,
    shape: tuple[int, ...] | None = shared.SHAPE,
    batch_sizes: tuple[int, ...] = RUNNING.option(
        "Examples at once, with commas in between.", (1, 32, 256), shared.SIZES, shown="1,32,256"
    ),
    windows: WindowOptions,
    formats: FormatOptions,
    compile: bool = RUNNING.option("Use torch.compile.", False),
    common: shared.CommonOptions,
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

    common.start()
    opened, example = open_side_by_side(nets, shape)
    with common.progress() as progress:
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
    common.show(comparison.to_dict(), comparison.speed_table, comparison.size_table)


@takes(without="weights classes model_option split_seed")
def predict(
    net: str = argument(
        "A folder of vinets build or vinets train, or a network of the package: "
        f"{', '.join(pretrained.names())}."
    ),
    paths: list[str] | None = argument(
        "Images, and folders of images.",
        None,
        shown="the picture that comes with the network, where one does",
    ),
    *,
    top: int = OUTPUT.option("Classes to show.", 3),
    batch_size: int = RUNNING.option("Images at once.", 64),
    reading: shared.ReadingOptions,
    common: shared.CommonOptions,
) -> None:
    """Classify images: the most probable classes of each.

    Images are turned upright as EXIF says, and resized and normalised as the network knows it from
    its training.

    Example: vinets predict out/small holiday.png --top 5

    Example: vinets predict vinets/digits-cnn-products
    """
    from vinets.core.checks import counted
    from vinets.data.folders import image_files
    from vinets.networks.open import open_network
    from vinets.report import Column, Table
    from vinets.runs.on_data import predict_images, told_reading

    device, told = common.start(), reading.keywords()
    opened = told_reading(open_network(net), told)
    own = pretrained.example(net) if pretrained.is_name(net) and not paths else None
    if not (paths := paths or ([str(own)] if own else [])):
        raise ValueError(f"Pass an image, or a folder of images: {net} comes without a picture.")
    files = [file for path in paths for file in image_files(Path(path))]
    with common.progress() as progress:
        predictions = predict_images(
            opened,
            files,
            top=top,
            batch_size=batch_size,
            skip_unreadable=told["skip_unreadable"],
            device=device,
            progress=progress,
        )
    if skipped := len(files) - len(predictions):
        common.note(f"{counted(skipped, 'unreadable file')} left out.")
    rows = [
        (one.path if rank == 0 else "", guess.name, guess.probability)
        for one in predictions
        for rank, guess in enumerate(one.classes)
    ]
    columns = [Column("image"), Column("class"), Column("probability", format=".2%")]
    table = Table.from_rows("predictions", f"What {opened.name} says", columns, rows)
    common.show({"network": net, "predictions": predictions, "skipped": skipped}, table)


@takes()
def export(
    net: str = argument("A folder of vinets build or vinets train, or a name with --weights."),
    *,
    out: Path = OUTPUT.option("File to write; it ends in {export suffixes}."),
    exporting: ExportOptions,
    shape: tuple[int, ...] | None = shared.SHAPE,
    data: str | None = DATA.option(
        "Measure accuracy on its test part, which float16 and int8 need: {data formats}.", None
    ),
    reading: shared.ReadingOptions,
    common: shared.CommonOptions,
) -> None:
    """Write a network, cut or whole, for other runtimes: ONNX or torch.export.

    The file takes batches of any size. It is run on the CPU and compared with the network, on
    the device, before it is put into place: its logits, and with --data its accuracy. A file that
    loses more than --most-lost is not written. ONNX, which OpenVINO reads as well, needs the extra
    'onnx'.

    Example: vinets export out/small --out small.onnx --format onnx-int8 --data digits
    """
    from vinets.core.checks import format_bytes
    from vinets.export import export_network
    from vinets.report import Table
    from vinets.runs.on_data import open_to_export

    device = common.start()
    network, split = open_to_export(net, data, shape, **reading.keywords())
    report = export_network(
        network, out, exporting=exporting, data=split, device=device, seed=common.seed
    )
    common.note(f"Written to {out}")
    row = {
        "format": report.format,
        "size": format_bytes(report.size),
        "largest difference": f"{report.largest_difference:.2g}",
        "at batch sizes": ", ".join(map(str, report.batch_sizes)),
    }
    if report.accuracy is not None and report.network_accuracy is not None:
        row |= {
            "test examples": f"{report.tested_on:,}",
            "network's accuracy": f"{report.network_accuracy:.2%}",
            "file's accuracy": f"{report.accuracy:.2%}",
            "Δ points": f"{100 * (report.accuracy - report.network_accuracy):+.2f}",
        }
    table = Table.from_rows("export", str(report.path), list(row), [list(row.values())])
    common.show(report.to_dict(), table)
