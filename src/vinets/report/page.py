"""A page of HTML that needs nothing but itself.

Every function takes plain text, which it escapes, or :data:`Markup` that another one returned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import NewType

__all__ = [
    "Markup",
    "beside",
    "code",
    "facts",
    "figure",
    "listing",
    "page",
    "paragraph",
    "section",
    "table",
]

Markup = NewType("Markup", str)
"""HTML that is safe to put into a page as it is."""


def page(title: str, lead: Iterable[Markup], sections: Iterable[Markup], footer: str) -> str:
    """A whole page; style and pictures are inside it.

    Parameters
    ----------
    title : str
        Of the window and of the first heading.
    lead : iterable of Markup
        What stands before the first section.
    sections : iterable of Markup
        See :func:`section`.
    footer : str
        Small print.
    """
    style = files("vinets.report").joinpath("style.css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{escape(title)}</h1>
{_joined(lead)}
</header>
<main>
{_joined(sections)}
</main>
<footer>{escape(footer)}</footer>
</body>
</html>
"""


def section(title: str, *blocks: Markup) -> Markup:
    """A heading with what belongs to it."""
    return Markup(f"<section>\n<h2>{escape(title)}</h2>\n{_joined(blocks)}\n</section>")


def paragraph(text: str) -> Markup:
    """Running text.

    Examples
    --------
    >>> paragraph("1 < 2 & 3")
    '<p>1 &lt; 2 &amp; 3</p>'
    """
    return Markup(f"<p>{escape(text, quote=False)}</p>")


def listing(items: Iterable[str]) -> Markup:
    """A list of sentences."""
    rows = "\n".join(f"<li>{escape(item, quote=False)}</li>" for item in items)
    return Markup(f"<ul>\n{rows}\n</ul>")


def facts(pairs: Iterable[tuple[str, str, str]]) -> Markup:
    """Large numbers side by side: what it is, the number, a remark."""
    cells = "\n".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(remark)}</small></dd></div>"
        for name, value, remark in pairs
    )
    return Markup(f'<dl class="facts">\n{cells}\n</dl>')


def table(
    caption: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    marked: Collection[int] = (),
) -> Markup:
    """A table that scrolls sideways where the screen is narrow.

    Parameters
    ----------
    caption : str
        What it shows.
    columns : sequence of str
        Headings. The first column names its row.
    rows : iterable of sequence of str
        Cells, as many as there are columns.
    marked : collection of int, default=()
        Rows to set off from the others.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = []
    for index, (first, *rest) in enumerate(rows):
        if len(rest) + 1 != len(columns):
            raise ValueError(
                f"Row {index} of the table {caption!r} must have {len(columns)} cells. "
                f"Got {len(rest) + 1} instead."
            )
        kind = ' class="marked"' if index in marked else ""
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        body.append(f'<tr{kind}><th scope="row">{escape(first)}</th>{cells}</tr>')
    return Markup(
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">\n'
        f"<table>\n<caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{_joined(body)}\n</tbody>\n</table>\n</div>"
    )


def figure(picture: Markup, caption: str, *, wide: bool = False) -> Markup:
    """A picture with what it shows; a wide one scrolls sideways where the screen is narrow.

    The picture carries its own text for those who cannot see it: :func:`vinets.report.drawing`.
    """
    text = escape(caption, quote=False)
    kind = "scroll wide" if wide else "scroll"
    return Markup(
        f'<figure>\n<div class="{kind}">\n{picture}\n</div>\n'
        f"<figcaption>{text}</figcaption>\n</figure>"
    )


def beside(*blocks: Markup) -> Markup:
    """Blocks side by side where there is room."""
    return Markup(f'<div class="columns">\n{_joined(blocks)}\n</div>')


def code(text: str, label: str = "") -> Markup:
    """Lines as they are; a label makes them a picture for those who cannot see it."""
    role = f' role="img" aria-label="{escape(label)}"' if label else ""
    return Markup(f'<pre tabindex="0"{role}>{escape(text, quote=False)}</pre>')


def _joined(blocks: Iterable[str]) -> str:
    return "\n".join(blocks)
