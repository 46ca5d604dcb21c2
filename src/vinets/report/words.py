"""Read texts and columns of tables from files of a package, so that code holds the rules alone."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from vinets.report.values import Column, Row, Table


def read_toml(package: str, name: str) -> dict[str, Any]:
    """Read a TOML file of a package."""
    return tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8"))


class Words:
    """Texts, and columns of tables, by the parts of a page; those of a TOML file in a package."""

    def __init__(self, package: str, name: str) -> None:
        self.parts = read_toml(package, name)

    def text(self, part: str, name: str = "text", /, **facts: object) -> str:
        """Return a paragraph, with facts at its places."""
        return str(self.parts[part][name]).format(**facts)

    def table(
        self, part: str, id: str, caption: str, rows: Iterable[Row], *without: str, **facts: object
    ) -> Table:
        """Make a table without some of its columns, with facts in their headings and formats.

        Its columns are those of this ``id``, or else the ``columns`` of the part.
        """
        columns: list[Column] = []
        for one in self.parts[part].get(id) or self.parts[part]["columns"]:
            order = ("name", "label", "format", "std")  # that of a column which is a list
            known = one if isinstance(one, dict) else dict(zip(order, one, strict=False))
            shown: dict[str, Any] = {
                k: v.format(**facts) if isinstance(v, str) else v for k, v in known.items()
            }
            columns += [Column(**shown)] * (shown["name"] not in without)
        return Table(id, caption, tuple(columns), tuple(rows))
