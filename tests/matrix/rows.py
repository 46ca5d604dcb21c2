"""Which versions are tried together."""

from __future__ import annotations

from dataclasses import dataclass

# What every row needs to run tests, in whatever version there is.
TESTING = ("pytest", "hypothesis", "sympy", "pillow")
# The least versions that pyproject.toml allows, but for torch, whose builds for a CPU are rare.
OLDEST = (
    "numpy==1.26.4",
    "scipy==1.13.1",
    "scikit-learn==1.6.1",
    "safetensors==0.5.3",
    "joblib==1.4.2",
    "filelock==3.13.4",
    "threadpoolctl==3.1.0",
    "rich==13.9.4",
    "jinja2==3.1.6",
    "cyclopts==5.4.0",
    "tomli-w==1.2.0",
)
# What Debian does not have, and pip gets without what it needs.
CLI = ("cyclopts==5.4.0", "tomli-w==1.2.0", "docstring-parser==0.18.0", "rich-rst==2.2.0")


@dataclass(frozen=True)
class Row:
    """An environment: an interpreter with pins, or a release of Debian with its own packages."""

    name: str
    python: str = "3.11"
    pins: tuple[str, ...] = ()  # before those of constraints.txt
    debian: str = ""  # a suite, whose torch is built for the CPU
    beside: tuple[str, ...] = ()  # what that suite has too old, from PyPI


ROWS = (
    Row("oldest numpy and others", pins=OLDEST),
    Row("oldest torch of PyPI", pins=("torch==2.6.0",)),
    Row("newest torch of PyPI", pins=("torch==2.15.0",)),
    Row("Python 3.12", "3.12"),
    Row("Python 3.13", "3.13"),
    Row("Debian 13", "3.13", debian="trixie", beside=("scikit-learn==1.6.1", *CLI)),
    Row("Debian testing", "3.14", debian="forky", beside=CLI),
)
