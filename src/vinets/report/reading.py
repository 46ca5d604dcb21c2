"""Reads results of experiments, and says of a broken file which key is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from vinets.report.schema import Axis, Column, Experiment, Figure, Row, Rule, Series, Table, wrong

__all__ = ["read_results"]

T = TypeVar("T")


def read_results(folder: str | Path) -> list[Experiment]:
    """Experiments of a folder, in their order.

    Other files, JSON that is no experiment and folders inside it are passed over.

    Parameters
    ----------
    folder : str or Path
        Holds a JSON file for every experiment.

    Raises
    ------
    ValueError
        Where a file is broken, naming it and the key, or where there is no experiment at all.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(
            f"There is no folder {folder}. Pass the one into which vinets reproduce wrote."
        )
    found: dict[str, tuple[Path, Experiment]] = {}
    for path in sorted(folder.glob("*.json")):
        values: Any = _load(path) if path.is_file() else None
        if not _is_experiment(values):
            continue
        experiment = _experiment(_Node(values, path.name))
        name = experiment.experiment
        if name in found:
            raise ValueError(
                f"{found[name][0].name} and {path.name} are both results of {name!r}. Keep one."
            )
        found[name] = (path, experiment)
    if not found:
        raise ValueError(
            f"{folder} holds no results of experiments. Write some with vinets reproduce."
        )
    experiments = [experiment for _, experiment in found.values()]
    return sorted(experiments, key=lambda one: (one.order, one.experiment))


def _load(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text, parse_constant=lambda _: None)  # no NaN, no infinity
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path.name} is no valid JSON: {error}. Write it again, or remove it."
        ) from None


def _is_experiment(values: Any) -> bool:
    return (
        isinstance(values, dict)
        and "experiment" in values
        and not values.keys().isdisjoint({"title", "tables", "figures"})
    )


@dataclass(frozen=True)
class _Node:
    """A JSON object with its place, which every complaint names."""

    values: dict[str, Any]
    place: str

    def get(self, key: str, accepted: str, check: Callable[[Any], bool], *default: Any) -> Any:
        """The value of ``key``, or ``default`` where it is missing or null."""
        value = self.values.get(key)
        if value is None and default:
            return default[0]
        if key not in self.values:
            raise ValueError(f"{self.place}: '{key}' is missing. It must be {accepted}.")
        if not check(value):
            raise ValueError(f"{self.place}: {wrong(key, accepted, value)}")
        return value

    def text(self, key: str, *default: str | None) -> Any:
        return self.get(key, "a text", _is_text, *default)

    def number(self, key: str, *default: float | None) -> Any:
        return self.get(key, "a finite number", _is_number, *default)

    def flag(self, key: str, default: bool = False) -> bool:
        return bool(self.get(key, "true or false", lambda value: isinstance(value, bool), default))

    def mapping(self, key: str, *default: dict[str, Any]) -> dict[str, Any]:
        return dict(self.get(key, "an object", lambda value: isinstance(value, dict), *default))

    def many(
        self, key: str, accepted: str, check: Callable[[Any], bool], *default: Any
    ) -> tuple[Any, ...]:
        def is_list(value: Any) -> bool:
            return isinstance(value, list) and all(map(check, value))

        return tuple(self.get(key, f"a list of {accepted}", is_list, *default))

    def nodes(self, key: str, *default: Any) -> list[_Node]:
        items = self.many(key, "objects", lambda value: isinstance(value, dict), *default)
        return [_Node(item, f"{self.place}: {key}[{i}]") for i, item in enumerate(items)]

    def node(self, key: str) -> _Node:
        return _Node(self.mapping(key), f"{self.place}: {key}")

    def make(self, build: Callable[..., T], /, **parts: Any) -> T:
        """Build the dataclass; what it complains about gets a place."""
        try:
            return build(**parts)
        except ValueError as error:
            raise ValueError(f"{self.place}: {error}") from None


def _experiment(node: _Node) -> Experiment:
    return node.make(
        Experiment,
        experiment=node.text("experiment"),
        title=node.text("title"),
        order=node.number("order", 0),
        paper=node.text("paper", ""),
        text=node.many("text", "texts", _is_text, ()),
        tables=tuple(_table(part) for part in node.nodes("tables", ())),
        figures=tuple(_figure(part) for part in node.nodes("figures", ())),
        notes=node.many("notes", "texts", _is_text, ()),
        command=node.many("command", "texts", _is_text, ()),
        machine=node.mapping("machine", {}),
        seeds=node.many("seeds", "whole numbers", lambda value: type(value) is int, ()),
        settings=node.mapping("settings", {}),
        seconds=node.number("seconds", None),
    )


def _table(node: _Node) -> Table:
    names = ("label", "format", "std", "better")
    columns = tuple(
        part.make(
            Column,
            name=part.text("name"),
            **{name: part.text(name, "" if name == "label" else None) for name in names},
            difference=part.flag("difference", True),
        )
        for part in node.nodes("columns")
    )
    rows = tuple(
        Row(part.mapping("values"), part.mapping("paper", {}), part.text("section", None))
        for part in node.nodes("rows")
    )
    return node.make(
        Table, id=node.text("id"), caption=node.text("caption"), columns=columns, rows=rows
    )


def _figure(node: _Node) -> Figure:
    x, y = (
        axis.make(
            Axis, label=axis.text("label"), log=axis.flag("log"), format=axis.text("format", None)
        )
        for axis in (node.node("x"), node.node("y"))
    )
    return node.make(
        Figure,
        id=node.text("id"),
        title=node.text("title"),
        kind=node.text("kind", "lines"),
        x=x,
        y=y,
        series=tuple(_series(part) for part in node.nodes("series")),
        rules=tuple(Rule(r.text("name"), r.number("y")) for r in node.nodes("rules", ())),
    )


def _series(node: _Node) -> Series:
    has_std = node.values.get("std") is not None
    return node.make(
        Series,
        name=node.text("name"),
        x=node.many("x", "finite numbers", _is_number),
        y=node.many("y", "finite numbers or null", _is_number_or_none),
        labels=node.many("labels", "texts", _is_text, ()),
        std=node.many("std", "finite numbers or null", _is_number_or_none) if has_std else None,
        dashed=node.flag("dashed"),
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and _is_finite(value)


def _is_number_or_none(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond the range of floats
        return False
