"""How benchmarks measure, print and keep their results."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from vinets.measure import machine

RESULTS = Path(__file__).parent / "results"


def seconds(run: Callable[[], Any], repeats: int = 5, warmup: int = 1) -> float:
    """Median wall-clock time of ``run``; waits for a GPU if there is one."""
    times = []
    for i in range(warmup + repeats):
        _wait()
        begin = time.perf_counter()
        run()
        _wait()
        if i >= warmup:
            times.append(time.perf_counter() - begin)
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
    """Print rows with the keys of the first as columns."""
    columns = list(rows[0])
    cells = [[_cell(row.get(c)) for c in columns] for row in rows]
    widths = [max(len(c), *(len(r[i]) for r in cells)) for i, c in enumerate(columns)]
    print(f"\n{title}")
    print("  ".join(c.ljust(w) for c, w in zip(columns, widths, strict=True)))
    for row in cells:
        print("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)), flush=True)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)
