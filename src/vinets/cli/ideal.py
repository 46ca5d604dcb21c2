"""``vinets ideal``: polynomials that vanish on the points of a table."""

from __future__ import annotations

import warnings
from pathlib import Path

from vinets.cli.parameters import DATA, OUTPUT, argument, takes
from vinets.cli.shared import CommonOptions
from vinets.core.options import whole
from vinets.core.settings import IdealOptions


@takes()
def ideal(
    file: Path = argument("A CSV file, a header is optional, or .npy."),
    *,
    label: str | None = DATA.option("Column of classes, by name or number: one ideal each.", None),
    scale: str = DATA.option("minmax (every variable to [-1, 1]) or none.", "minmax"),
    samples: int | None = DATA.option("Points to draw for a fit.", None, shown="all"),
    options: IdealOptions = IdealOptions(psi=0.01, max_degree=3),
    first: int = OUTPUT.option("Generators to print of every ideal.", 10, whole(0)),
    everything: bool = OUTPUT.option("Print all generators.", False, flag="--all"),
    out: Path | None = OUTPUT.option(
        "Save the generators, in scaled variables: FILE.safetensors, or FILE-CLASS.safetensors "
        "with --label.",
        None,
    ),
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
    from vinets.ideals.classwise import make_ideal
    from vinets.runs.point_ideals import fit_points

    if out is not None and out.suffix != ".safetensors":
        raise ValueError(f"--out must end in .safetensors. Got {str(out)!r} instead.")
    model = make_ideal(
        options, max_degree=options.max_degree, n_samples=samples, random_state=common.seed
    )
    points = read_points(file, label)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", NoGeneratorsWarning)  # which is said on stdout
        fitted = fit_points(points, model, scale, common.device)
    for text in dict.fromkeys(str(one.message) for one in told):
        common.note(f"Note: {text}")
    if out is not None:
        fitted.save(out)
    summaries = fitted.summaries(None if everything or common.json else first)
    facts = {"file": file, "algorithm": type(model).__name__, "psi": options.psi}
    facts |= {"variables": points.names, "scaling": fitted.scaling, "ideals": summaries}
    if not common.show(facts):
        return
    for one in summaries:
        degrees = "; " * bool(one.degrees)
        degrees += ", ".join(f"{n} of degree {d}" for d, n in one.degrees.items())
        print(
            f"{'' if one.label is None else f'{one.label}: '}|G| = {one.n_generators}, "
            f"|O| = {one.n_terms}; {one.points} points, {one.seconds:.3g} s{degrees}"
        )
        for text, square in zip(one.generators, one.mean_squares, strict=False):  # the first ones
            print(f"  {text}   (mean square {square:.2g})")
        if not one.n_generators:
            print("  nothing vanishes: raise --psi or --max-degree")
        elif left := one.n_generators - len(one.generators):
            print(f"  ... and {left} more; --all prints them")
    if fitted.scaling is not None:
        common.note(
            "Found with variables scaled to [-1, 1], printed in those of the file; --scale none "
            "finds them without scaling."
        )
