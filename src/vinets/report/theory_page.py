"""What the theory says about a network and a cut, as a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from vinets.palette import GREY, OURS
from vinets.report.formats import number
from vinets.report.theory_charts import (
    draw_region,
    draw_shares,
    layers_figure,
    margins_figure,
    power,
)
from vinets.report.values import (
    Beside,
    Code,
    Column,
    Drawing,
    Fact,
    Facts,
    Page,
    Row,
    Section,
    Table,
    Value,
    facts_table,
)
from vinets.theory.advisor import Advice, power_of_ten
from vinets.theory.complexity import Complexity
from vinets.theory.generalisation import QUANTILES
from vinets.theory.networks import CutComplexity
from vinets.theory.studies import Corollary, Study

__all__ = ["MEANING", "corollary_sentence", "kappa_sentence", "theory_page"]

LAYER_COLUMNS = (
    Column("layer"),
    Column("role"),
    Column("cut"),
    Column("spectral", "‖W‖₂", ".4g"),
    Column("kernel", "kernel bound", ".4g"),
    Column("excess", "", ".2f×"),
    Column("two_one", "‖Wᵀ‖₂,₁", ".4g"),
    Column("lipschitz", "ρ", ".3g"),
    Column("share", "", ".1%"),
)
BOUND_COLUMNS = (
    Column("quantity"),
    Column("source"),
    Column("actual", "", ".4g"),
    Column("bound", "", ".4g"),
    Column("ratio", "", ".2g"),
    Column("holds", better="yes"),
)
MEANING = (
    "The spectral complexity R of a network is the product of the spectral norms ‖W‖₂ of its "
    "layers and of the Lipschitz constants ρ behind them, times (Σ(‖Wᵀ‖₂,₁ / ‖W‖₂)^⅔)^(3/2). "
    "Margin bounds on the error of a classifier grow with R, so of two networks with the same "
    "margins, they favour the one with the smaller R."
)
NORMS = (
    "Norms are those of each layer as an operator at this input size. The kernel bound is what the "
    "reshaped kernel alone would give, the excess how far it is above. In a residual block, what "
    "runs past a layer counts in it: fork, carry and join name its place. The share is that of "
    "the layer in the sum."
)
SCOPE = (
    "This is for polynomials of one vector an example, with variables in [-1, 1] and no linear "
    "path beside them."
)
CAVEAT = (
    "The O(·) of the corollary hides a constant. It cancels in the ratio of two complexity terms "
    "on the same examples and at the same margin loss; the values themselves certify nothing."
)


def theory_page(study: Study, title: str, command: str, machine: Mapping[str, object]) -> Page:
    """The page of a study on a machine; the command says how to repeat it."""
    sections = [_by_layer(study)]
    if study.network is not None:
        sections.append(_bounds(study, study.network))
    sections.append(_advice(study.advice))
    if study.corollary is not None and study.network is not None:
        sections.append(_corollary(study.corollary, _name(study.network)))
    machines = facts_table("machine", "Versions and machine", machine.items())
    sections.append(Section("How to repeat it", (Code(command), machines)))
    lead = (MEANING, _facts(study))
    return Page(title, lead, tuple(sections), f"vinets {machine['vinets']}.")


def kappa_sentence(study: Study) -> str:
    """How the complexity of the network behind the cut compares, and for which inputs."""
    network, log = study.network, study.log10_kappa
    if network is None or log is None or not math.isfinite(log):
        return "A layer is zero, so that its network has R = 0 and kappa means nothing."
    less = "less" if log < 0 else "more"
    text = (
        f"kappa = R of the network behind the cut / R of the uncut one = {power(log)}, from the "
        f"weights themselves: it is {less} complex."
    )
    reach, sure = network.head.variables_bound, network.guaranteed.log10_R
    if network.head.bounds is None or reach <= 1:
        return text
    if not (math.isfinite(reach) and math.isfinite(sure)):
        return (
            f"{text} The theorem assumes variables in [-1, 1]. Nothing bounds those of this head, "
            "so R holds only for inputs with variables in that range."
        )
    return (
        f"{text} The theorem assumes variables in [-1, 1]. Those of this head stay within "
        f"±{number(reach, '.3g')} only, whatever the input, and for all inputs R = {power(sure)} "
        "is guaranteed."
    )


def corollary_sentence(ratio: float | None) -> str:
    """What the ratio of complexity terms at the median says, and what it does not."""
    if ratio is None:
        found = "No ratio at the median: a network has a margin of 0 or less there, or R overflows."
    else:
        side = "the network behind the cut" if ratio < 1 else "the uncut network"
        found = (
            "At the median margin, the complexity term of the network behind the cut is "
            f"{number(ratio, '.3g')} times that of the uncut one: here the corollary favours "
            f"{side}."
        )
    return f"{found} {CAVEAT}"


# --- sections ---------------------------------------------------------------------------------


def _facts(study: Study) -> Facts:
    uncut, network, advice = study.uncut, study.network, study.advice
    facts = [Fact("R of the uncut network", power(uncut.log10_R), f"{len(uncut.layers)} layers")]
    if network is not None:
        whole, log = network.whole, study.log10_kappa
        facts.append(Fact("R behind the cut", power(whole.log10_R), f"{len(whole.layers)} layers"))
        if log is not None and math.isfinite(log):
            word = "less" if log < 0 else "more"
            facts.append(Fact("κ, exactly", power(log), f"{word} complex than the uncut network"))
    size, remark = "none", f"at τ = {advice.tau:g}"
    if advice.setting is not None:
        found = advice.setting
        size = f"{number(found.polynomials, ',')} × {number(found.monomials, ',')}"
        remark += f": polynomials × monomials, degree {found.degree}"
    gone = f"replaces or changes {len(study.split.removed)} of {len(uncut.layers)} layers"
    return Facts((*facts, Fact("Certified head", size, remark), Fact("Cut", study.cut, gone)))


def _by_layer(study: Study) -> Section:
    sides = {"uncut network": (study.uncut, GREY)}
    others = {}
    if study.network is not None:
        sides["network behind the cut"] = (study.network.whole, OURS)
        others = {_name(study.network): study.network.whole}
    shares = tuple(
        Drawing(
            f"shares-{name.split()[0]}",
            f"Bars of the share of each layer of the {name} in the sum; the table holds the "
            "numbers.",
            f"Share of each layer in the sum, {name}.",
            partial(draw_shares, found=found, color=color),
            (5.6, 1.0 + 0.26 * len(found.layers)),
        )
        for name, (found, color) in sides.items()
    )
    tables = (_layers(name, study, found) for name, (found, _) in sides.items())
    figure = layers_figure(study.uncut, others)
    return Section("R by layer", (NORMS, figure, *tables, Beside(shares)))


def _layers(name: str, study: Study, found: Complexity) -> Table:
    """Norms of the layers of one side of a study.

    Layers of the network that the cut changes, such as one inside of a residual block, are
    removed on one side and changed on the other.
    """
    kept, removed = len(study.split.kept), {layer.name for layer in study.split.removed}
    rows = []
    for index, (layer, share) in enumerate(zip(found.layers, found.shares, strict=True)):
        fate = "kept"
        if index >= kept:
            changed = "changed" if layer.name in removed else "added"
            fate = "removed" if found is study.uncut else changed
        norm, cheap = layer.spectral, layer.kernel_bound
        values: dict[str, Value] = {"layer": layer.name, "role": layer.role, "cut": fate}
        values["spectral"] = norm if layer.converged else f"{number(norm, '.4g')} (not converged)"
        if cheap is not None:
            values |= {"kernel": cheap} | ({"excess": cheap / norm} if norm else {})
        values |= {"two_one": layer.two_one, "lipschitz": layer.lipschitz, "share": share}
        rows.append(Row(values))
    caption = f"{name.capitalize()}, R = {power(found.log10_R)}"
    return Table(f"layers-{name.split()[0]}", caption, LAYER_COLUMNS, tuple(rows))


def _bounds(study: Study, network: CutComplexity) -> Section:
    title, found = "κ and the bounds of the theorem", network.head.bounds
    if found is None:
        return Section(title, (kappa_sentence(study),))
    size = found.size
    caption = (
        f"Norms beside their bounds: degree {size.degree}, {number(size.monomials, ',')} "
        f"monomials, {number(size.polynomials, ',')} polynomials, τ = {number(size.tau, '.4g')}"
    )
    rows = [(b.quantity, b.source, b.actual, b.bound, b.tightness, b.holds) for b in found.bounds]
    table = Table.from_rows("bounds", caption, BOUND_COLUMNS, rows)
    held = "Every bound holds." if found.holds else "A bound is broken."
    attained = f"{held} A ratio of 1 means that the bound is attained."
    return Section(title, (kappa_sentence(study), table, attained))


def _advice(advice: Advice) -> Section:
    region = advice.region
    text = (
        "Polynomials are certified where the bound on κ, which knows their size only, is at most "
        f"1. It uses the {region.constant} constant, λ₁ = {number(region.lambda_1, '.4g')} for the "
        f"final layer and λ₂ = {number(region.lambda_2, '.4g')}. The bound is linear in τ, the "
        "largest ℓ₁ norm of a polynomial's coefficients, so there is a largest τ for every size. "
        "Below 1, no polynomial with a leading coefficient of 1 is certified. That does not say "
        f"that its κ is above 1: the bound may be far from attained. {SCOPE}"
    )
    maps = tuple(
        Drawing(
            f"region-{degree}",
            f"Map of the largest certified tau over polynomials and monomials of degree {degree}.",
            _region_caption(advice, degree),
            partial(draw_region, advice=advice, degree=degree),
            (5.6, 4.2),
        )
        for degree in sorted({row.degree for row in advice.rows})
    )
    blocks = (text, advice.sentence, _advice_table(advice), Beside(maps))
    return Section("Heads that are certified", blocks)


def _advice_table(advice: Advice) -> Table:
    """The wanted size and its halvings, with the largest tau of every degree."""
    degrees = sorted({row.degree for row in advice.path})
    sizes: dict[tuple[int, int], dict[int, Value]] = {}
    for row in advice.path:
        mark = "*" if row.fits else ""
        size = sizes.setdefault((row.polynomials, row.monomials), {})
        size[row.degree] = f"{power_of_ten(row.log10_tau_max)}{mark}"
    return Table.from_rows(
        "advice",
        f"Largest τ with κ ≤ 1 (* from {advice.tau:g} on)",
        [
            Column("polynomials", format=","),
            Column("monomials", format=","),
            *(Column(f"degree {degree}", format="") for degree in degrees),
        ],
        [(*size, *(found[degree] for degree in degrees)) for size, found in sizes.items()],
    )


def _region_caption(advice: Advice, degree: int) -> str:
    fits = any(row.fits for row in advice.rows if row.degree == degree)
    where = "Blue sizes are" if fits else "No size is"
    text = f"Degree up to {degree}. {where} certified at τ = {advice.tau:g}."
    marked = advice.setting is not None and advice.setting.degree == degree
    return f"{text} The diamond is the recommended size." if marked else text


def _corollary(corollary: Corollary, name: str) -> Section:
    sides = {"uncut network": corollary.uncut, "network behind the cut": corollary.network}
    count = number(len(corollary.uncut.distribution), ",")
    table = Table.from_rows(
        "quantiles",
        f"Quantiles of the margins of {count} training examples",
        [
            "network",
            Column("error", format=".2%"),
            *(Column(str(q), number(q, ".0%"), ".3g") for q in QUANTILES),
        ],
        [
            (side, b.distribution.error, *(b.distribution.quantiles(q) for q in QUANTILES))
            for side, b in sides.items()
        ],
    )
    blocks = (corollary_sentence(corollary.ratio(0.5)), table, margins_figure(corollary, name))
    return Section("Margins and the corollary", blocks)


def _name(network: CutComplexity) -> str:
    return "network behind the cut" if network.head.bounds is None else "VI-Net"
