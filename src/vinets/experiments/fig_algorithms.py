"""ABM, OAVI with conditional gradients and OAVI with accelerated gradients over the cuts."""

from __future__ import annotations

from typing import Any

from vinets.experiments.backbones import RESNET34
from vinets.experiments.fig_pruning import ALGORITHMS, pruned_run
from vinets.experiments.plan import REMOVED, Experiment, Plan, accuracy_figure, line
from vinets.experiments.runs import Run, Store
from vinets.report.values import Axis, Figure

__all__ = ["FIG_ALGORITHMS"]

TEXT = (
    "Nothing is pruned, but for OAVI at early cuts, where only the best 150,000 polynomials fit "
    "into a head. Coefficients are retrained, so the algorithms differ in the monomials and in "
    "where training starts.",
)


def runs(plan: Plan) -> list[Run]:
    """Trainings that the figure on pruning has, too."""
    if RESNET34 not in plan.chosen:
        return []
    return [
        pruned_run(RESNET34.name, cut, algorithm, 0.0)
        for cut in plan.cuts(RESNET34)
        for algorithm in ALGORITHMS
    ]


def result(plan: Plan, store: Store) -> dict[str, Any]:
    if RESNET34 not in plan.chosen:
        return {"text": TEXT}
    found = {
        name: {
            cut: [store.read(pruned_run(RESNET34.name, cut, algorithm, 0.0))]
            for cut in plan.cuts(RESNET34)
        }
        for algorithm, name in ALGORITHMS.items()
    }
    counts = [
        line(name, [(100 * one["removed"], one["polynomials"], cut) for cut, (one,) in own.items()])
        for name, own in found.items()
    ]
    sizes_axis = Axis("polynomials", log=True, format=",.0f")
    title = f"{RESNET34.caption}: polynomials in the head"
    figures = (
        accuracy_figure("algorithms", f"{RESNET34.caption}: accuracy", found),
        Figure("algorithms-size", title, REMOVED, sizes_axis, tuple(counts)),
    )
    return {"text": TEXT, "figures": figures}


FIG_ALGORITHMS = Experiment(
    "fig-algorithms",
    "Three algorithms over the cuts",
    "Figure on the algorithms, CIFAR-100",
    runs,
    result,
)
