"""The paper's tables and figures, over runs that they share."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from vinets.report.values import Column, Row, Table


def read_toml(name: str) -> dict[str, Any]:
    """Read a file of this folder."""
    return tomllib.loads(files(__name__).joinpath(name).read_text(encoding="utf-8"))


# Sentences and headings lie in a file of their own, so that code holds the rules alone.
_WORDS = read_toml("experiments.toml")


def heading(experiment: str) -> tuple[str, str, str, float]:
    """Return what an :class:`vinets.paper.plan.Experiment` begins with."""
    words = _WORDS[experiment]
    return experiment, words["title"], words["paper"], words["order"]


def text(experiment: str, part: str = "text", /, **facts: object) -> str:
    """Return a paragraph of an experiment or a page, with facts at its places."""
    return str(_WORDS[experiment][part]).format(**facts)


def table(
    experiment: str, id: str, caption: str, rows: Iterable[Row], *without: str, **facts: object
) -> Table:
    """Make a table of an experiment without some of its columns, with facts in their headings.

    The columns are those of this ``id``.
    """
    columns: list[Column] = []
    for one in _WORDS[experiment].get(id) or _WORDS[experiment]["columns"]:
        order = ("name", "label", "format", "std")  # that of a column which is a list
        parts = one if isinstance(one, dict) else dict(zip(order, one, strict=False))
        shown: dict[str, Any] = {
            k: v.format(**facts) if isinstance(v, str) else v for k, v in parts.items()
        }
        columns += [Column(**shown)] * (shown["name"] not in without)
    return Table(id, caption, tuple(columns), tuple(rows))


def words_of(claim: str, **facts: object) -> tuple[str, str]:
    """Return a claim of the paper in our words, and what was found of it here."""
    says, found = _WORDS["judged"][claim]
    return says.format(**facts), found.format(**facts)
