"""What the paper says of its experiments, claim by claim, held against the results here."""

from __future__ import annotations

from vinets.experiments.claim_rules import ALL, Evidence
from vinets.experiments.fig_algorithms import FIG_ALGORITHMS
from vinets.experiments.fig_baselines import FIG_BASELINES
from vinets.experiments.fig_dimension import FIG_DIMENSION
from vinets.experiments.fig_generators import FIG_GENERATORS
from vinets.experiments.fig_monomials import FIG_MONOMIALS
from vinets.experiments.fig_pruning import FIG_PRUNING
from vinets.experiments.fig_truncation import FIG_TRUNCATION
from vinets.experiments.plan import Experiment, Findings, Key, Plan, Results, part
from vinets.experiments.table_efficiency import TABLE_EFFICIENCY
from vinets.experiments.table_generators import TABLE_GENERATORS
from vinets.pipeline.trial import Trial
from vinets.report.values import Column, Row, Table

__all__ = ["CLAIMS"]

SOURCES = (
    *(TABLE_GENERATORS, TABLE_EFFICIENCY, FIG_TRUNCATION, FIG_PRUNING, FIG_MONOMIALS),
    *(FIG_GENERATORS, FIG_ALGORITHMS, FIG_DIMENSION, FIG_BASELINES),
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
        (source.name, *key): trial
        for source in SOURCES
        for key, trial in source.planned(plan).items()
    }


def _finding(plan: Plan, found: Results) -> Findings:
    evidence = Evidence(plan, lambda source: source.finding(plan, part(found, source.name)))
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
