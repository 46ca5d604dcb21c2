"""Sphinx configuration."""

from importlib.metadata import version as installed_version

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

project = "vinets"
author = "The vinets developers"
copyright = "2026, The vinets developers"
release = installed_version("vinets")
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "numpydoc",
]

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
nitpicky = False

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3  # so that [text](page.md#a-heading) resolves

autosummary_generate = True
autodoc_typehints = "none"  # types stand in the signature and in numpydoc's parameter lists
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # autosummary lists them; twice would be a warning each

html_theme = "furo"
html_title = f"vinets {release}"
html_math_renderer = "mathml"


def _inline_math(translator, node):
    translator.body.append(convert(node.astext()))
    raise SkipNode


def _display_math(translator, node):
    translator.body.append(f"<p>{convert(node.astext(), display='block')}</p>")
    raise SkipNode


def setup(app):
    """Write formulas as MathML, which browsers show without loading anything."""
    app.add_html_math_renderer("mathml", (_inline_math, None), (_display_math, None))
