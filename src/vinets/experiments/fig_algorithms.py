"""ABM, OAVI with conditional gradients and OAVI with accelerated gradients over the cuts."""

from __future__ import annotations

from vinets.experiments.backbones import RESNET34
from vinets.experiments.fig_pruning import ALGORITHMS, pruned_trial
from vinets.experiments.plan import (
    REMOVED,
    Experiment,
    Findings,
    Key,
    Plan,
    Results,
    accuracy_figure,
    line,
    part,
    share,
)
from vinets.pipeline.trial import Trial
from vinets.report.values import Axis, Figure

__all__ = ["FIG_ALGORITHMS"]

TEXT = (
    "Nothing is pruned, but for OAVI at early cuts, where only the best 150,000 polynomials fit "
    "into a head. Coefficients are retrained, so the algorithms differ in the monomials and in "
    "where training starts.",
)


def _planned(plan: Plan) -> dict[Key, Trial]:
    """Trainings that the figure on pruning has, too."""
    return {
        (name, cut): pruned_trial(plan, RESNET34, cut, algorithm, 0.0)
        for cut in plan.cuts(RESNET34)
        for algorithm, name in ALGORITHMS.items()
    }


def _finding(plan: Plan, found: Results) -> Findings:
    if not found:
        return Findings(TEXT)
    sizes = [
        line(
            name,
            ((share(r), r.trained.polynomials or 0, c) for (c,), r in part(found, name).items()),
        )
        for name in ALGORITHMS.values()
    ]
    title = f"{RESNET34.caption}: polynomials in the head"
    count = Axis("polynomials", log=True, format=",.0f")
    figures = (
        accuracy_figure("algorithms", f"{RESNET34.caption}: accuracy", found),
        Figure("algorithms-size", title, REMOVED, count, tuple(sizes)),
    )
    return Findings(TEXT, figures=figures)


FIG_ALGORITHMS = Experiment(
    "fig-algorithms",
    "Three algorithms over the cuts",
    "Figure on the algorithms, CIFAR-100",
    8,
    _planned,
    _finding,
)
