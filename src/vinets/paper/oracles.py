"""What the oracles of OAVI do on CIFAR-100, and whether that matters for the accuracy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vinets.models.networks import SIZES
from vinets.paper.accuracy import ALGORITHMS, ORACLE_COLUMNS, oracle_row
from vinets.paper.backbones import Backbone
from vinets.paper.evidence import Judged, count
from vinets.paper.level import level
from vinets.paper.plan import Experiment, Findings, Plan, Results, Trials, part
from vinets.report.values import Column, Row, Table

KEEP, FEW = 8, 1
"""Polynomials that stay of every class, and how many of these after further pruning."""

ALGORITHM_NAMES = ("abm", "cg", "agd", "cg-gap", "agd-gap")
UNIT_RULE = "ABM, unit rule"

SETTINGS: dict[str, dict[str, Any]] = {
    "resnet34": {
        **SIZES["resnet34"],
        **{"scale": "unit", "normalization": "leading", "monomials": None},
        # The coefficients stay as the oracle found them: the classifier alone is trained.
        **{"trained": "classifier", "augment": False, "views": 1, "dtype": "float32"},
        **{"precision": "float32", "detailed": True},
    }
}
"""Changes to the settings of the figures, by the name of the network; others have no such table."""

COLUMNS = (
    *ORACLE_COLUMNS[:2],
    Column("few", f"{FEW} a class, %", ".2f"),
    *ORACLE_COLUMNS[2:],
)
CLAIM_COLUMNS = (
    Column("claim", "the paper says"),
    Column("found", "here"),
    Column("verdict", "holds", better="yes"),
)
TEXT = (
    "Variables are tanh of 128 principal components of unit variance, ψ = 0.1, degree 5. Of every "
    f"class the {KEEP} polynomials with the highest score stand in the head, and {FEW} of them in "
    "the third column. Their coefficients stay as they were found, so that what an oracle does is "
    "what is tested; the classifier behind them is the minimiser of its loss.",
    "ABM decides by the leading rule, as OAVI does, or by the unit rule. Conditional gradients "
    "(CG) start at a vertex of the ball, accelerated gradients (AGD) at its centre, and both stop "
    "as soon as a polynomial vanishes or provably cannot, as the authors' do; the rows with a gap "
    "go on until the mean square is proved to be within 0.01 ψ of the smallest, or 10,000 steps "
    "are done. The ball has the radius τ - 1 = 999.",
)


def _algorithms() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the settings of every algorithm, ABM first."""
    for name in ALGORITHM_NAMES:
        yield ALGORITHMS[name]
        if name == "abm":
            yield UNIT_RULE, {"normalization": "unit"}


def _planned(plan: Plan) -> Trials:
    found: Trials = {}
    for backbone in plan.chosen:
        settings = SETTINGS.get(backbone.name)
        for cut in plan.cuts(backbone, tuple(backbone.variants.values())) if settings else ():
            for name, algorithm in _algorithms():
                changes = (settings or {}) | algorithm
                key = backbone, cut, name
                # Trials of one algorithm follow each other, so that its ideals are found once.
                found[*key, None] = plan.trial(backbone, cut, "ideals", **changes)
                for keep in (KEEP, FEW):
                    found[*key, keep] = plan.trial(backbone, cut, **(changes | {"keep": keep}))
    return found


def _finding(plan: Plan, found: Results) -> Findings:
    rows, claims = [], []
    for backbone in plan.chosen:
        own = part(found, backbone)
        for cut, name, keep in own:
            if keep is not None:
                continue
            row = oracle_row(name, cut, own[cut, name, None], own[cut, name, KEEP])
            few = {"few": 100 * own[cut, name, FEW].trained.accuracy}
            rows.append(Row({**row.values, **few}, section=f"{backbone.caption}, {cut}"))
        if own:
            claims += [
                Row({"claim": claim, "found": text, "verdict": verdict}, section=backbone.caption)
                for claim, text, verdict in _claims(backbone, own)
            ]
    tables = [Table("oracles-cuts", "What the oracles did", COLUMNS, tuple(rows))]
    if not plan.quick:  # a quick run judges nothing
        tables.append(Table("oracles-claims", "Claims on OAVI", CLAIM_COLUMNS, tuple(claims)))
    return Findings(TEXT, tuple(tables))


def _claims(backbone: Backbone, own: Results) -> Iterator[Judged]:
    """Judge what the paper says of OAVI by the rule for *level*, cut by cut."""
    cuts = list(dict.fromkeys(cut for cut, *_ in own))
    abm, _, *oavi = (name for name, _ in _algorithms())

    def trained(name: str, cut: str, keep: int) -> list[Any]:
        return [own[cut, name, keep].trained]

    words = [
        level(trained(abm, cut, KEEP), trained(name, cut, KEEP)).word
        for name in oavi
        for cut in cuts
    ]
    text = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    text = f"ABM against {len(oavi)} rows of OAVI at {len(cuts)} cuts: {text}"
    yield "similar accuracy (level)", text, count(word == "level" for word in words)
    yield "ABM is slightly ahead", text, count(word == "ahead" for word in words)

    def loss(name: str, cut: str) -> float:
        few, most = (own[cut, name, keep].trained.accuracy for keep in (FEW, KEEP))
        return 100 * (most - few)

    losses = {name: [loss(name, cut) for cut in cuts] for name in (abm, *oavi)}
    text = ", ".join(f"{name} {sum(values) / len(values):.2f}" for name, values in losses.items())
    holds = count(
        theirs < ours
        for name in oavi
        for ours, theirs in zip(losses[abm], losses[name], strict=True)
    )
    claim = f"OAVI depends less on pruning ({KEEP} to {FEW} polynomials a class) than ABM"
    yield claim, f"mean loss in points: {text}", holds


Experiment(
    "table-oracles",
    "Oracles that take steps",
    "Figures on pruning and on the algorithms, CIFAR-100",
    8.5,
    _planned,
    _finding,
)
