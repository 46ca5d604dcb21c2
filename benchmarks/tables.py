"""Render the raw results as Markdown tables into the documentation and the README.

    python -m benchmarks.tables

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "networks.md", ROOT / "README.md")

COLUMNS: dict[str, dict[str, str]] = {
    "engine": {
        "problem": "problem",
        "terms": "terms",
        "generators": "generators",
        "vinets_s": "vinets, s",
        "gram_loop_s": "gram loop, s",
        "gram_loop_ratio": "ratio",
        "loop_s": "loop, s",
        "loop_ratio": "ratio",
    },
    "oracles": {
        "oracle": "oracle",
        "generators": "generators",
        "seconds": "seconds",
        "kept": "kept",
        "zeros": "zeros",
        "zeros_in_prefix": "zeros in prefix",
    },
    "gpu": {
        "problem": "problem",
        "terms": "terms",
        "generators": "generators",
        "batched_s": "GPU, s",
        "cpu_processes_s": "CPU, s",
        "ratio": "ratio",
        "same_decisions": "same decisions",
    },
    "memory": {
        "memory_limit_MiB": "limit, MiB",
        "border_degree_3": "border, degree 3",
        "generators": "generators",
        "coefficients_MiB": "coefficients, MiB",
        "extra_memory_MiB": "extra memory, MiB",
        "seconds": "seconds",
        "same_as_unlimited": "same result",
    },
    "growth": {
        "series": "doubled",
        "points": "m",
        "variables": "n",
        "terms": "terms",
        "generators": "generators",
        "seconds": "seconds",
        "exponent": "exponent",
        "overall_exponent": "last two",
    },
    "precision": {
        "rule": "rule",
        "psi": "psi",
        "precision": "precision",
        "path": "path",
        "terms": "terms",
        "generators": "generators",
        "agreement": "agreement",
        "largest_mean_square": "worst / psi",
    },
    "digits": {
        "cut": "cut",
        "head": "head",
        "accuracy_points": "accuracy, %",
        "std_points": "std over seeds",
        "ours_ahead_points": "VI-Net ahead by",
        "head_numbers": "numbers in the head",
    },
    "speed": {
        "cut": "cut",
        "network": "network",
        "images_per_second": "images/s",
        "images_per_second_std": "std",
        "speed_ratio": "to the uncut network",
        "mflops": "MFLOPs an image",
    },
    "layer": {
        "network": "network",
        "layer_share": "polynomial layer / backbone",
        "head_share": "whole head / backbone",
        "mflops": "MFLOPs an image",
        "mflops_backbone": "of these in the backbone",
    },
}

# Runs of `vinets build` side by side, one row a head: the table's name, and the runs by title.
BUILDS: dict[str, dict[str, str]] = {
    "cifar10_local": {"Tiny": "cifar10/tiny-local", "Small": "cifar10/small-local"},
    "cifar10_global": {"Tiny": "cifar10/tiny", "Small": "cifar10/small"},
}
BUILDS["cifar10_short"] = BUILDS["cifar10_local"]  # without speeds


def render(name: str) -> str:
    """The table of one result file, with a line on where it was made."""
    record = json.loads((RESULTS / f"{name}.json").read_text())
    columns = COLUMNS[name]
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    for row in record["rows"]:
        lines.append("| " + " | ".join(_cell(key, row.get(key)) for key in columns) + " |")
    made = [record["command"], record.get("gpu") or record["processor"], f"torch {record['torch']}"]
    return "\n".join([*lines, "", f"<small>`{made[0]}`, {made[1]}, {made[2]}.</small>"])


def render_builds(name: str) -> str:
    """Accuracy, stored numbers and speed of all heads behind two cuts."""
    runs = {
        title: json.loads((RESULTS / f"{file}.json").read_text())
        for title, file in BUILDS[name].items()
    }
    titles = ["accuracy, %", "numbers", "images/s"][: 2 if name.endswith("short") else 3]
    header = ["network", *(f"{title}: {column}" for title in runs for column in titles)]
    lines = ["| " + " | ".join(header) + " |", "|---|" + "---:|" * (len(header) - 1)]
    tables = [
        {row["name"]: row for row in [run["baseline"], *run["rows"]]} for run in runs.values()
    ]
    for head in tables[0]:
        cells = [f"**{head}**" if head == "VI-Net" else head]
        for table in tables:
            row = table[head]
            speed = f"{row['images_per_second']:,.0f} ± {row['images_per_second_std']:,.0f}"
            every = [f"{100 * row['accuracy']:.2f}", f"{row['parameters']:,}", speed]
            cells += every[: len(titles)]
        lines.append("| " + " | ".join(cells) + " |")
    commands = [f"`{' '.join(w for w in run['command'] if w != '-q')}`" for run in runs.values()]
    machine = next(iter(runs.values()))["machine"]
    made = f"{machine['gpu'] or machine['processor']}, torch {machine['torch']}, one seed"
    return "\n".join([*lines, "", f"<small>{'<br>'.join(commands)}<br>{made}.</small>"])


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if key.endswith("_points"):
            return f"{value:+.2f}" if "ahead" in key else f"{value:.2f}"
        if key.startswith(("zeros", "agreement")) or key.endswith("share"):
            return f"{100 * value:.1f} %"
        if key.endswith("ratio"):
            digits = 0 if value >= 10 else 2 if key == "speed_ratio" else 1
            return f"{value:.{digits}f}×"
        return f"{value:.3g}"
    return str(value)


def fill(text: str) -> str:
    """Replace every marked table in a page by its current rendering."""

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        table = render_builds(name) if name in BUILDS else render(name)
        return f"<!-- table: {name} -->\n{table}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->.*?<!-- end -->", replacement, text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text()))
        print(f"filled {page.relative_to(ROOT)}")
