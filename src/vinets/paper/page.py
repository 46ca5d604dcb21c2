"""The page of the experiments on digits, for a reader who has not read the paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from vinets.ideals.plot import plot_generators
from vinets.report.figures import can_draw
from vinets.report.formats import number
from vinets.report.results_page import experiment_section
from vinets.report.values import (
    Beside,
    Block,
    Code,
    Column,
    Drawing,
    ExperimentResult,
    Facts,
    Folded,
    Page,
    Row,
    Section,
    Table,
)

NEEDED = (
    *("fig-vanishing", "fig-kept", "fig-truncation", "fig-parameters", "claims"),
    "table-efficiency",
)
"""Experiments that the first screens are made of; without one of them there is no such page."""

IDEALS = (
    "In the latent space of a network, the images of one class lie near a curved surface. Such a "
    "surface satisfies polynomial equations: there are polynomials that are zero on it, and not "
    "elsewhere. All polynomials that vanish on a set of points form its vanishing ideal; because "
    "data are noisy, we look for polynomials whose mean square on the points is at most a small "
    "ψ, and keep generators of this approximate vanishing ideal. A VI-Net cuts a trained network "
    "at an inner layer, and puts the generators of every class there: their absolute values, and "
    "one linear layer, stand in place of the layers behind the cut."
)
READ = (
    "This is one of them. It was found on training images of the digit {label}, in the variables "
    "x0, x1, …: principal components of the latents, of unit variance, squashed into [−1, 1]. On "
    "test images its mean absolute value is smallest for that digit:"
)
PICTURE = (
    "A column for every polynomial of a VI-Net that is cut at {cut}, a row for every class of test "
    "images; dark is small. Each block of columns was found as generators of one class. Where only "
    "the linear layer W_F is trained, the polynomials stay as they were found. Training of the "
    "coefficients C moves them, unless the loss has a part that keeps them small on their class."
)
TRUNCATION = (
    "Each point is a network that is cut at one layer, from late cuts on the left to early ones "
    "on the right, with another head behind the cut. The backbone stays as it is. VI-Net, random "
    "monomials and the linear layer on components see the same variables; the flat linear layer "
    "and the MLP see all of the map."
)
LEVEL = (
    "Two networks are called level where the paired 95 % interval of the difference of their "
    "accuracies, over splits and test images, contains 0; else one of them is ahead."
)
NEXT = (
    "vinets build out/demo/uncut/digits-0 --data digits --cut pool --baselines --out out/vinet  "
    "# one VI-Net, with every other head next to it",
    "vinets compress out/demo/uncut/digits-0 --data digits --budget drop=0.5 --out out/small  "
    "# the smallest network that loses at most half a point, with product heads",
    "vinets reproduce all --data data --weights weights --out out/paper  "
    "# the same experiments on CIFAR-10 and CIFAR-100",
)


def can_show(results: Sequence[ExperimentResult]) -> bool:
    """Whether there are results for :func:`newcomers_page`."""
    complete = {one.experiment for one in results if not (one.missing or one.quick)}
    return complete.issuperset(NEEDED)


def newcomers_page(results: Sequence[ExperimentResult]) -> Page:
    """Make one page of the experiments on digits: what vanishes, what it gains, what holds.

    All tables and figures of the paper follow, an experiment each.
    """
    found = {one.experiment: one for one in results}
    truncation, claims = found["fig-truncation"], found["claims"]
    first = [
        Section("Every polynomial on every class", _vanishing(found["fig-kept"]), "kept"),
        Section(
            "Accuracy against removed layers",
            (TRUNCATION, *truncation.figures, LEVEL, Folded("Every comparison", truncation.tables)),
            "truncation",
        ),
        Section("Accuracy against parameters", found["fig-parameters"].figures, "parameters"),
        Section("The paper's claims", (*claims.text, *claims.tables), "claims"),
    ]
    shown = ("fig-kept", "fig-truncation", "fig-parameters", "claims")
    others = [experiment_section(one) for one in results if one.experiment not in shown]
    last = Section("What next", (Code("\n".join(NEXT)),), "next")
    versions = sorted({str(one.machine.get("vinets", "unknown")) for one in results})
    return Page(
        "Networks of vanishing polynomials, on handwritten digits",
        _lead(found["fig-vanishing"], found["table-efficiency"], claims),
        (*first, *others, last),
        f"Written by vinets report. Results of vinets {', '.join(versions)}.",
    )


def _lead(
    vanishing: ExperimentResult, efficiency: ExperimentResult, claims: ExperimentResult
) -> tuple[Block, ...]:
    """What a vanishing ideal is, three numbers, and one polynomial with its means."""
    measured = vanishing.tables[1].rows[-1].values
    *variants, uncut = efficiency.tables[0].rows
    best = max(variants, key=lambda row: float(row.values["accuracy"]))
    share = best.values["total"] / uncut.values["total"]
    verdicts = [str(row.values["verdict"]) for row in claims.tables[0].rows]
    facts = Facts(
        (
            (
                f"accuracy of {best.values['model']}",
                f"{number(best.values['accuracy'], '.2f')} %",
                f"the uncut network has {number(uncut.values['accuracy'], '.2f')} %; this one "
                f"stores {share:.0%} of its parameters",
            ),
            (
                "polynomials that are smallest on their own class",
                f"{measured['smallest_own']:.0%}",
                "on test images, after training",
            ),
            (
                "claims of the paper that hold here",
                f"{verdicts.count('yes')} of {len(verdicts)}",
                f"{verdicts.count('no')} do not, the others in part",
            ),
        )
    )
    said, _, polynomial = vanishing.text[1].partition(": p = ")
    label = said.rpartition(" ")[2]
    means = vanishing.figures[0].series[0].y
    columns = (Column("digit"), *(Column(str(k), format=".3f") for k in range(len(means))))
    values = {"digit": "mean of |p|"} | {str(k): value for k, value in enumerate(means)}
    table = Table("one", "On the test images of every digit", columns, (Row(values),))
    formula = Code(f"p = {polynomial.removesuffix('.')}")
    return IDEALS, facts, READ.format(label=label), formula, table


def _vanishing(kept: ExperimentResult) -> tuple[Block, ...]:
    """Pictures of polynomials times classes: as found, and after training with and without care."""
    rows = [row for row in kept.tables[0].rows if "means" in row.values]
    cut = (rows[-1].section or "").rpartition(", ")[2]
    rows = [row for row in rows if (row.section or "").endswith(f", {cut}")]
    wanted = {
        None: "as found, and with W_F alone trained",
        0: "C and W_F trained",
        1: "C and W_F trained, kept small",
    }
    drawings: list[Block] = []
    for weight, title in wanted.items():
        row = next((row for row in rows if row.values["weight"] == weight), None)
        if row is None or not can_draw():
            continue
        means = np.array([line.split() for line in row.values["means"]], dtype=float).T
        owners = np.array(row.values["owners"])
        ratio, right = number(row.values["ratio"], ".3f"), number(row.values["accuracy"], ".2f")
        drawings.append(
            Drawing(
                f"means-{len(drawings)}",
                f"Polynomials by class, {title}",
                f"{title}: {right} % right; mean on the own class {ratio} of that on the others",
                partial(plot_generators, means, owners, range(len(means))),
            )
        )
    pictures = (PICTURE.format(cut=cut), Beside(tuple(drawings))) if drawings else ()
    return (*pictures, *kept.text, *kept.tables, *kept.figures)
