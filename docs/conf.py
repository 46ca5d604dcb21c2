"""Sphinx configuration."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "vinets"
author = "The vinets developers"
copyright = "2026, The vinets developers"
release = installed_version("vinets")
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "numpydoc",
    "mathml",
    "notebooks",
    "public_names",
]

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_ext"]
nitpicky = False  # check.py looks for references that lead nowhere; types are plain words

myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3  # so that [text](page.md#a-heading) resolves

autodoc_typehints = "none"  # types stand in the signature and in numpydoc's parameter lists
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # pages name the members that matter

html_theme = "furo"  # with search, a dark mode and a layout for narrow screens
html_title = f"vinets {release}"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_math_renderer = "mathml"
linkcheck_anchors = False
