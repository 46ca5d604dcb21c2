"""``vinets ideal``: polynomials that vanish on the points of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vinets.cli.options import (
    DATA,
    OUTPUT,
    Algorithm,
    Border,
    Device,
    Json,
    MaxDegree,
    Normalization,
    Oracle,
    Psi,
    Seed,
    Tau,
    VariableOrder,
    option,
)
from vinets.cli.output import note, print_json, print_lines

if TYPE_CHECKING:
    from vinets.cli.points import Points
    from vinets.ideals.base import VanishingIdeal

__all__ = ["ideal"]


def ideal(
    file: Annotated[Path, typer.Argument(help="A CSV file, a header is optional, or .npy.")],
    label: Annotated[
        str | None,
        option(DATA, "--label", help="Column of classes, by name or number: one ideal for each."),
    ] = None,
    scale: Annotated[
        str, option(DATA, "--scale", help="minmax (every variable to [-1, 1]) or none.")
    ] = "minmax",
    algorithm: Algorithm = "abm",
    psi: Psi = 0.01,
    max_degree: MaxDegree = 3,
    normalization: Normalization = None,
    border: Border = None,
    variable_order: VariableOrder = None,
    oracle: Oracle = None,
    tau: Tau = None,
    first: Annotated[
        int, option(OUTPUT, "--first", help="Generators to print of every ideal.", min=0)
    ] = 10,
    everything: Annotated[bool, option(OUTPUT, "--all", help="Print all generators.")] = False,
    out: Annotated[
        Path | None,
        option(
            OUTPUT,
            "--out",
            help="Save the generators: FILE.safetensors, or FILE-CLASS.safetensors with --label.",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        option(DATA, "--samples", help="Points to draw for a fit.", show_default="all", min=1),
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Find polynomials that nearly vanish on points, and print them.

    |G| is the number of generators, |O| that of the terms no combination of which vanishes. The
    polynomials are in the scaled variables, and psi bounds their mean square there.

    Example: vinets ideal points.csv --psi 0.001 --max-degree 2

    Example: vinets ideal iris.csv --label species --json
    """
    from vinets.cli.ideals import make_ideal
    from vinets.cli.points import read_points

    if out is not None and out.suffix != ".safetensors":
        raise ValueError(f"--out must end in .safetensors. Got {str(out)!r} instead.")
    model = make_ideal(
        algorithm,
        psi,
        max_degree,
        normalization=normalization,
        border=border,
        variable_order=variable_order,
        oracle=oracle,
        tau=tau,
        n_samples=samples,
        random_state=seed,
    )
    points = read_points(file, label)
    fitted, scaling = _fitted(points, model, scale, device)
    count = None if everything or json else first
    found = [_facts(name, one, points.names, count) for name, one in fitted.items()]
    if out is not None:
        for name, one in fitted.items():
            one.generators_.save(_target(out, name))
    if json:
        facts = {"file": str(file), "algorithm": type(model).__name__, "psi": psi}
        facts |= {"variables": list(points.names), "scaling": scaling, "ideals": found}
        print_json(facts)
        return
    for entry in found:
        print_lines(_lines(entry))
    if scaling is not None:
        note("The variables are scaled to [-1, 1]; --json tells their ranges.")


def _fitted(
    points: Points, model: VanishingIdeal, scale: str, device: str
) -> tuple[dict[str | None, VanishingIdeal], dict[str, list[float]] | None]:
    """The ideal of every class, or of all points under None; and the ranges before scaling."""
    import warnings

    import torch

    from vinets.checks import one_of
    from vinets.ideals.base import NoGeneratorsWarning
    from vinets.ideals.classwise import fit_class_ideals
    from vinets.running import resolve_device

    one_of("vinets", "scale", scale, ("minmax", "none"))
    values, scaling = points.values, None
    if scale == "minmax":
        low, high = values.min(0), values.max(0)
        scaling = {"low": low.tolist(), "high": high.tolist()}
        spread = high - low
        values = 2 * (values - low) / (spread + (spread == 0)) - 1
    given = torch.from_numpy(values).to(resolve_device("vinets", device))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if points.labels is None:
            fitted: dict[str | None, VanishingIdeal] = {None: model.fit(given)}
        else:
            classes = fit_class_ideals(given, points.labels, model)
            fitted = {str(name): one for name, one in classes}
    for text in dict.fromkeys(
        str(w.message) for w in caught if not issubclass(w.category, NoGeneratorsWarning)
    ):
        note(f"Note: {text}")
    return fitted, scaling


def _facts(
    name: str | None, model: VanishingIdeal, variables: tuple[str, ...], count: int | None
) -> dict[str, Any]:
    """What there is to tell of an ideal, with its first ``count`` generators or all."""
    import numpy as np

    from vinets.algebra.polynomials import PolynomialSet

    report, generators = model.report_, model.generators_
    if isinstance(generators, PolynomialSet) and count is not None:
        generators = generators.select(np.arange(min(count, len(generators))))
    return {
        "label": name,
        "points": report.n_points,
        "n_terms": report.n_terms,
        "n_generators": report.n_generators,
        "degrees": {d.degree: d.generators for d in report.degrees if d.generators},
        "seconds": report.seconds,
        "generators": generators.strings(variables)[:count],
        "mean_squares": model.mean_squares_.tolist(),
    }


def _lines(entry: dict[str, Any]) -> list[str]:
    degrees = ", ".join(f"{n} of degree {d}" for d, n in entry["degrees"].items())
    heading = "" if entry["label"] is None else f"{entry['label']}: "
    lines = [
        f"{heading}|G| = {entry['n_generators']}, |O| = {entry['n_terms']}; {entry['points']} "
        f"points, {entry['seconds']:.3g} s" + (f"; {degrees}" if degrees else "")
    ]
    if not entry["n_generators"]:
        return [*lines, "  nothing vanishes: raise --psi or --max-degree"]
    pairs = zip(entry["generators"], entry["mean_squares"], strict=False)  # the first ones
    shown = [f"  {text}   (mean square {value:.2g})" for text, value in pairs]
    left = entry["n_generators"] - len(shown)
    return [*lines, *shown, *([f"  ... and {left} more; --all prints them"] if left else [])]


def _target(out: Path, name: str | None) -> Path:
    from vinets.files import slug

    return out if name is None else out.with_name(f"{out.stem}-{slug(name)}{out.suffix}")
