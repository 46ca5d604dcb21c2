"""What the paper says of its experiments, claim by claim, held against the results here."""

from __future__ import annotations

from dataclasses import dataclass

from vinets.experiments import claim_rules as rules
from vinets.experiments.backbones import RESNET18, RESNET34, Backbone
from vinets.experiments.claim_rules import SOURCES, ClaimRule, Results
from vinets.experiments.plan import Experiment, Findings, Plan
from vinets.pipeline.store import Store
from vinets.pipeline.trial import Trial
from vinets.report.values import Column, Row, Table

__all__ = ["ALL", "CLAIMS", "Claim"]

COLUMNS = (
    Column("where", "in the paper"),
    Column("claim", "it says"),
    Column("found", "here"),
    Column("verdict", "holds", better="yes"),
)
TEXT = (
    "Our words for what the paper says of each table and figure, what the same experiment gave "
    "here, and whether it agrees; what its words leave open is in brackets behind them. Numbers "
    "in brackets in the third column are the paper's. Four numbers are those of Tiny, Small, "
    "Medium and Large.",
)
ONE, TWO, CUT, PRUNED = "Table 1", "Table 2", "Truncation", "Pruning"
OURS = "not in the paper"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper in our words, the networks it is about, and how to check it."""

    where: str
    text: str
    rule: ClaimRule
    about: tuple[Backbone, ...] = (RESNET18, RESNET34)


SMALL, LARGE = (RESNET18,), (RESNET34,)
ALL = (
    Claim(ONE, "earlier cuts give more (rank correlation over 0.7)", rules.earlier_cuts_give_more),
    Claim(ONE, "numbers of monomials and polynomials (to a tenth)", rules.counts_agree),
    Claim(ONE, "seconds", rules.seconds_compare),
    Claim(TWO, "parameters of the truncated networks", rules.parameters_agree("base")),
    Claim(TWO, "parameters of the heads", rules.parameters_agree("head")),
    Claim(TWO, "what a cut does to accuracy (to 1 point)", rules.changes_agree),
    Claim(TWO, "VI-Nets match the uncut network (to 1 point)", rules.variants_match),
    Claim(TWO, "VI-Nets are smaller than the uncut network", rules.variants_are_smaller),
    Claim(TWO, "VI-Nets are often faster than it", rules.variants_are_faster),
    Claim(CUT, "VI-Net is above random monomials at every cut", rules.above_random),
    Claim(CUT, "VI-Net is above a linear head (flat)", rules.above("linear head"), SMALL),
    Claim(
        CUT,
        "with at most 20 % removed a linear head is as good (to 0.5)",
        rules.linear_is_as_good,
        SMALL,
    ),
    Claim(
        CUT,
        "with at most 30 % removed random monomials are well below it (by over 1)",
        rules.random_is_worse,
        SMALL,
    ),
    Claim(
        CUT,
        "with half of the layers removed VI-Net is competitive (3 points at most)",
        rules.half_is_competitive,
        LARGE,
    ),
    Claim(
        CUT,
        "with many layers removed (over 40 %) it is above a linear head",
        rules.above_linear_heads,
        LARGE,
    ),
    Claim(
        PRUNED, "moderate pruning (50 %) costs less than a point", rules.moderate_pruning_is_cheap
    ),
    Claim(
        PRUNED,
        "extreme pruning (99 %) hurts more at early cuts, most at the first",
        rules.extreme_pruning_hurts_early,
    ),
    Claim(PRUNED, "OAVI depends less on it (99 %) than ABM", rules.oavi_depends_less, LARGE),
    Claim(
        "Monomials",
        "pruning (99 %) leaves fewer than 128 with 20 to 50 % removed",
        rules.pruning_leaves_few_monomials,
        LARGE,
    ),
    Claim("Algorithms", "similar accuracy (to 2 points)", rules.algorithms_are_similar, LARGE),
    Claim("Algorithms", "ABM is slightly ahead", rules.abm_is_ahead, LARGE),
    Claim(
        "Generators",
        "earlier layers give more (rank correlation below −0.7)",
        rules.earlier_layers_give_more,
        LARGE,
    ),
    Claim(
        "Generators",
        "unusually many monomials where residual blocks begin",
        rules.blocks_begin_with_more,
        LARGE,
    ),
    Claim(
        "Dimension",
        "monomials grow with it (correlation over 0.7)",
        rules.dimension_correlates,
        LARGE,
    ),
    Claim(OURS, "VI-Net is above an MLP of as many numbers", rules.above("MLP")),
    Claim(
        OURS,
        "most of the gain over the same components is lost with random monomials",
        rules.random_above_components,
        LARGE,
    ),
)


def trials(plan: Plan) -> list[Trial]:
    """Those of all experiments of the paper."""
    return [trial for source in SOURCES for trial in source.trials(plan)]


def findings(plan: Plan, store: Store) -> Findings:
    results = Results(plan, store)
    rows = []
    for backbone in plan.chosen:
        for claim in ALL:
            if backbone in claim.about:
                found, verdict = claim.rule(results, backbone)
                values = {"where": claim.where, "claim": claim.text}
                values |= {"found": found, "verdict": verdict}
                rows.append(Row(values, section=backbone.caption))
    return Findings(TEXT, (Table("claims", "Claims", COLUMNS, tuple(rows)),))


CLAIMS = Experiment("claims", "What holds", "all of its experiments", 1, trials, findings)
