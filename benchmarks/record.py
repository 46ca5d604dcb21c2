"""How benchmarks measure, print and keep their results."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from vinets.core.files import slug
from vinets.measure import machine

if TYPE_CHECKING:
    from vinets.report import Column

RESULTS = Path(__file__).parent / "results"
FORMATS = {  # of floats, by what the name of a column looks like; the first that fits
    "log10_tau*": ".3g",
    "log10_*": ".2f",
    "*ahead_points": "+.2f",
    "*_points": ".2f",
    "zeros*": ".1%",
    "agreement*": ".1%",
    "*share": ".1%",
    "speed_ratio": ".2f×",
    "cost_ratio": ".2f×",
    "*images_per_second": ",.0f",
    "points_per_second*": ",.0f",
    "peak_MiB": ",.0f",
    "value": ",g",
    "moved_GiB": ",.1f",
    "machine_hours": ",.2f",
    "cost_dollars": ",.2f",
    "of_pooled*": ".3f",
    "deletion_*": ".3f",
    "insertion_*": ".3f",
    "*ratio": ",.1f×",
    "paper_seconds": ",.2f",
}


def seconds(
    run: Callable[[], Any],
    repeats: int = 5,
    warmup: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Median time of ``run`` by a clock; waits for a GPU if there is one."""
    times = []
    for i in range(warmup + repeats):
        _wait()
        begin = clock()
        run()
        _wait()
        if i >= warmup:
            times.append(clock() - begin)
    return statistics.median(times)


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def keep(name: str, rows: Sequence[dict[str, Any]], out: Path | None = None, **facts: Any) -> None:
    """Print the rows as a table and write them, with the environment, as JSON."""
    show(name, rows)
    module = sys.modules["__main__"].__spec__
    command = "python -m " + (module.name.removesuffix(".__main__") if module else "benchmarks")
    record = {"name": name, "command": command, **machine(), **facts, "rows": list(rows)}
    folder = out or RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(f"-> {path.name}\n")


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print rows with the keys of the first as columns, lists left out."""
    short = [{k: v for k, v in row.items() if not isinstance(v, list)} for row in rows]
    names = [key for key in short[0] if not key.endswith("_se")]
    try:
        from vinets.report import Row, Table, print_table

        columns = tuple(column(key, key, rows) for key in names)
        print_table(Table(slug(title), title, columns, tuple(map(Row, short))))
    except ImportError:  # a machine that only measures may be without what prints tables
        print(title, *map(json.dumps, short), sep="\n")


def column(key: str, label: str, rows: Iterable[Mapping[str, Any]]) -> Column:
    """A column of measured values; its format follows from its name and from what it holds.

    Standard errors stand beside the values, where the rows have them under ``<key>_se``.
    """
    from vinets.report import Column

    rows = list(rows)
    kinds = {type(row.get(key)) for row in rows}
    form = None
    if float in kinds:
        patterns = ((pattern, form) for pattern, form in FORMATS.items() if fnmatch(key, pattern))
        form = next(patterns, ("", ".3g"))[1]
    elif int in kinds:
        form = ","
    error = f"{key}_se" if any(f"{key}_se" in row for row in rows) else None
    return Column(key, label, form, error)
