"""What the theory says about a network and a cut, as a page; the numbers are those of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from vinets.report.charts import GREY, OURS
from vinets.report.page import (
    Markup,
    beside,
    code,
    facts,
    figure,
    page,
    paragraph,
    section,
    table,
)
from vinets.report.svg import can_draw, drawing
from vinets.report.theory_charts import draw_layers, draw_margins, draw_region, draw_shares
from vinets.theory.advisor import power_of_ten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "BOUND_COLUMNS",
    "LAYERS_CAPTION",
    "LAYER_COLUMNS",
    "MEANING",
    "SCOPE",
    "advice_cells",
    "bound_cells",
    "corollary_sentence",
    "kappa_sentence",
    "layer_cells",
    "layers_text",
    "margin_cells",
    "theory_page",
]

WIDE = (10.4, 4.6)  # inches
LAYER_COLUMNS = ("layer", "role", "cut", "‖W‖₂", "kernel bound", "excess", "‖Wᵀ‖₂,₁", "ρ", "share")
BOUND_COLUMNS = ("quantity", "source", "actual", "bound", "ratio", "holds")
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
LAYERS_CAPTION = (
    "The product of norms and Lipschitz constants up to each layer. The dotted end is the factor "
    "of the sum, which leads to R, the star. Steep steps are where R comes from."
)
SCOPE = (
    "This is for polynomials of one vector an example, with variables in [-1, 1] and no linear "
    "path beside them."
)
CAVEAT = (
    "The O(·) of the corollary hides a constant. It cancels in the ratio of two complexity terms "
    "on the same examples and at the same margin loss; the values themselves certify nothing."
)
NO_FIGURES = (
    'The figures are missing because matplotlib is not installed: pip install "vinets[plots]".'
)


def theory_page(
    study: Mapping[str, Any], title: str, command: str, machine: Mapping[str, Any]
) -> str:
    """The page as HTML.

    Parameters
    ----------
    study : dict
        Of :meth:`vinets.theory.Study.to_dict`.
    title : str
        Heading.
    command : str
        How to repeat it.
    machine : dict
        Of :func:`vinets.measure.machine`.
    """
    lead = [paragraph(MEANING), _tiles(study)]
    if not can_draw():
        lead.append(paragraph(NO_FIGURES))
    sections = [_by_layer(study)]
    if study["network"] is not None:
        sections.append(_bounds(study))
    sections.append(_advice(study["advice"]))
    if study["corollary"] is not None:
        sections.append(_corollary(study["corollary"], _name(study["network"])))
    known = [[name, str(value)] for name, value in machine.items() if value is not None]
    machines = table("Versions and machine", ["", "value"], known)
    sections.append(section("How to repeat it", code(command), machines))
    return page(title, lead, sections, f"vinets {machine['vinets']}.")


# --- what tables and sentences say, here and on the terminal ----------------------------------


def layer_cells(study: Mapping[str, Any], side: str) -> list[list[str]]:
    """Rows for :data:`LAYER_COLUMNS` of one side of a study: "uncut" or "network".

    Layers of the network that the cut changes, such as one inside of a residual block, are
    removed on one side and changed on the other.
    """
    network, kept, removed = study[side], len(study["kept"]), study["removed"]
    rows = []
    for index, layer in enumerate(network["layers"]):
        cheap, norm = layer["kernel_bound"], layer["spectral"]
        fate = "kept" if index < kept else "removed"
        if side == "network" and index >= kept:
            fate = "changed" if layer["name"] in removed else "added"
        rows.append(
            [
                layer["name"],
                layer["role"],
                fate,
                f"{norm:.4g}" + ("" if layer["converged"] else " (not converged)"),
                "" if cheap is None else f"{cheap:.4g}",
                "" if cheap is None or not norm else f"{cheap / norm:.2f} ×",
                f"{layer['two_one']:.4g}",
                f"{layer['lipschitz']:.3g}",
                f"{layer['share']:.1%}",
            ]
        )
    return rows


def layers_text(
    uncut: Mapping[str, Any], networks: Mapping[str, Mapping[str, Any]] | None = None
) -> str:
    """What the figure of R by layer shows, for those who cannot see it."""
    every = {"uncut network": uncut} | dict(networks or {})
    ends = (f"{name} to R = {_log(facts)}" for name, facts in every.items())
    return f"Lines of the product of norms from layer to layer: {', '.join(ends)}."


def bound_cells(bounds: Mapping[str, Any]) -> list[list[str]]:
    """Rows of the bounds of both lemmas and the theorem."""
    return [
        [
            row["quantity"],
            row["source"],
            f"{row['actual']:.4g}",
            f"{row['bound']:.4g}",
            f"{row['tightness']:.2g}",
            "yes" if row["holds"] else "NO",
        ]
        for row in bounds["bounds"]
    ]


def advice_cells(advice: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: the wanted size and its halvings, the largest tau of every degree."""
    degrees = sorted({row["degree"] for row in advice["path"]})
    sizes = dict.fromkeys((row["polynomials"], row["monomials"]) for row in advice["path"])
    known = {(r["polynomials"], r["monomials"], r["degree"]): r for r in advice["path"]}
    rows = []
    for size in sizes:
        found = [known[*size, degree] for degree in degrees]
        marks = [power_of_ten(r["log10_tau_max"]) + ("*" if r["fits"] else " ") for r in found]
        rows.append([f"{size[0]:,}", f"{size[1]:,}", *marks])
    return ["polynomials", "monomials", *(f"degree {d}" for d in degrees)], rows


def margin_cells(corollary: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: error and quantiles of the margins of both networks."""
    names = {"uncut": "uncut network", "network": "network behind the cut"}
    quantiles = list(corollary["uncut"]["margins"]["quantiles"])
    rows = []
    for side, name in names.items():
        margins = corollary[side]["margins"]
        values = [f"{margins['quantiles'][q]:.3g}" for q in quantiles]
        rows.append([name, f"{margins['error']:.2%}", *values])
    return ["", "error", *(f"{float(q):.0%}" for q in quantiles)], rows


def kappa_sentence(study: Mapping[str, Any]) -> str:
    """How the complexity of the network behind the cut compares, and for which inputs."""
    network, log = study["network"], study["log10_kappa"]
    if network["log10_R"] is None or log is None:
        return "A layer is zero, so that its network has R = 0 and kappa means nothing."
    less = "less" if log < 0 else "more"
    text = (
        f"kappa = R of the network behind the cut / R of the uncut one = 10^{log:.2f}, from the "
        f"weights themselves: it is {less} complex."
    )
    reach, sure = network["variables_bound"], network["log10_R_guaranteed"]
    if network["bounds"] is None or (reach is not None and reach <= 1):
        return text
    if reach is None or sure is None:
        return (
            f"{text} The theorem assumes variables in [-1, 1]. Nothing bounds those of this head, "
            "so R holds only for inputs with variables in that range."
        )
    return (
        f"{text} The theorem assumes variables in [-1, 1]. Those of this head stay within "
        f"±{reach:.3g} only, whatever the input, and for all inputs R = 10^{sure:.2f} is "
        "guaranteed."
    )


def corollary_sentence(corollary: Mapping[str, Any]) -> str:
    """What the ratio of complexity terms says, and what it does not."""
    ratio = corollary["ratios"]["0.5"]
    if ratio is None:
        found = "No ratio at the median: a network has a margin of 0 or less there, or R overflows."
    else:
        side = "the network behind the cut" if ratio < 1 else "the uncut network"
        found = (
            "At the median margin, the complexity term of the network behind the cut is "
            f"{ratio:.3g} times that of the uncut one: here the corollary favours {side}."
        )
    return f"{found} {CAVEAT}"


# --- sections ---------------------------------------------------------------------------------


def _tiles(study: Mapping[str, Any]) -> Markup:
    uncut, network, setting = study["uncut"], study["network"], study["advice"]["setting"]
    tiles = [("R of the uncut network", _log(uncut), f"{len(uncut['layers'])} layers")]
    if network is not None:
        tiles.append(("R behind the cut", _log(network), f"{len(network['layers'])} layers"))
        log = study["log10_kappa"]
        if log is not None:
            word = "less" if log < 0 else "more"
            tiles.append(("κ, exactly", f"10^{log:.2f}", f"{word} complex than the uncut network"))
    size, remark = "none", f"at τ = {study['advice']['tau']:g}"
    if setting is not None:
        size = f"{setting['polynomials']:,} × {setting['monomials']:,}"
        remark += f": polynomials × monomials, degree {setting['degree']}"
    return facts([*tiles, ("Certified head", size, remark), ("Cut", study["cut"], _gone(study))])


def _gone(study: Mapping[str, Any]) -> str:
    removed, every = len(study["removed"]), len(study["uncut"]["layers"])
    return f"replaces or changes {removed} of {every} layers"


def _by_layer(study: Mapping[str, Any]) -> Markup:
    uncut, network = study["uncut"], study["network"]
    others = {} if network is None else {_name(network): network}
    blocks = _picture(
        "layers",
        layers_text(uncut, others),
        LAYERS_CAPTION,
        partial(draw_layers, uncut=uncut, networks=others),
        size=WIDE,
    )
    shares = [("uncut network", uncut, GREY)]
    if network is not None:
        shares.append(("network behind the cut", network, OURS))
    blocks.append(beside(*(m for s in shares for m in _shares(*s, parts=len(shares)))))
    caption = f"Uncut network, R = {_log(uncut)}"
    blocks.append(table(caption, LAYER_COLUMNS, layer_cells(study, "uncut")))
    if network is not None:
        caption = f"Network behind the cut, R = {_log(network)}"
        blocks.append(table(caption, LAYER_COLUMNS, layer_cells(study, "network")))
    return section("R by layer", paragraph(NORMS), *blocks)


def _shares(name: str, network: Mapping[str, Any], color: str, parts: int) -> list[Markup]:
    height = 1.0 + 0.26 * len(network["layers"])
    return _picture(
        f"shares-{name.split()[0]}",
        f"Bars of the share of each layer of the {name} in the sum; the table holds the numbers.",
        f"Share of each layer in the sum, {name}.",
        partial(draw_shares, facts=network, color=color),
        size=(5.6 if parts > 1 else WIDE[0], height),
    )


def _bounds(study: Mapping[str, Any]) -> Markup:
    bounds = study["network"]["bounds"]
    blocks = [paragraph(kappa_sentence(study))]
    if bounds is not None:
        size = bounds["size"]
        caption = (
            f"Norms beside their bounds: degree {size['degree']}, {size['monomials']:,} monomials, "
            f"{size['polynomials']:,} polynomials, τ = {size['tau']:.4g}"
        )
        blocks.append(table(caption, BOUND_COLUMNS, bound_cells(bounds)))
        held = "Every bound holds." if bounds["holds"] else "A bound is broken."
        blocks.append(paragraph(f"{held} A ratio of 1 means that the bound is attained."))
    return section("κ and the bounds of the theorem", *blocks)


def _advice(advice: Mapping[str, Any]) -> Markup:
    text = (
        "Polynomials are certified where the bound on κ, which knows their size only, is at most "
        f"1. It uses the {advice['constant']} constant, λ₁ = {advice['lambda_1']:.4g} for the "
        f"final layer and λ₂ = {advice['lambda_2']:.4g}. The bound is linear in τ, the largest ℓ₁ "
        "norm of a polynomial's coefficients, so there is a largest τ for every size. Below 1, no "
        "polynomial with a leading coefficient of 1 is certified. That does not say that its κ is "
        f"above 1: the bound may be far from attained. {SCOPE}"
    )
    columns, rows = advice_cells(advice)
    sizes = [[f"{n} × {s}", *rest] for n, s, *rest in rows]
    caption = f"Largest τ with κ ≤ 1 (* from {advice['tau']:g} on), polynomials × monomials"
    pictures = [
        picture
        for degree in sorted({row["degree"] for row in advice["rows"]})
        for picture in _picture(
            f"region-{degree}",
            f"Map of the largest certified tau over polynomials and monomials of degree {degree}.",
            _region_caption(advice, degree),
            partial(draw_region, advice=advice, degree=degree),
            size=(5.6, 4.2),
        )
    ]
    return section(
        "Heads that are certified",
        paragraph(text),
        paragraph(advice["sentence"]),
        table(caption, ["size", *columns[2:]], sizes),
        beside(*pictures),
    )


def _region_caption(advice: Mapping[str, Any], degree: int) -> str:
    setting = advice["setting"]
    fits = any(row["fits"] for row in advice["rows"] if row["degree"] == degree)
    where = "Blue sizes are" if fits else "No size is"
    text = f"Degree up to {degree}. {where} certified at τ = {advice['tau']:g}."
    marked = setting is not None and setting["degree"] == degree
    return f"{text} The diamond is the recommended size." if marked else text


def _corollary(corollary: Mapping[str, Any], name: str) -> Markup:
    columns, rows = margin_cells(corollary)
    count = corollary["uncut"]["margins"]["examples"]
    chart = _picture(
        "margins",
        "Curves of the margin loss of both networks against the normalised margin.",
        "Margin loss against the normalised margin. Further right, the complexity term is smaller "
        "at the same loss, but for the logarithm of the width.",
        partial(draw_margins, corollary=corollary, names=("uncut network", name)),
        size=(WIDE[0], 3.6),
    )
    return section(
        "Margins and the corollary",
        paragraph(corollary_sentence(corollary)),
        table(f"Quantiles of the margins of {count:,} training examples", columns, rows),
        *chart,
    )


def _picture(
    name: str,
    alt: str,
    caption: str,
    draw: Callable[[Axes], Any],
    size: tuple[float, float] = (5.6, 3.8),
) -> list[Markup]:
    """The figure, or nothing where matplotlib is missing."""
    if not can_draw():
        return []
    return [figure(drawing(name, alt, draw, size=size), caption, wide=size[0] > 6)]


def _log(network: Mapping[str, Any]) -> str:
    log = network["log10_R"]
    return "0" if log is None else f"10^{log:.2f}"


def _name(network: Mapping[str, Any]) -> str:
    return "network behind the cut" if network["bounds"] is None else "VI-Net"
