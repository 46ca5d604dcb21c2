"""ABM, OAVI with conditional gradients and OAVI with accelerated gradients over the cuts."""

from __future__ import annotations

from vinets.experiments.backbones import RESNET34
from vinets.experiments.fig_pruning import ALGORITHMS, pruned_trial
from vinets.experiments.plan import (
    REMOVED,
    Experiment,
    Findings,
    Plan,
    accuracy_figure,
    line,
    share,
)
from vinets.pipeline.store import Store
from vinets.pipeline.trial import Trial, TrialResult
from vinets.report.values import Axis, Figure

__all__ = ["FIG_ALGORITHMS"]

TEXT = (
    "Nothing is pruned, but for OAVI at early cuts, where only the best 150,000 polynomials fit "
    "into a head. Coefficients are retrained, so the algorithms differ in the monomials and in "
    "where training starts.",
)


def trials(plan: Plan) -> list[Trial]:
    """Trainings that the figure on pruning has, too."""
    if RESNET34 not in plan.chosen:
        return []
    return [
        pruned_trial(plan, RESNET34, cut, algorithm, 0.0)
        for cut in plan.cuts(RESNET34)
        for algorithm in ALGORITHMS
    ]


def findings(plan: Plan, store: Store) -> Findings:
    if RESNET34 not in plan.chosen:
        return Findings(TEXT)
    found = {
        name: {
            cut: [store.read(pruned_trial(plan, RESNET34, cut, algorithm, 0.0))]
            for cut in plan.cuts(RESNET34)
        }
        for algorithm, name in ALGORITHMS.items()
    }
    counts = [
        line(name, [(share(one), _polynomials(one), cut) for cut, (one,) in own.items()])
        for name, own in found.items()
    ]
    sizes_axis = Axis("polynomials", log=True, format=",.0f")
    title = f"{RESNET34.caption}: polynomials in the head"
    figures = (
        accuracy_figure("algorithms", f"{RESNET34.caption}: accuracy", found),
        Figure("algorithms-size", title, REMOVED, sizes_axis, tuple(counts)),
    )
    return Findings(TEXT, figures=figures)


def _polynomials(result: TrialResult) -> int:
    return result.trained.polynomials or 0


FIG_ALGORITHMS = Experiment(
    "fig-algorithms",
    "Three algorithms over the cuts",
    "Figure on the algorithms, CIFAR-100",
    8,
    trials,
    findings,
)
