"""``vinets ideal``: polynomials that vanish on the points of a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vinets.cli.generate import takes
from vinets.cli.options import DATA, OUTPUT, Common, option
from vinets.cli.output import note, print_json
from vinets.core.settings import IdealOptions

if TYPE_CHECKING:
    from vinets.runs.point_ideals import IdealSummary


@dataclass(frozen=True)
class PointOptions:
    """What is taken of a table of points."""

    label: Annotated[
        str | None, option(DATA, "Column of classes, by name or number: one ideal for each.")
    ] = None
    scale: Annotated[str, option(DATA, "minmax (every variable to [-1, 1]) or none.")] = "minmax"
    samples: Annotated[
        int | None, option(DATA, "Points to draw for a fit.", show_default="all", min=1)
    ] = None


@takes(table=PointOptions, finding=IdealOptions, common=Common)
def ideal(
    *,
    file: Annotated[Path, typer.Argument(help="A CSV file, a header is optional, or .npy.")],
    table: PointOptions,
    finding: IdealOptions = IdealOptions(psi=0.01, max_degree=3),  # noqa: B008 - frozen
    first: Annotated[int, option(OUTPUT, "Generators to print of every ideal.", min=0)] = 10,
    everything: Annotated[bool, option(OUTPUT, "Print all generators.", "--all")] = False,
    out: Annotated[
        Path | None,
        option(
            OUTPUT,
            "Save the generators, in scaled variables: FILE.safetensors, or "
            "FILE-CLASS.safetensors with --label.",
        ),
    ] = None,
    common: Common,
) -> None:
    """Find polynomials that nearly vanish on points, and print them.

    |G| is the number of generators, |O| that of the terms no combination of which vanishes. The
    polynomials are printed in the columns as they are. They are found with every column scaled to
    [-1, 1], where psi has its meaning; coefficients below 1e-9 of the largest are not printed.

    Example: vinets ideal points.csv --psi 0.001 --max-degree 2

    Example: vinets ideal iris.csv --label species --json
    """
    from vinets.data.points import read_points
    from vinets.ideals.choose import make_ideal
    from vinets.runs.point_ideals import fit_points

    if out is not None and out.suffix != ".safetensors":
        raise ValueError(f"--out must end in .safetensors. Got {str(out)!r} instead.")
    model = make_ideal(
        finding, max_degree=finding.max_degree, n_samples=table.samples, random_state=common.seed
    )
    points = read_points(file, table.label)
    with _warnings_as_notes(common.quiet):
        fitted = fit_points(points, model, table.scale, common.device)
    if out is not None:
        fitted.save(out)
    found = fitted.summaries(None if everything or common.json else first)
    if common.json:
        facts = {"file": str(file), "algorithm": type(model).__name__, "psi": finding.psi}
        told = {"variables": points.names, "scaling": fitted.scaling, "ideals": found}
        print_json(facts | told)
        return
    for summary in found:
        typer.echo("\n".join(_lines(summary)))
    if fitted.scaling is not None:
        note(
            "Found with variables scaled to [-1, 1], printed in those of the file; --scale none "
            "finds them without scaling.",
            common.quiet,
        )


@contextmanager
def _warnings_as_notes(quiet: bool) -> Iterator[None]:
    """Every warning once and at once, on stderr; that nothing was found is told on stdout."""
    from vinets.ideals.base import NoGeneratorsWarning

    told: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if str(message) not in told and not issubclass(category, NoGeneratorsWarning):
            told.add(str(message))
            note(f"Note: {message}", quiet)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def _lines(found: IdealSummary) -> list[str]:
    degrees = ", ".join(f"{n} of degree {d}" for d, n in found.degrees.items())
    heading = "" if found.label is None else f"{found.label}: "
    lines = [
        f"{heading}|G| = {found.n_generators}, |O| = {found.n_terms}; {found.points} "
        f"points, {found.seconds:.3g} s" + (f"; {degrees}" if degrees else "")
    ]
    if not found.n_generators:
        return [*lines, "  nothing vanishes: raise --psi or --max-degree"]
    pairs = zip(found.generators, found.mean_squares, strict=False)  # the first ones
    shown = [f"  {text}   (mean square {value:.2g})" for text, value in pairs]
    left = found.n_generators - len(shown)
    return [*lines, *shown, *([f"  ... and {left} more; --all prints them"] if left else [])]
