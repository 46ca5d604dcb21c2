"""Render the raw results as Markdown tables into the documentation and the README.

    python -m benchmarks.tables

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.record import RESULTS
from vinets.report.formats import number

ROOT = Path(__file__).parents[1]
PAGES = (
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("benchmarks", "networks", "theory", "reproduction")
    ),
    ROOT / "README.md",
)

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
    "generators_cpu": {
        "network": "network",
        "cut": "cut",
        "monomials": "monomials",
        "polynomials": "polynomials",
        "seconds": "seconds",
        "paper_seconds": "the paper's seconds",
        "ratio": "ratio",
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
    "theory_complexity": {
        "network": "network",
        "layers": "layers",
        "log10_product": "log₁₀ ∏ρ‖W‖₂",
        "log10_R": "log₁₀ R",
        "log10_kappa": "log₁₀ κ",
        "log10_removed": "log₁₀ ∏ removed",
        "log10_head": "log₁₀ ∏ head",
        "seconds": "seconds",
        "accuracy_points": "accuracy, %",
    },
    "theory_sizes": {
        "network": "network",
        "degree": "d",
        "monomials": "S",
        "polynomials": "N",
        "tau_before_training": "τ as built",
        "tau": "τ as trained",
    },
    "theory_bounds": {
        "network": "network",
        "quantity": "quantity",
        "source": "source",
        "actual": "actual",
        "bound": "bound",
        "tightness": "actual / bound",
        "holds": "holds",
    },
    "theory_corollary": {
        "network": "network",
        "margin_error": "L₀",
        "median_margin": "median margin",
        "width": "ω",
        "log10_complexity_term": "log₁₀ of the complexity term there",
        "log10_quotient": "log₁₀ of its quotient to the uncut network's",
    },
    "theory_advice": {
        "network": "network",
        "before": "between cut and polynomials",
        "polynomials": "N",
        "monomials": "S",
        **{f"log10_tau_{d}": f"d = {d}" for d in range(1, 6)},
    },
    "theory_norms": {
        "source": "from",
        "layer": "layer",
        "matrix": "as a matrix",
        "spectral": "‖W‖₂",
        "spectral_error": "relative error",
        "two_one": "‖Wᵀ‖₂,₁",
        "two_one_error": "relative error",
    },
    "theory_cancellation": {
        "degree": "d",
        "amplification": "amplification",
        "float64_median": "float64, median",
        "float64_worst": "float64, worst",
        "float32_median": "float32, median",
        "float32_worst": "float32, worst",
    },
    "theory_manifolds": {
        "dimension": "dimension",
        "points": "points",
        "sphere": "sphere",
        "torus": "torus",
        "swiss_roll": "Swiss roll",
        "largest_error_share": "largest error",
    },
    "dimension": {
        "cut": "cut",
        "removed": "share of convolutions removed",
        "dimension": "dimension",
        "dimension_std": "std over classes",
        "dimension_std_over_seeds": "std over seeds",
        "monomials": "monomials",
        "monomials_std_over_seeds": "std over seeds",
        "polynomials": "polynomials",
    },
}

# Tables that show a part of a file of another name, or some of its rows.
FILES = {"theory_sizes": "theory_complexity"}
ADVISED = {classes * count for classes in (10, 100) for count in (128, 32, 4, 1)}
SHOWN: dict[str, Callable[[dict[str, Any]], bool]] = {
    "theory_sizes": lambda row: "tau" in row,
    "theory_advice": lambda row: row["polynomials"] in ADVISED,
}

# Runs of `vinets build` side by side, one row a head: the table's name, and the runs by title.
BUILDS: dict[str, dict[str, str]] = {
    "cifar10_local": {"Tiny": "cifar10/tiny-local", "Small": "cifar10/small-local"},
    "cifar10_global": {"Tiny": "cifar10/tiny", "Small": "cifar10/small"},
}
BUILDS["cifar10_short"] = BUILDS["cifar10_local"]  # without speeds

CALLS = {"paper_calls"}  # a sentence on the log of `vinets reproduce`
# Tables of `vinets reproduce`: the experiment, and which of its tables.
PAPER: dict[str, tuple[str, str]] = {
    "paper_claims": ("claims", "claims"),
    "paper_baselines": ("fig-baselines", "random"),
    "paper_dimension": ("fig-dimension", "dimension"),
    "paper_generators": ("table-generators", "generators"),
    "paper_readings": ("table-generators", "generators-readings"),
    "paper_variants": ("table-efficiency", "variants"),
    "paper_choices": ("table-choices", "choices"),
}


def render(name: str) -> str:
    """The table of one result file, with a line on where it was made."""
    record = json.loads((RESULTS / f"{FILES.get(name, name)}.json").read_text())
    columns = COLUMNS[name]
    lines = ["| " + " | ".join(columns.values()) + " |", "|" + "---|" * len(columns)]
    for row in filter(SHOWN.get(name), record["rows"]):
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
    tables = [{row["name"]: row for row in [run["uncut"], *run["rows"]]} for run in runs.values()]
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


def render_paper(name: str) -> str:
    """A table of an experiment: our numbers, those of the paper in brackets."""
    experiment, wanted = PAPER[name]
    record = json.loads((RESULTS / "paper" / f"{experiment}.json").read_text())
    table = next(each for each in record["tables"] if each["id"] == wanted)
    columns = table["columns"]
    lines = ["| " + " | ".join(column["label"] for column in columns) + " |"]
    lines.append("|---|" + "".join("---:|" if c["format"] else "---|" for c in columns[1:]))
    section = None
    for row in table["rows"]:
        if row["section"] != section:
            section = row["section"]
            lines.append(f"| **{section}** |" + " |" * (len(columns) - 1))
        lines.append("| " + " | ".join(_paper_cell(column, row) for column in columns) + " |")
    machine = record["machine"]
    made = f"{machine.get('gpu') or machine['processor']}, torch {machine['torch']}"
    return "\n".join([*lines, "", f"<small>`{' '.join(record['command'])}`, {made}.</small>"])


def render_calls(name: str) -> str:
    """How long the GPU was asked for."""
    path = RESULTS / "paper" / "calls.jsonl"
    calls = [json.loads(line) for line in path.read_text().splitlines()]
    seconds = [call["seconds"] for call in calls]
    machine = calls[0]["machine"]
    return (
        f"{sum(call['runs'] for call in calls)} runs in {len(calls)} calls took "
        f"{sum(seconds) / 60:.0f} minutes, the longest call {max(seconds) / 60:.1f}, with "
        f"{min(call['jobs'] for call in calls)} to {max(call['jobs'] for call in calls)} processes "
        f"side by side on one {machine['gpu']}."
    )


def _paper_cell(column: dict[str, Any], row: dict[str, Any]) -> str:
    form, values, paper = column["format"], row["values"], row.get("paper", {})
    ours, theirs = values.get(column["name"]), paper.get(column["name"])
    text = "" if ours is None else number(ours, form, values.get(column.get("std")))
    return text if theirs is None else f"{text} ({number(theirs, form)})"


def _cell(key: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if key.startswith("log10_"):
            return f"{10**value:.3g}" if key.startswith("log10_tau") else f"{value:.2f}"
        if key.endswith("_points"):
            return f"{value:+.2f}" if "ahead" in key else f"{value:.2f}"
        if key.startswith(("zeros", "agreement")) or key.endswith("share"):
            return f"{100 * value:.1f} %"
        if key.endswith("ratio"):
            digits = 0 if value >= 10 else 2 if key == "speed_ratio" else 1
            return f"{value:,.{digits}f}×"
        if key == "paper_seconds":
            return f"{value:,.2f}"
        return f"{value:.3g}"
    return str(value).replace("||", "‖")  # two bars would end the cell


def fill(text: str) -> str:
    """Replace every marked table in a page by its current rendering."""

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        kinds = ((BUILDS, render_builds), (PAPER, render_paper), (CALLS, render_calls))
        table = next((make(name) for names, make in kinds if name in names), None) or render(name)
        return f"<!-- table: {name} -->\n{table}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->.*?<!-- end -->", replacement, text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text()))
        print(f"filled {page.relative_to(ROOT)}")
