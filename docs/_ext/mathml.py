"""Write formulas as MathML, which browsers show without loading anything."""

from __future__ import annotations

import re
import unicodedata

from docutils.nodes import SkipNode
from latex2mathml.converter import convert
from sphinx.application import Sphinx

SIZED = re.compile(r"\\[bB]igg?([lr])(?![a-zA-Z])")
STYLED = re.compile(r'<(m[io]) mathvariant="(double-struck|script|bold)">(\w)</\1>')


def mathml(latex: str, display: str = "inline") -> str:
    r"""MathML of a formula.

    Browsers ignore ``mathvariant`` but for upright letters, so styled letters become characters
    of their own: ℝ, 𝒪, 𝐖. Brackets of a given size would not grow below an exponent, so they become
    those of ``\left`` and ``\right``. Bars of norms keep their size, unless these ask for more.
    """
    latex = SIZED.sub(lambda match: {"l": r"\left", "r": r"\right"}[match[1]], latex)
    if display == "block":  # inside of such brackets, limits would move beside their sums
        latex = re.sub(r"\\(sum|prod)_", r"\\\1\\limits_", latex)
    made = STYLED.sub(_letter, convert(latex, display=display))
    return made.replace("<mo>&#x02016;</mo>", '<mo stretchy="false">&#x02016;</mo>')


def _letter(match: re.Match[str]) -> str:
    tag, style, letter = match.groups()
    case = "CAPITAL" if letter.isupper() else "SMALL"
    name = f"{style.upper()} {case} {letter.upper()}"
    try:
        styled = unicodedata.lookup(f"MATHEMATICAL {name}")
    except KeyError:  # ℝ, ℒ and a few others are older than that block
        styled = unicodedata.lookup(name)
    return f"<{tag}>{styled}</{tag}>"


def _inline(translator, node):
    translator.body.append(mathml(node.astext()))
    raise SkipNode


def _block(translator, node):
    translator.body.append(f'<p class="formula">{mathml(node.astext(), "block")}</p>')
    raise SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True}
