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
from vinets.report.words import Words
from vinets.theory.advisor import DEGREES, Advice, power_of_ten
from vinets.theory.norms import Complexity
from vinets.theory.study import CURVE_POINTS, QUANTILES, Corollary, Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEHIND = "network behind the cut"
WORDS = Words("vinets.theory", "page.toml")


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
        known: list[Block] = [kappa_sentence(study)]
        if (bounds := network.head.bounds) is not None:
            caption = WORDS.text("bounds", "caption", size=bounds.size)
            rows = (Row(vars(one)) for one in bounds.bounds)
            held = "Every bound holds." if bounds.holds else "A bound is broken."
            known += [WORDS.table("bounds", "bounds", caption, rows)]
            known += [WORDS.text("bounds", held=held)]
        sections.append(Section("κ and the bounds of the theorem", tuple(known)))
    size, remark = "none", f"at τ = {study.advice.tau:g}"
    if setting is not None:
        size = f"{setting.polynomials:,} × {setting.monomials:,}"
        remark += f": polynomials N × monomials S, degree d = {setting.degree}"
    gone = f"replaces or changes {len(study.split.removed)} of {len(uncut.layers)} layers"
    facts += [("Certified head", size, remark), ("Cut", study.cut, gone)]
    sections.append(_advice_section(study.advice))
    if (corollary := study.corollary) is not None:
        columns = [Column("network"), Column("error", "error L₀", ".2%")]
        columns += [Column(str(q), f"{q:.0%}", ".3g") for q in QUANTILES]
        sides = ("uncut network", corollary.uncut), (BEHIND, corollary.network)
        cells = [(name, one.error, *map(one.quantiles, QUANTILES)) for name, one in sides]
        caption = f"Quantiles of the margins of {len(corollary.uncut.margins):,} training examples"
        table = Table.from_rows("quantiles", caption, columns, cells)
        parts = (corollary_sentence(corollary.ratio(0.5)), table, margins_figure(corollary))
        sections.append(Section("Margins and the corollary", parts))
    machines = facts_table("machine", "Versions and machine", machine.items())
    sections.append(Section("How to repeat it", (Code(command), machines)))
    lead = (WORDS.text("layers", "meaning"), Facts(tuple(facts)))
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
        tables.append(WORDS.table("layers", f"layers-{short}", caption, rows))
    norms = WORDS.text("layers", "norms")
    return Section("R by layer", (norms, layers_figure(study.uncut, others), *tables))


def _advice_section(advice: Advice) -> Section:
    """Return the wanted size and its halvings with the largest τ, and a map for every degree."""
    region, tau = advice.region, f"τ = {advice.tau:g}"
    lambdas = {name: number(getattr(region, name), ".4g") for name in ("lambda_1", "lambda_2")}
    text = WORDS.text("advice", constant=region.constant, **lambdas)
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
        alt = WORDS.text("advice", "map", degree=degree)
        draw = partial(draw_region, advice=advice, degree=degree)
        maps.append(Drawing(f"region-{degree}", alt, caption, draw, (4.4, 3.5)))
    return Section("Heads that are certified", (text, advice.sentence, table, Beside(tuple(maps))))


def kappa_sentence(study: Study) -> str:
    """Say how the complexity of the network behind the cut compares, and for which inputs."""
    network, log = study.network, study.log10_kappa
    if log == math.inf:
        return WORDS.text("kappa", "infinite")
    if network is None or log is None or not math.isfinite(log):
        return WORDS.text("kappa", "zero")
    text = WORDS.text("kappa", kappa=power(log), word="less" if log < 0 else "more")
    reach, sure = network.head.variables_bound, network.guaranteed.log10_R
    if network.head.bounds is None or reach <= 1:
        return text
    text += WORDS.text("kappa", "assumed")
    if not (math.isfinite(reach) and math.isfinite(sure)):
        return text + WORDS.text("kappa", "unbounded")
    return text + WORDS.text("kappa", "reach", reach=number(reach, ".3g"), sure=power(sure))


def corollary_sentence(ratio: float | None) -> str:
    """Say what the ratio of complexity terms at the median means, and what it does not."""
    text = WORDS.text("margins", "none")
    if ratio is not None:
        better = BEHIND if ratio < 1 else "uncut network"
        text = WORDS.text("margins", "ratio", ratio=number(ratio, ".3g"), better=better)
    return f"{text} {WORDS.text('margins', 'constant')}"


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
        WORDS.text("layers", "figure"),
        Axis("layers of the uncut network", names=(*names, *[""] * (end - len(names)), "R")),
        Axis("log₁₀ ∏ρ‖W‖₂", format=".2f"),
        tuple(series),
        caption=WORDS.text("layers", "steps"),
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
        caption=WORDS.text("margins", "figure"),
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
