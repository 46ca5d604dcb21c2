"""Sphinx configuration."""

from importlib.metadata import version as installed_version

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
    "sphinx.ext.mathjax",
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
