"""Show what the theory says about a network and a cut, as a page with its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from itertools import accumulate, takewhile
from typing import TYPE_CHECKING

import numpy as np

from vinets.report.figures import COLORS
from vinets.report.numbers import number
from vinets.report.values import (
    Axis,
    Beside,
    Block,
    Code,
    Column,
    Drawing,
    Facts,
    Figure,
    Page,
    Row,
    Section,
    Series,
    Table,
    Value,
    facts_table,
)
from vinets.theory.advisor import DEGREES, Advice, power_of_ten
from vinets.theory.bounds import PolynomialBounds
from vinets.theory.norms import Complexity
from vinets.theory.study import CURVE_POINTS, QUANTILES, Corollary, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes


LAYER_COLUMNS = (
    Column("name", "layer"),
    Column("role"),
    Column("cut"),
    Column("spectral", "‖W‖₂", ".4g"),
    Column("kernel_bound", "kernel bound", ".4g"),
    Column("excess", format=".2f×"),
    Column("two_one", "‖Wᵀ‖₂,₁", ".4g"),
    Column("lipschitz", "ρ", ".3g"),
    Column("share", format=".1%"),
)
BOUND_COLUMNS = (
    Column("quantity"),
    Column("source"),
    Column("actual", format=".4g"),
    Column("bound", format=".4g"),
    Column("tightness", "actual / bound", ".2g"),
    Column("holds", better="yes"),
)
BEHIND = "network behind the cut"
MEANING = (
    "The spectral complexity R of a network is the product of the spectral norms ‖W‖₂ of its "
    "layers and of the Lipschitz constants ρ behind them, times (Σ(‖Wᵀ‖₂,₁ / ‖W‖₂)^(2/3))^(3/2). "
    "Margin bounds on the error of a classifier grow with R, so of two networks with the same "
    "margins, they favour the one with the smaller R."
)
NORMS = (
    "Norms are those of each layer as an operator at this input size. The kernel bound is what the "
    "reshaped kernel alone would give, the excess how far it is above. In a residual block, what "
    "runs past a layer counts in it: fork, carry and join name its place. The share is that of "
    "the layer in the sum."
)
ADVICE = (
    "Polynomials are certified where the bound on κ, which knows their size only, is at most 1. It "
    "uses the {} constant, ‖W_F‖₂ ≤ λ₁ = {} and ‖W_Fᵀ‖₂,₁ / ‖W_F‖₂ ≤ λ₂ = {} for the final layer. "
    "The bound is linear in τ, the largest ℓ₁ norm of a polynomial's coefficients, so there is a "
    "largest τ for every size. Below 1, no polynomial with a leading coefficient of 1 is "
    "certified. That does not say that its κ is above 1: the bound may be far from attained. This "
    "is for polynomials of one vector per example, with variables in [−1, 1] and no linear path "
    "next to them."
)


def theory_page(study: Study, title: str, command: str, machine: Mapping[str, object]) -> Page:
    """Return the page of a study on a machine; the command says how to repeat it."""
    uncut, network, setting = study.uncut, study.network, study.advice.setting
    facts = [("R of the uncut network", power(uncut.log10_R), f"{len(uncut.layers)} layers")]
    sections = [_layers_section(study)]
    if network is not None:
        whole, log = network.whole, study.log10_kappa
        facts.append(("R behind the cut", power(whole.log10_R), f"{len(whole.layers)} layers"))
        if log is not None and math.isfinite(log):
            word = "less" if log < 0 else "more"
            facts.append(("κ, exactly", power(log), f"{word} complex than the uncut network"))
        sections.append(_bounds_section(study, network.head.bounds))
    size, remark = "none", f"at τ = {study.advice.tau:g}"
    if setting is not None:
        size = f"{setting.polynomials:,} × {setting.monomials:,}"
        remark += f": polynomials N × monomials S, degree d = {setting.degree}"
    gone = f"replaces or changes {len(study.split.removed)} of {len(uncut.layers)} layers"
    facts += [("Certified head", size, remark), ("Cut", study.cut, gone)]
    sections.append(_advice_section(study.advice))
    if study.corollary is not None:
        sections.append(_margins_section(study.corollary))
    machines = facts_table("machine", "Versions and machine", machine.items())
    sections.append(Section("How to repeat it", (Code(command), machines)))
    lead = (MEANING, Facts(tuple(facts)))
    return Page(title, lead, tuple(sections), f"vinets {machine['vinets']}.")


def power(log10: float) -> str:
    """Return 10 to this power as text; 0 for minus infinity."""
    return "0" if log10 == -math.inf else number(log10, "10^.2f")


def _layers_section(study: Study) -> Section:
    """Show the norms of both networks; layers that the cut changes are in both, removed in one."""
    others = {} if study.network is None else {BEHIND: study.network.whole}
    kept, removed = len(study.split.kept), {layer.name for layer in study.split.removed}
    tables = []
    for name, complexity in ({"uncut network": study.uncut} | others).items():
        rows = []
        for place, (layer, share) in enumerate(
            zip(complexity.layers, complexity.shares, strict=True)
        ):
            fate = "kept"
            if place >= kept:  # both sides begin with what stays before the cut
                changed = "changed" if layer.name in removed else "added"
                fate = "removed" if complexity is study.uncut else changed
            values = vars(layer) | {"cut": fate, "share": share}
            if layer.kernel_bound and layer.spectral:  # a layer of zeros has no excess
                values["excess"] = layer.kernel_bound / layer.spectral
            if not layer.converged:
                values["spectral"] = f"{number(layer.spectral, '.4g')} (not converged)"
            rows.append(Row(values))
        short, caption = name.split()[0], f"{name.capitalize()}, R = {power(complexity.log10_R)}"
        tables.append(Table(f"layers-{short}", caption, LAYER_COLUMNS, tuple(rows)))
    return Section("R by layer", (NORMS, layers_figure(study.uncut, others), *tables))


def _bounds_section(study: Study, bounds: PolynomialBounds | None) -> Section:
    """Show what is known of κ and, for a head of polynomials, its norms next to their bounds."""
    title = "κ and the bounds of the theorem"
    if bounds is None:
        return Section(title, (kappa_sentence(study),))
    size = bounds.size
    caption = (
        f"Norms next to their bounds: degree d = {size.degree}, S = {size.monomials:,} monomials, "
        f"N = {size.polynomials:,} polynomials, τ = {size.tau:.4g}"
    )
    table = Table("bounds", caption, BOUND_COLUMNS, tuple(Row(vars(b)) for b in bounds.bounds))
    held = "Every bound holds." if bounds.holds else "A bound is broken."
    text = f"{held} Where actual / bound is 1, the bound is attained."
    return Section(title, (kappa_sentence(study), table, text))


def _advice_section(advice: Advice) -> Section:
    """Return the wanted size and its halvings with the largest τ, and a map for every degree."""
    region, tau = advice.region, f"τ = {advice.tau:g}"
    lambdas = (number(bound, ".4g") for bound in (region.lambda_1, region.lambda_2))
    text = ADVICE.format(region.constant, *lambdas)
    sizes: dict[tuple[int, int], list[Value]] = {}  # the largest τ by rising degree
    for row in advice.path:
        largest = f"{power_of_ten(row.log10_tau_max)}{'*' if row.fits else ''}"
        sizes.setdefault((row.polynomials, row.monomials), []).append(largest)
    columns = Column("N", "polynomials N", ","), Column("S", "monomials S", ",")
    table = Table.from_rows(
        "advice",
        f"Largest τ with κ ≤ 1 (* certified at {tau})",
        [*columns, *(Column(f"d = {degree}", format="") for degree in DEGREES)],
        [(*size, *largest) for size, largest in sizes.items()],
    )
    maps: list[Block] = []
    for degree in DEGREES:
        blue = any(row.fits for row in advice.rows if row.degree == degree)
        sizes_are = "Blue sizes are" if blue else "No size is"
        caption = f"Degree up to d = {degree}. {sizes_are} certified at {tau}."
        if advice.setting is not None and advice.setting.degree == degree:
            caption += " The diamond is the recommended size."
        alt = f"Map of the largest certified τ over polynomials and monomials of degree {degree}."
        draw = partial(draw_region, advice=advice, degree=degree)
        maps.append(Drawing(f"region-{degree}", alt, caption, draw, (4.4, 3.5)))
    return Section("Heads that are certified", (text, advice.sentence, table, Beside(tuple(maps))))


def _margins_section(corollary: Corollary) -> Section:
    columns = [Column("network"), Column("error", "error L₀", ".2%")]
    columns += [Column(str(q), f"{q:.0%}", ".3g") for q in QUANTILES]
    sides = ("uncut network", corollary.uncut), (BEHIND, corollary.network)
    rows = [(name, one.error, *map(one.quantiles, QUANTILES)) for name, one in sides]
    caption = f"Quantiles of the margins of {len(corollary.uncut.margins):,} training examples"
    table = Table.from_rows("quantiles", caption, columns, rows)
    blocks = (corollary_sentence(corollary.ratio(0.5)), table, margins_figure(corollary))
    return Section("Margins and the corollary", blocks)


def kappa_sentence(study: Study) -> str:
    """Say how the complexity of the network behind the cut compares, and for which inputs."""
    network, log = study.network, study.log10_kappa
    if log == math.inf:
        return (
            "Products of forms have no Lipschitz constant where the latents are not bounded, so R "
            "behind the cut is infinite and no margin bound holds for it."
        )
    if network is None or log is None or not math.isfinite(log):
        return "A layer is zero, so that its network has R = 0 and κ means nothing."
    text = (
        f"κ = R of the network behind the cut / R of the uncut one = {power(log)}, from the "
        f"weights themselves: it is {'less' if log < 0 else 'more'} complex."
    )
    reach, sure = network.head.variables_bound, network.guaranteed.log10_R
    if network.head.bounds is None or reach <= 1:
        return text
    text += " The theorem assumes variables in [−1, 1]. "
    if not (math.isfinite(reach) and math.isfinite(sure)):
        return (
            f"{text}Nothing bounds those of this head, so R holds only for inputs with variables "
            "in that range."
        )
    return (
        f"{text}Those of this head stay in [−B, B] with B = {number(reach, '.3g')} only, whatever "
        f"the input, and for all inputs R = {power(sure)} is guaranteed."
    )


def corollary_sentence(ratio: float | None) -> str:
    """Say what the ratio of complexity terms at the median means, and what it does not."""
    text = "No ratio at the median: a network has a margin of 0 or less there, or R overflows."
    if ratio is not None:
        text = (
            f"At the median margin, the complexity term of the {BEHIND} is {number(ratio, '.3g')} "
            "times that of the uncut one: here the corollary favours "
            f"the {BEHIND if ratio < 1 else 'uncut network'}."
        )
    return (
        f"{text} The O(·) of the corollary hides a constant. It cancels in the ratio of two "
        "complexity terms on the same examples and at the same margin loss; the values themselves "
        "certify nothing."
    )


def layers_figure(uncut: Complexity, networks: Mapping[str, Complexity]) -> Figure:
    """Return the product of norms and Lipschitz constants up to every layer; the last point is R.

    Networks behind a cut, by name, run along the uncut network up to the cut.
    """
    every = dict(networks) | {"uncut network": uncut}
    end = max(len(complexity.layers) for complexity in every.values())
    names, series = [layer.name for layer in uncut.layers], []
    for name, complexity in every.items():
        factors = list(takewhile(bool, complexity.factors))  # a zero has no logarithm
        x, y = list(range(len(factors))), list(accumulate(map(math.log10, factors)))
        labels = [layer.name for layer in complexity.layers[: len(factors)]]
        if math.isfinite(complexity.log10_R):
            x, y, labels = [*x, end], [*y, complexity.log10_R], [*labels, "R"]
        points = tuple(x), tuple(y), tuple(labels)
        name = f"{name}, R = {power(complexity.log10_R)}"
        series.append(Series(name, *points, dashed=complexity is uncut))
    return Figure(
        "layers",
        "Product ∏ρ‖W‖₂ of norms and Lipschitz constants up to each layer, and R",
        Axis("layers of the uncut network", names=(*names, *[""] * (end - len(names)), "R")),
        Axis("log₁₀ ∏ρ‖W‖₂", format=".2f"),
        tuple(series),
        caption="The last point is R: the step to it is the factor of the sum. Steep steps are "
        "where R comes from.",
    )


def margins_figure(corollary: Corollary) -> Figure:
    """Return margin loss of both networks against positive margins, in one unit where R allows."""
    sides = {BEHIND: corollary.network, "uncut network": corollary.uncut}
    normal = all(math.isfinite(bound.log10_R) for bound in sides.values())
    unit = "normalised margin γm / (‖X‖₂,₂ R)" if normal else "margin γ"
    series = []
    for name, bound in sides.items():
        gamma = bound.quantiles(np.linspace(0, 1, CURVE_POINTS))
        gamma = gamma[gamma > 0]
        size = bound.log10_R + math.log10(bound.input_norm / len(bound.margins)) if normal else 0.0
        x, y = (np.log10(gamma) - size).tolist(), (100 * bound.loss(gamma)).tolist()
        dashed = bound is corollary.uncut
        series.append(Series(name, tuple(x), tuple(y), dashed=dashed, marks=()))
    return Figure(
        "margins",
        f"Margin loss against the {unit.partition(' γ')[0]}",
        Axis(f"log₁₀ of the {unit}", format=".3f"),
        Axis("margin loss L_γ, %", format=".1f"),
        tuple(series),
        caption="Further right, the complexity term is smaller at the same loss, but for the "
        "logarithm of the width.",
    )


def draw_region(ax: Axes, advice: Advice, degree: int) -> None:
    """Draw the largest certified τ at one degree, with lines at the τ of the advice and at 1.

    Blue sizes are certified at that τ, red ones are not. A diamond marks the recommended size.
    """
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.patheffects import withStroke

    rows = [row for row in advice.rows if row.degree == degree]
    counts = sorted({row.polynomials for row in rows})
    terms = sorted({row.monomials for row in rows})
    largest = {(row.monomials, row.polynomials): row.log10_tau_max for row in rows}
    heat = np.array([[largest[s, n] for n in counts] for s in terms])
    every, middle = [row.log10_tau_max for row in advice.rows], math.log10(advice.tau)
    norm = TwoSlopeNorm(middle, min(middle - 1, *every), max(middle + 1, *every))  # in all maps
    x, y = np.log2(counts), np.log2(terms)  # sizes are halved from step to step
    mesh = ax.pcolormesh(x, y, heat, cmap="RdBu", norm=norm, shading="nearest", rasterized=True)
    bar = ax.figure.colorbar(mesh, ax=ax, label="log₁₀ of the largest τ")
    bar.ax.set_yscale("linear")  # colours are spread unevenly, numbers need not be
    for value, style in ((advice.tau, "-"), (1.0, "--")):
        level = math.log10(value)
        if not heat.min() < level < heat.max():
            continue  # no line crosses the map, and matplotlib would warn
        lines = ax.contour(x, y, heat, levels=[level], colors="#111111", linestyles=style)
        for text in ax.clabel(lines, fmt=f"τ = {value:g}", fontsize=9):
            text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
    if (setting := advice.setting) is not None and setting.degree == degree:
        at = np.log2([setting.polynomials]), np.log2([setting.monomials])
        ax.plot(*at, "D", color=COLORS[1], markeredgecolor="white", markersize=9, zorder=4)
    ax.set_xticks(x, [f"{n:,}" for n in counts], rotation=45)
    ax.set_yticks(y, [f"{s:,}" for s in terms])
    ax.set(xlabel="polynomials N", ylabel="monomials S", title=f"degree up to d = {degree}")
