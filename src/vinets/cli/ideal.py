"""``vinets ideal``: polynomials that vanish on the points of a table."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vinets.cli.parameters import parameter, takes
from vinets.cli.shared import DATA, OUTPUT, CommonOptions, note, show
from vinets.core.options import Options, option, optional, text, whole
from vinets.core.settings import IdealOptions

if TYPE_CHECKING:
    from vinets.runs.point_ideals import IdealSummary

POINT_IDEALS = IdealOptions(psi=0.01, max_degree=3)


@dataclass(frozen=True)
class PointOptions(Options):
    """What is taken from a table of points."""

    panel = DATA
    label: str | None = option(
        None,
        optional(text()),
        "Column of classes, by name or number: one ideal for each.",
        shown=None,
    )
    scale: str = option("minmax", text(), "minmax (every variable to [-1, 1]) or none.")
    samples: int | None = option(None, optional(whole()), "Points to draw for a fit.", shown="all")


@takes()
def ideal(
    file: Annotated[Path, parameter(None, "A CSV file, a header is optional, or .npy.")],
    /,
    *,
    table: PointOptions,
    options: IdealOptions = POINT_IDEALS,
    first: Annotated[int, parameter(OUTPUT, "Generators to print of every ideal.", whole(0))] = 10,
    everything: Annotated[bool, parameter(OUTPUT, "Print all generators.", None, "--all")] = False,
    out: Annotated[
        Path | None,
        parameter(
            OUTPUT,
            "Save the generators, in scaled variables: FILE.safetensors, or "
            "FILE-CLASS.safetensors with --label.",
        ),
    ] = None,
    common: CommonOptions,
) -> None:
    """Find polynomials that nearly vanish on points, and print them.

    |G| is the number of generators, |O| that of the terms no combination of which vanishes. The
    polynomials are printed in the columns as they are. They are found with every column scaled to
    [-1, 1], where psi has its meaning; coefficients below 1e-9 of the largest are not printed.

    Example: vinets ideal points.csv --psi 0.001 --max-degree 2

    Example: vinets ideal iris.csv --label species --json
    """
    from vinets.data.points import read_points
    from vinets.ideals.base import NoGeneratorsWarning
    from vinets.ideals.choose import make_ideal
    from vinets.runs.point_ideals import fit_points

    if out is not None and out.suffix != ".safetensors":
        raise ValueError(f"--out must end in .safetensors. Got {str(out)!r} instead.")
    model = make_ideal(
        options, max_degree=options.max_degree, n_samples=table.samples, random_state=common.seed
    )
    points = read_points(file, table.label)
    noted: set[str] = set()

    def tell(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        # once, and not that nothing was found, which is said on stdout
        if str(message) not in noted and not issubclass(category, NoGeneratorsWarning):
            noted.add(str(message))
            note(f"Note: {message}", common.quiet)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = tell
        fitted = fit_points(points, model, table.scale, common.device)
    if out is not None:
        fitted.save(out)
    summaries = fitted.summaries(None if everything or common.json else first)
    facts = {"file": str(file), "algorithm": type(model).__name__, "psi": options.psi}
    facts |= {"variables": points.names, "scaling": fitted.scaling, "ideals": summaries}
    if not show(common, facts):
        return
    for summary in summaries:
        print("\n".join(_lines(summary)))
    if fitted.scaling is not None:
        note(
            "Found with variables scaled to [-1, 1], printed in those of the file; --scale none "
            "finds them without scaling.",
            common.quiet,
        )


def _lines(summary: IdealSummary) -> list[str]:
    """Return what is printed of an ideal: its size, and generators with their mean squares."""
    degrees = ", ".join(f"{n} of degree {d}" for d, n in summary.degrees.items())
    heading = "" if summary.label is None else f"{summary.label}: "
    lines = [
        f"{heading}|G| = {summary.n_generators}, |O| = {summary.n_terms}; {summary.points} "
        f"points, {summary.seconds:.3g} s" + (f"; {degrees}" if degrees else "")
    ]
    if not summary.n_generators:
        return [*lines, "  nothing vanishes: raise --psi or --max-degree"]
    pairs = zip(summary.generators, summary.mean_squares, strict=False)  # the first ones
    shown = [f"  {text}   (mean square {value:.2g})" for text, value in pairs]
    left = summary.n_generators - len(shown)
    return [*lines, *shown, *([f"  ... and {left} more; --all prints them"] if left else [])]
