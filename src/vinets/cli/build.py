"""``vinets build``: from a classifier to a VI-Net."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vinets.cli.build_options import (
    Augment,
    Baselines,
    BatchSize,
    ChannelsLast,
    Components,
    Cut,
    Distill,
    Epochs,
    HeadDegree,
    Keep,
    LatentBatch,
    LatentFolder,
    LearningRate,
    LinearPath,
    MemoryLimit,
    Monomials,
    Pca,
    PerClass,
    Placement,
    Pool,
    Precision,
    PresetName,
    ProjectionOrder,
    Read,
    Schedule,
    Score,
    Sparse,
    Temperature,
    TimedBatch,
    TrainProjection,
    Validation,
    Views,
    WeightDecay,
    Windows,
    WindowSeconds,
)
from vinets.cli.options import (
    OUTPUT,
    Algorithm,
    Border,
    Clip,
    Data,
    Device,
    Json,
    Normalization,
    Oracle,
    Psi,
    Quiet,
    Seed,
    Size,
    SplitSeed,
    Tau,
    VariableOrder,
    Weights,
    option,
)
from vinets.cli.output import note, print_json, print_table, watching

if TYPE_CHECKING:
    from vinets.models import Preset

__all__ = ["build"]


def build(
    data: Data,
    out: Annotated[Path, option(OUTPUT, "--out", help="Folder for the VI-Net and its results.")],
    model: Annotated[
        str | None,
        typer.Argument(
            help="A folder of vinets train, or the name of a network with --weights.",
            show_default="the network of the preset",
        ),
    ] = None,
    weights: Weights = None,
    size: Size = None,
    split_seed: SplitSeed = 0,
    cut: Cut = None,
    preset_name: PresetName = None,
    per_class: PerClass = "512",
    read: Read = "auto",
    pool: Pool = None,
    channels_last: ChannelsLast = False,
    latent_batch: LatentBatch = 256,
    memory_limit: MemoryLimit = 4.0,
    latents: LatentFolder = None,
    placement: Placement = "global",
    components: Components = None,
    order: ProjectionOrder = "tanh-pca",
    pca: Pca = "auto",
    train_projection: TrainProjection = False,
    keep: Keep = None,
    monomials: Monomials = None,
    score: Score = "separation",
    sparse: Sparse = False,
    linear_path: LinearPath = 0,
    algorithm: Algorithm = "abm",
    psi: Psi = 0.1,
    max_degree: HeadDegree = None,
    normalization: Normalization = None,
    border: Border = None,
    variable_order: VariableOrder = None,
    oracle: Oracle = None,
    tau: Tau = None,
    epochs: Epochs = 20,
    batch_size: BatchSize = 256,
    learning_rate: LearningRate = 0.05,
    weight_decay: WeightDecay = None,
    schedule: Schedule = "cosine",
    clip: Clip = None,
    precision: Precision = "float32",
    validation: Validation = 0.1,
    augment: Augment = True,
    views: Views = None,
    distill: Distill = 0.0,
    temperature: Temperature = 2.0,
    baselines: Baselines = False,
    batch: TimedBatch = 256,
    repeats: Windows = 5,
    seconds: WindowSeconds = 0.5,
    seed: Seed = 0,
    device: Device = "auto",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Cut a network and put polynomials that vanish on its classes behind the cut.

    Finds the polynomials on latents of the training data, trains them together with a linear
    layer, and compares the result with the uncut network: accuracy on the test part, parameters,
    images per second. The VI-Net is saved in the folder, with results.json. The same command
    goes on where it was interrupted.

    Example: vinets build out/base --data digits --cut relu2 --out out/vinet

    Example: vinets build out/resnet18 --data cifar10:data --preset VI-Net18-Small --out out/small

    Where there is a map, --placement local --distill 0.7 is smaller and more accurate.
    """
    from vinets.cli.parsing import count_or_all, cut_of
    from vinets.ideals.choose import make_ideal
    from vinets.pipeline.build import usual_degree
    from vinets.pipeline.experiment import Timing, run_build
    from vinets.pipeline.opening import open_with_data, require_weights
    from vinets.training import Recipe

    chosen = _chosen(preset_name, cut, model)
    local = placement == "local"
    sizes = None if local else chosen  # those of the paper are for one vector an example
    options = _counts(sizes, components=components, keep=keep, monomials=monomials) | {
        "placement": placement,
        "order": order,
        "pca": pca,
        "train_projection": train_projection,
        "score": score,
        "sparse": sparse,
        "linear_path": linear_path,
        "per_class": count_or_all("--per-class", per_class),
        "read": read,
        "pool": pool,
        "channels_last": channels_last,
        "batch_size": latent_batch,
        "memory_limit": int(memory_limit * 2**30),
        "directory": latents,
    }
    ideal = make_ideal(
        algorithm,
        psi,
        max_degree if max_degree is not None else usual_degree(placement, options["n_components"]),
        normalization=normalization,
        border=border,
        variable_order=variable_order,
        oracle=oracle,
        tau=tau,
    )
    recipe = Recipe(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay if weight_decay is not None else 2e-3 if local else 5e-4,
        schedule=schedule,
        clip=clip,
        precision=precision,
        validation=validation,
        augment=augment,
        distillation=distill,
        temperature=temperature,
        seed=seed,
    )
    spec = model if model is not None else chosen.backbone if chosen is not None else ""
    opened, split = open_with_data(spec, data, weights=weights, split_seed=split_seed, size=size)
    require_weights(opened)
    if opened.is_cut:
        raise ValueError(f"{spec} is cut already. Pass the network that it was made from.")
    _check_preset(chosen, opened.architecture)
    place = cut_of(cut) if cut is not None else chosen.cut if chosen is not None else ""
    with watching(quiet) as progress:
        results = run_build(
            opened.network,
            split,
            place,
            out,
            ideal=ideal,
            options=options,
            recipe=recipe,
            views=views,
            with_baselines=baselines,
            timing=Timing(batch, repeats, seconds),
            device=device,
            seed=seed,
            command=["vinets", *sys.argv[1:]],
            on_build=lambda report: note(str(report), quiet),
            progress=progress,
        )
    if json:
        print_json(results)
        return
    _show(results)
    note(f"Saved in {out}. Next: vinets evaluate {out} --data {data}", quiet)


def _chosen(name: str | None, cut: str | None, model: str | None) -> Preset | None:
    """The preset, or None; raise where something is missing without one."""
    from vinets.models import preset

    if name is not None:
        return preset(name)
    if cut is None:
        raise ValueError("Pass --cut, such as --cut 50% (see vinets cuts MODEL), or --preset.")
    if model is None:
        raise ValueError("Pass MODEL, a folder or the name of a network, or --preset.")
    return None


def _check_preset(chosen: Preset | None, architecture: str | None) -> None:
    if chosen is not None and architecture not in (None, chosen.backbone):
        raise ValueError(
            f"{chosen.name} is a {chosen.backbone}, and the network given is a {architecture}. "
            "Pass --cut in place of --preset."
        )


def _counts(chosen: Preset | None, **given: str | None) -> dict[str, Any]:
    """Components, polynomials and monomials: as given, of the preset, or automatic."""
    from vinets.cli.parsing import count_or_all, share_or_count

    readers = {"components": count_or_all, "keep": share_or_count, "monomials": count_or_all}
    counts: dict[str, Any] = dict.fromkeys(readers, "auto")
    if chosen is not None:
        counts["components"] = chosen.n_components
        counts["keep"] = chosen.generators_per_class
        counts["monomials"] = chosen.monomials
    for name, text in given.items():
        if text is not None:
            counts[name] = readers[name](f"--{name}", text)
    counts["n_components"] = counts.pop("components")
    return counts


def _show(results: dict[str, Any]) -> None:
    """Two tables, for one would be too wide. Seconds are those to build and to train."""
    uncut, rows = results["uncut"], results["rows"]
    columns = ["network", "accuracy", "Δ", "parameters", "head", "images/s"]
    print_table(columns, [_row(row, uncut["accuracy"]) for row in [uncut, *rows]])
    parts = list(dict.fromkeys(part for row in rows for part in row["parts"]))
    numbers = [
        [
            row["name"],
            *(_shown(row["parts"].get(part), ",") for part in parts),
            f"{(row['seconds_build'] or 0) + row['seconds_train']:.1f}",
        ]
        for row in rows
    ]
    print_table(["network", *parts, "seconds"], numbers)


def _row(row: dict[str, Any], reference: float) -> list[str]:
    return [
        row["name"],
        f"{row['accuracy']:.2%}",
        f"{100 * (row['accuracy'] - reference):+.2f}",
        f"{row['parameters']:,}",
        _shown(row.get("parameters_head"), ","),
        f"{row['images_per_second']:,.0f} ± {row['images_per_second_std']:,.0f}",
    ]


def _shown(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
