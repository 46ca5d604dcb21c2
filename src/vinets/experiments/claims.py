"""What the paper says of its experiments, claim by claim, held against the results here."""

from __future__ import annotations

from vinets.experiments.claim_rules import ALL, Evidence
from vinets.experiments.plan import EXPERIMENTS, Experiment, Findings, Key, Plan, Results, part
from vinets.pipeline.trial import Trial
from vinets.report.values import Column, Row, Table

__all__ = ["CLAIMS"]

SOURCES = (
    *("table-generators", "table-efficiency", "fig-truncation", "fig-pruning", "fig-monomials"),
    *("fig-generators", "fig-algorithms", "fig-dimension", "fig-baselines"),
)
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


def _planned(plan: Plan) -> dict[Key, Trial]:
    """The trials of all experiments of the paper."""
    return {
        (name, *key): trial
        for name in SOURCES
        for key, trial in EXPERIMENTS[name].planned(plan).items()
    }


def _finding(plan: Plan, found: Results) -> Findings:
    evidence = Evidence(plan, lambda name: EXPERIMENTS[name].finding(plan, part(found, name)))
    rows = []
    for backbone in plan.chosen:
        for claim in ALL:
            if backbone in claim.about:
                here, verdict = claim.rule(evidence, backbone)
                values = {"where": claim.where, "claim": claim.text}
                values |= {"found": here, "verdict": verdict}
                rows.append(Row(values, section=backbone.caption))
    return Findings(TEXT, (Table("claims", "Claims", COLUMNS, tuple(rows)),))


CLAIMS = Experiment("claims", "What holds", "all of its experiments", 1, _planned, _finding)
