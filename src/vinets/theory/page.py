"""What the theory says about a network and a cut, as a page and as charts.

Functions that begin with ``draw`` need matplotlib, the extra ``plots``, and draw on the axes that
they are given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from vinets.core.checks import parameter_error
from vinets.core.palette import COLORS, GREY, OURS
from vinets.report.formats import number
from vinets.report.values import (
    Axis,
    Beside,
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
from vinets.theory.advisor import Advice, power_of_ten
from vinets.theory.complexity import Complexity
from vinets.theory.generalisation import QUANTILES
from vinets.theory.networks import CutComplexity
from vinets.theory.studies import CURVE_POINTS, Corollary, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
BEHIND = "network behind the cut"
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


def theory_page(study: Study, title: str, command: str, machine: Mapping[str, object]) -> Page:
    """The page of a study on a machine; the command says how to repeat it."""
    uncut, network, advice = study.uncut, study.network, study.advice
    facts = [("R of the uncut network", power(uncut.log10_R), f"{len(uncut.layers)} layers")]
    if network is not None:
        whole, log = network.whole, study.log10_kappa
        facts.append(("R behind the cut", power(whole.log10_R), f"{len(whole.layers)} layers"))
        if log is not None and math.isfinite(log):
            word = "less" if log < 0 else "more"
            facts.append(("κ, exactly", power(log), f"{word} complex than the uncut network"))
    size, remark = "none", f"at τ = {advice.tau:g}"
    if advice.setting is not None:
        found = advice.setting
        size = f"{number(found.polynomials, ',')} × {number(found.monomials, ',')}"
        remark += f": polynomials × monomials, degree {found.degree}"
    gone = f"replaces or changes {len(study.split.removed)} of {len(uncut.layers)} layers"
    facts += [("Certified head", size, remark), ("Cut", study.cut, gone)]
    sections = [_by_layer(study)]
    if network is not None:
        sections.append(_bounds(study, network))
    sections.append(_advice(advice))
    if study.corollary is not None and network is not None:
        sections.append(_corollary(study.corollary))
    machines = facts_table("machine", "Versions and machine", machine.items())
    sections.append(Section("How to repeat it", (Code(command), machines)))
    lead = (MEANING, Facts(tuple(facts)))
    return Page(title, lead, tuple(sections), f"vinets {machine['vinets']}.")


def kappa_sentence(study: Study) -> str:
    """How the complexity of the network behind the cut compares, and for which inputs."""
    network, log = study.network, study.log10_kappa
    if log == math.inf:
        return (
            "Products of forms have no Lipschitz constant where the latents are not bounded, so R "
            "behind the cut is infinite and no margin bound holds for it."
        )
    if network is None or log is None or not math.isfinite(log):
        return "A layer is zero, so that its network has R = 0 and kappa means nothing."
    text = (
        f"kappa = R of the network behind the cut / R of the uncut one = {power(log)}, from the "
        f"weights themselves: it is {'less' if log < 0 else 'more'} complex."
    )
    reach, sure = network.head.variables_bound, network.guaranteed.log10_R
    if network.head.bounds is None or reach <= 1:
        return text
    text += " The theorem assumes variables in [-1, 1]. "
    if not (math.isfinite(reach) and math.isfinite(sure)):
        return (
            f"{text}Nothing bounds those of this head, so R holds only for inputs with variables "
            "in that range."
        )
    return (
        f"{text}Those of this head stay within ±{number(reach, '.3g')} only, whatever the input, "
        f"and for all inputs R = {power(sure)} is guaranteed."
    )


def corollary_sentence(ratio: float | None) -> str:
    """What the ratio of complexity terms at the median says, and what it does not."""
    found = "No ratio at the median: a network has a margin of 0 or less there, or R overflows."
    if ratio is not None:
        side = "the network behind the cut" if ratio < 1 else "the uncut network"
        found = (
            "At the median margin, the complexity term of the network behind the cut is "
            f"{number(ratio, '.3g')} times that of the uncut one: here the corollary favours "
            f"{side}."
        )
    return (
        f"{found} The O(·) of the corollary hides a constant. It cancels in the ratio of two "
        "complexity terms on the same examples and at the same margin loss; the values themselves "
        "certify nothing."
    )


# --- sections ---------------------------------------------------------------------------------


def _by_layer(study: Study) -> Section:
    sides = {"uncut network": (study.uncut, GREY)}
    others = {}
    if study.network is not None:
        sides[BEHIND] = (study.network.whole, OURS)
        others = {BEHIND: study.network.whole}
    tables, shares = [], []
    for name, (found, color) in sides.items():
        tables.append(_layers(name, study, found))
        alt = f"Bars of the share of each layer of the {name} in the sum; the table holds the "
        caption = f"Share of each layer in the sum, {name}."
        draw = partial(draw_shares, found=found, color=color)
        size = (5.6, 1.0 + 0.26 * len(found.layers))
        shares.append(Drawing(f"shares-{name.split()[0]}", f"{alt}numbers.", caption, draw, size))
    figure = layers_figure(study.uncut, others)
    return Section("R by layer", (NORMS, figure, *tables, Beside(tuple(shares))))


def _layers(name: str, study: Study, found: Complexity) -> Table:
    """Norms of the layers of one side of a study.

    Layers of the network that the cut changes, such as one inside of a residual block, are
    removed on one side and changed on the other.
    """
    kept, removed = len(study.split.kept), {layer.name for layer in study.split.removed}
    rows = []
    for index, (layer, share) in enumerate(zip(found.layers, found.shares, strict=True)):
        fate = "kept"
        if index >= kept:  # both sides begin with what stays before the cut
            changed = "changed" if layer.name in removed else "added"
            fate = "removed" if found is study.uncut else changed
        norm, cheap = layer.spectral, layer.kernel_bound
        values: dict[str, Value] = {"layer": layer.name, "role": layer.role, "cut": fate}
        values["spectral"] = norm if layer.converged else f"{number(norm, '.4g')} (not converged)"
        if cheap is not None:
            # A layer of zeros has no excess.
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
    text = f"{held} A ratio of 1 means that the bound is attained."
    return Section(title, (kappa_sentence(study), table, text))


def _advice(advice: Advice) -> Section:
    region = advice.region
    text = (
        "Polynomials are certified where the bound on κ, which knows their size only, is at most "
        f"1. It uses the {region.constant} constant, λ₁ = {number(region.lambda_1, '.4g')} for the "
        f"final layer and λ₂ = {number(region.lambda_2, '.4g')}. The bound is linear in τ, the "
        "largest ℓ₁ norm of a polynomial's coefficients, so there is a largest τ for every size. "
        "Below 1, no polynomial with a leading coefficient of 1 is certified. That does not say "
        "that its κ is above 1: the bound may be far from attained. This is for polynomials of one "
        "vector per example, with variables in [-1, 1] and no linear path beside them."
    )
    maps = []
    for degree in sorted({row.degree for row in advice.rows}):
        fits = any(row.fits for row in advice.rows if row.degree == degree)
        caption = f"Degree up to {degree}. {'Blue sizes are' if fits else 'No size is'} certified "
        caption += f"at τ = {advice.tau:g}."
        if advice.setting is not None and advice.setting.degree == degree:
            caption += " The diamond is the recommended size."
        alt = f"Map of the largest certified tau over polynomials and monomials of degree {degree}."
        draw = partial(draw_region, advice=advice, degree=degree)
        maps.append(Drawing(f"region-{degree}", alt, caption, draw, (5.6, 4.2)))
    blocks = (text, advice.sentence, _advice_table(advice), Beside(tuple(maps)))
    return Section("Heads that are certified", blocks)


def _advice_table(advice: Advice) -> Table:
    """The wanted size and its halvings, with the largest tau of every degree."""
    degrees = sorted({row.degree for row in advice.path})
    sizes: dict[tuple[int, int], dict[int, Value]] = {}
    for row in advice.path:
        size = sizes.setdefault((row.polynomials, row.monomials), {})
        size[row.degree] = f"{power_of_ten(row.log10_tau_max)}{'*' if row.fits else ''}"
    counts = [Column("polynomials", format=","), Column("monomials", format=",")]
    columns = [*counts, *(Column(f"degree {degree}", format="") for degree in degrees)]
    rows = [(*size, *(found[degree] for degree in degrees)) for size, found in sizes.items()]
    caption = f"Largest τ with κ ≤ 1 (* from {advice.tau:g} on)"
    return Table.from_rows("advice", caption, columns, rows)


def _corollary(corollary: Corollary) -> Section:
    sides = {"uncut network": corollary.uncut, BEHIND: corollary.network}
    count = number(len(corollary.uncut.distribution), ",")
    quantiles = [Column(str(q), number(q, ".0%"), ".3g") for q in QUANTILES]
    rows: list[Sequence[Value]] = []
    for side, bound in sides.items():
        margins = bound.distribution
        rows.append((side, margins.error, *(margins.quantiles(q) for q in QUANTILES)))
    table = Table.from_rows(
        "quantiles",
        f"Quantiles of the margins of {count} training examples",
        ["network", Column("error", format=".2%"), *quantiles],
        rows,
    )
    blocks = (corollary_sentence(corollary.ratio(0.5)), table, margins_figure(corollary, BEHIND))
    return Section("Margins and the corollary", blocks)


# --- charts -----------------------------------------------------------------------------------


def power(log10: float) -> str:
    """10 to this power as text; 0 for minus infinity.

    Examples
    --------
    >>> power(2.5), power(-math.inf)
    ('10^2.50', '0')
    """
    return "0" if log10 == -math.inf else number(log10, "10^.2f")


def layers_figure(uncut: Complexity, networks: Mapping[str, Complexity]) -> Figure:
    """The product of norms and Lipschitz constants up to every layer; the last point is R.

    Networks behind a cut, by name, run along the uncut network up to the cut.
    """
    every = dict(networks) | {"uncut network": uncut}
    end = max(len(found.layers) for found in every.values())
    names = [layer.name for layer in uncut.layers]
    series = []
    for name, found in every.items():
        factors = [layer.lipschitz * layer.spectral for layer in found.layers]
        whole = factors.index(0) if 0 in factors else len(factors)  # a zero has no logarithm
        x = list(range(whole))
        y = list(accumulate(math.log10(factor) for factor in factors[:whole]))
        labels = [layer.name for layer in found.layers[:whole]]
        if math.isfinite(found.log10_R):
            x, y, labels = [*x, end], [*y, found.log10_R], [*labels, "R"]
        name = f"{name}, R = {power(found.log10_R)}"
        dashed = found is uncut
        series.append(Series(name, tuple(x), tuple(y), tuple(labels), dashed=dashed))
    return Figure(
        "layers",
        "Product of norms and Lipschitz constants up to each layer, and R",
        Axis("layers of the uncut network", names=(*names, *[""] * (end - len(names)), "R")),
        Axis("log₁₀ of the product of ρ‖W‖₂", format=".2f"),
        tuple(series),
        caption="The last point is R: the step to it is the factor of the sum. Steep steps are "
        "where R comes from.",
    )


def margins_figure(corollary: Corollary, name: str) -> Figure:
    """Margin loss of both networks against their positive margins; further right is better.

    Margins are divided by R and the mean size of an input, so that both networks have one unit,
    and stay as they are where a network has no positive R.
    """
    sides = {name: corollary.network, "uncut network": corollary.uncut}
    normal = all(math.isfinite(bound.log10_R) for bound in sides.values())
    unit = "normalised margin γm / (‖X‖R)" if normal else "margin γ"
    series = []
    for label, bound in sides.items():
        margins = bound.distribution
        gamma = margins.quantiles(np.linspace(0, 1, CURVE_POINTS))
        gamma = gamma[gamma > 0]
        size = bound.log10_R + math.log10(bound.input_norm / len(margins)) if normal else 0.0
        x, y = (np.log10(gamma) - size).tolist(), (100 * margins.loss(gamma)).tolist()
        dashed = bound is corollary.uncut
        series.append(Series(label, tuple(x), tuple(y), dashed=dashed, marks=()))
    return Figure(
        "margins",
        f"Margin loss against the {unit.partition(' γ')[0]}",
        Axis(f"log₁₀ of the {unit}", format=".3f"),
        Axis("margin loss, %", format=".1f"),
        tuple(series),
        caption="Further right, the complexity term is smaller at the same loss, but for the "
        "logarithm of the width.",
    )


def draw_shares(ax: Axes, found: Complexity, color: str = GREY) -> None:
    """Share of every layer in the sum of ratios, the first layer on top."""
    places, shares = range(len(found.layers)), found.shares
    bars = ax.barh(places, [100 * share for share in shares], color=color)
    ax.bar_label(bars, [number(share, ".1%") for share in shares], padding=3, fontsize=8)
    ax.set_yticks(places, [layer.name for layer in found.layers], fontsize=9)
    ax.invert_yaxis()
    ax.margins(x=0.14, y=0.01)
    ax.set(xlabel="share of the sum in %")


def draw_region(ax: Axes, advice: Advice, degree: int) -> None:
    """Largest certified tau over polynomials and monomials at one degree.

    Blue sizes are certified at the tau of the advice, red ones are not. Lines mark where the
    largest tau is that tau, and where it is 1. A diamond marks the recommended size.
    """
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.patheffects import withStroke

    rows = [row for row in advice.rows if row.degree == degree]
    if not rows:
        accepted = f"one of {sorted({row.degree for row in advice.rows})}"
        raise parameter_error("draw_region", "degree", accepted, degree)
    counts = sorted({row.polynomials for row in rows})
    terms = sorted({row.monomials for row in rows})
    found = {(row.monomials, row.polynomials): row.log10_tau_max for row in rows}
    heat = np.array([[found[s, n] for n in counts] for s in terms])
    middle = math.log10(advice.tau)
    every = [row.log10_tau_max for row in advice.rows]  # one scale for all degrees
    norm = TwoSlopeNorm(middle, min(middle - 1, *every), max(middle + 1, *every))
    x, y = np.log2(counts), np.log2(terms)  # sizes are halved from step to step
    mesh = ax.pcolormesh(x, y, heat, cmap="RdBu", norm=norm, shading="nearest", rasterized=True)
    bar = ax.figure.colorbar(mesh, ax=ax, label="log₁₀ of the largest τ")
    bar.ax.set_yscale("linear")  # colours are spread unevenly, numbers need not be
    for value, style in ((advice.tau, "-"), (1.0, "--")):
        level = math.log10(value)
        if min(heat.shape) < 2 or not heat.min() < level < heat.max():
            continue  # no line crosses the map, and matplotlib would warn
        lines = ax.contour(x, y, heat, levels=[level], colors="#111111", linestyles=style)
        for text in ax.clabel(lines, fmt=f"τ = {value:g}", fontsize=9):
            text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
    setting = advice.setting
    if setting is not None and setting.degree == degree:
        at = np.log2([setting.polynomials]), np.log2([setting.monomials])
        ax.plot(*at, "D", color=COLORS[1], markeredgecolor="white", markersize=9, zorder=4)
    ax.set_xticks(x, [number(n, ",") for n in counts], rotation=45)
    ax.set_yticks(y, [number(s, ",") for s in terms])
    ax.set(xlabel="polynomials N", ylabel="monomials S", title=f"degree up to {degree}")
