"""Render the raw results as Markdown tables into the documentation and the README.

    python -m benchmarks.tables

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.distance import ood_table
from benchmarks.elsewhere import table as heads_elsewhere
from benchmarks.ideal_study import study_table
from benchmarks.pretrained import networks_table, recipes_table
from benchmarks.record import RESULTS, column
from benchmarks.rivals.frontier import compared, frontier_table
from benchmarks.rivals.frontier import results as rival_results
from benchmarks.rivals.table import choice_table as rival_choices
from benchmarks.search import found_table, gap_table, read_search, searches
from benchmarks.tuning import FOLDERS, choice_table, rate_table, second_table, start_table
from benchmarks.tuning_tables import early_table, short_table, variant_table
from benchmarks.zoo import NAMES as ZOO_NAMES
from vinets.core.files import read_json
from vinets.core.plain import from_plain
from vinets.heads import ProductsHead
from vinets.report import Column, ExperimentResult, Row, Table, markdown
from vinets.runs.compare import UNCUT, BuildResult
from vinets.search.page import finalists_table

ROOT = Path(__file__).parents[1]
PAGES = (
    *(
        ROOT / "docs" / f"{name}.md"
        for name in (
            "architecture",
            "install",
            "pretrained",
            "compress",
            "benchmarks",
            "networks",
            "theory",
            "reproduction",
            "tuning",
            "frontier",
            "machines",
            "scale",
            "explain",
            "distance",
            "zoo",
        )
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
    "sparse": {
        "problem": "problem",
        "terms": "terms",
        "generators": "generators",
        "loop_cpu_s": "prior art, s",
        "exact_cpu_s": "closed form, s",
        "bpcg_cpu_s": "`bpcg`, s",
        "bpcg_ratio": "ratio",
        "zeros_loop": "prior art, zeros",
        "zeros_bpcg": "`bpcg`, zeros",
    },
    "small": {
        "points": "points",
        "rows": "rows",
        "n": "variables",
        "algorithm": "algorithm",
        "fit_ms": "`fit`, ms",
        "fit_loop_ms": "loop, ms",
        "fit_ratio": "ratio",
        "transform_ms": "`transform`, ms",
        "transform_loop_ms": "products, ms",
        "transform_floor_ms": "scikit-learn, ms",
    },
    "small_monomials": {
        "points": "points",
        "terms": "monomials",
        "plan_ms": "plan, ms",
        "polynomial_features_ms": "`PolynomialFeatures`, ms",
        "ratio": "ratio",
    },
    "eigenvalues": {
        "seed": "seed",
        "terms": "terms",
        "generators": "generators",
        "bare_products_cpu_s": "bare products, s",
        "vinets_cpu_s": "ABM, s",
        "loop_cpu_s": "loop, s",
        "ratio": "ratio",
    },
    "cluster": {
        "backend": "backend",
        "workers": "workers",
        "seconds": "seconds",
        "one_to_two_ratio": "one worker to two",
        "against_none_ratio": "against no backend",
        "overhead_seconds": "overhead, s",
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
    "heads": {
        "network": "network",
        "cut": "cut",
        "head": "head",
        "batch": "batch",
        "of_pooled_plain": "as in training",
        "of_pooled": "in use",
        "of_pooled_floor": "bare products",
        "head_share": "extra operations",
    },
    "heads_cuda_amp_recorded_channels_last": {
        "cut": "cut",
        "head": "head",
        "of_pooled_plain": "plain operations",
        "of_pooled": "one kernel",
        "head_share": "extra operations",
        "pooled_images_per_second": "pooled, images/s",
    },
    "heads_cuda_compiled_half_recorded": {
        "cut": "cut",
        "head": "head",
        "of_pooled": "one kernel",
        "head_share": "extra operations",
        "pooled_images_per_second": "pooled, images/s",
    },
    "devices": {
        "variables": "variables",
        "cpu_s": "CPU, s",
        "cuda_s": "GPU, s",
        "chosen": "`auto`",
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
        "head_numbers": "parameters in the head",
    },
    "speed": {
        "cut": "cut",
        "network": "network",
        "images_per_second": "images/s",
        "images_per_second_std": "std",
        "speed_ratio": "relative to uncut",
        "mflops": "MFLOPs per image",
    },
    "layer": {
        "network": "network",
        "layer_share": "polynomial layer / backbone",
        "head_share": "whole head / backbone",
        "mflops": "MFLOPs per image",
        "mflops_backbone": "of these in the backbone",
    },
    "training": {
        "head": "head",
        "numbers": "parameters",
        "images_per_second": "images/s in training",
        "floor_images_per_second": "images/s of its products alone",
        "cost_ratio": "time / floor",
    },
    "training_joint": {
        "teacher": "teacher",
        "images_per_second": "images/s, joint tuning",
        "plain_images_per_second": "plain loop",
        "speed_ratio": "ratio",
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
    "streaming": {
        "model": "model",
        "points": "points",
        "terms": "terms",
        "generators": "generators",
        "path": "path",
        "passes": "passes",
        "in_memory_us_per_point": "in memory, µs per point",
        "streamed_us_per_point": "streamed, µs per point",
        "streamed_to_in_memory": "streamed / in memory",
        "same_decisions": "same decisions",
        "largest_difference_of_coefficients": "largest difference of coefficients",
    },
    "imagenet_stages": {
        "stage": "stage",
        "seconds_100": "100 classes, s",
        "seconds_300": "300 classes, s",
        "seconds_1000": "1,000 classes, s",
        "exponent": "exponent",
        "peak_GiB": "peak so far, GiB",
    },
    "resnet50": {
        "stage": "stage",
        "seconds": "seconds",
        "cpu_seconds": "of the CPU",
        "peak_GiB": "peak so far, GiB",
    },
    "imagenet_assumptions": {"name": "assumed", "value": "value", "of": "of what"},
    "imagenet_plan": {
        "stage": "stage",
        "measured_seconds": "measured, s",
        "exponent": "exponent",
        "machine_hours": "machine hours",
        "moved_GiB": "moved, GiB",
        "memory_GiB": "memory, GiB",
        "cost_dollars": "cost, $",
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

for _name in ("resnet18", "resnet34"):
    COLUMNS[f"distance_classify_{_name}"] = {
        "cut": "cut",
        "examples": "examples per class",
        "nearest_mean_points": "nearest mean",
        "lda_points": "shrunk LDA",
        "qda_points": "QDA",
        "knn_points": "kNN",
        "ridge_points": "ridge",
        "distances_points": "distances",
        "ridge_seconds": "ridge, CPU s",
        "distances_seconds": "distances, CPU s",
    }
for _name in ("faithful_digits", "faithful_cifar10_early", "faithful_cifar10"):
    COLUMNS[_name] = {
        "method": "map",
        "deletion_mean": "deletion, to the mean",
        "insertion_mean": "insertion, from the mean",
        "deletion_blurred": "deletion, to the blurred",
        "insertion_blurred": "insertion, from the blurred",
    }

for _name in ("streaming_growth", "streaming_large"):
    COLUMNS[_name] = {
        "points": "points",
        "terms": "terms",
        "generators": "generators",
        "passes": "passes",
        "data_GiB_as_float64": "data, GiB",
        "seconds": "seconds",
        "of_it_drawing": "of them drawing",
        "points_per_second": "points/s",
        "points_per_second_and_pass": "points/s of a pass",
        "peak_MiB": "peak memory, MiB",
    }

# Tables that show a part of a file of another name, or some of its rows.
COLUMNS |= {f"{name}_gpu": COLUMNS[name] for name in ("training", "training_joint")}
COLUMNS["training_joint_gpu"] = COLUMNS["training_joint"] | {
    "recorded_images_per_second": "steps recorded",
    "recorded_ratio": "ratio",
}
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

# Tables of stores of trials: how it is made, the plan, and what else is to be said.
TUNING: dict[str, tuple[Callable[[Path], tuple[Table, dict[str, Any]]], str, str]] = {
    "tuning_choices": (choice_table, "choices", "one seed, 5,000 held-out images"),
    "tuning_second": (second_table, "second", "2 seeds, 5,000 held-out images"),
    "tuning_rates": (rate_table, "rates", "one seed, 5,000 held-out images"),
    "tuning_starts": (start_table, "digits", "5 seeds, mean and deviation"),
    "tuning_early": (early_table, "early", "3 seeds, mean and deviation"),
    "tuning_short": (short_table, "early", "3 seeds, mean and deviation"),
    "tuning_variants": (variant_table, "variants", "3 seeds, mean and deviation"),
}
RIVALS = {"rivals_choices", "rivals_frontier"}
IDEALS = {f"tuning_{name}": name for name in ("refit", "beside", "monomials")}
SEARCHES = {  # results of `vinets compress`, by file
    "search_digits": "digits",
    "search_latency": "resnet18-latency=60%@cuda,batch=256-0",
}
FOUND = {"search_found", "search_gap"}  # of those on CIFAR
# the same, by folder
ELSEWHERE = {f"elsewhere_{name}": name for name in ("fashion", "vit", "text")}
PACKAGE = {"pretrained": networks_table, "recipes": recipes_table}  # of the package itself
MATRIX = {"matrix"}  # versions that were tried together
OOD = {"distance_ood"}
ZOO = {"zoo"}  # networks of others
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

# The same on digits, as `make demo` makes them.
DEMO: dict[str, tuple[str, str]] = {
    "demo_choices": ("table-choices", "choices"),
    "demo_kept": ("fig-kept", "kept"),
}
# Experiments in folders of their own: the folder, the experiment, which of its tables.
OTHERS: dict[str, tuple[str, str, str]] = {
    "kept_cifar10": ("kept", "fig-kept", "kept"),
    "oracles_cuts": ("oracles", "table-oracles", "oracles-cuts"),
    "oracles_claims": ("oracles", "table-oracles", "oracles-claims"),
}
SHORT = {"demo_short"}  # heads behind one cut of the digits network
SHORT_CUT = "pool"
SHORT_HEADS = ("linear, flat", "MLP", "linear, components", "random monomials")


NORMS = {"||_2,1": "‖₂,₁", "||_2": "‖₂", "||": "‖", "^T": "ᵀ"}


def render(name: str) -> str:
    """The table of one result file, with a line on where it was made."""
    record = read_json(RESULTS / f"{FILES.get(name, name)}.json")
    rows = [_shown(row) for row in filter(SHOWN.get(name), record["rows"])]
    columns = tuple(column(key, label, rows) for key, label in COLUMNS[name].items())
    table = Table(name, name, columns, tuple(map(Row, rows)))
    return _with_source(table, [record["command"]], record)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what is missing, in today's words; tau itself, not its logarithm."""
    known = {key: value for key, value in row.items() if value is not None}
    if "method" in known:  # of maps that explain a product head, which vinets 0.2 called VI-Net
        known["method"] = known["method"].replace("VI-Net", ProductsHead.label)
    for old, new in NORMS.items():  # in the theorem's quantities, as vinets 0.2 wrote them
        if "quantity" in known:
            known["quantity"] = known["quantity"].replace(old, new)
    return {key: 10**v if key.startswith("log10_tau") else v for key, v in known.items()}


def render_builds(name: str) -> str:
    """Accuracy, parameters and speed of all heads behind two cuts."""
    runs = {
        title: BuildResult.read(RESULTS / f"{file}.json") for title, file in BUILDS[name].items()
    }
    columns, rows = [Column("network")], {}
    for title, run in runs.items():
        columns += [
            Column(f"{title} accuracy", f"{title}: accuracy, %", ".2f"),
            Column(f"{title} parameters", f"{title}: parameters", ","),
            Column(f"{title} speed", f"{title}: images/s", ",.0f", f"{title} std"),
        ][: 2 if name.endswith("short") else 3]
        known = {UNCUT: (run.timed.uncut, run.timed.parameters)}
        known |= {head: (one.accuracy, one.parameters) for head, one in run.networks.items()}
        for head, (accuracy, parameters) in known.items():
            rows.setdefault(head, {"network": head}).update(
                {
                    f"{title} accuracy": 100 * accuracy,
                    f"{title} parameters": parameters,
                    f"{title} speed": run.timed.speeds[head].mean,
                    f"{title} std": run.timed.speeds[head].std,
                }
            )
    marked = tuple(Row(row, marked=head == "VI-Net") for head, row in rows.items())
    commands = [" ".join(w for w in run.command if w != "-q") for run in runs.values()]
    machine = next(iter(runs.values())).machine
    return _with_source(Table(name, name, tuple(columns), marked), commands, machine, ", one seed")


def render_tuning(name: str) -> str:
    """A table of trials of joint tuning."""
    make, plan, more = TUNING[name]
    table, machine = make(RESULTS / "tuning" / FOLDERS.get(plan, "test"))
    command = f"python -m benchmarks.tuning run {plan}"
    return _with_source(table, [command], machine, f", {more}")


def render_rivals(name: str) -> str:
    """Recipes that were tried with rivals, or all networks that stand beside each other."""
    if name == "rivals_frontier":
        paths = rival_results()
        timed = [read_json(path) for path in paths if path.is_file()]
        lines = [f"python -m benchmarks.rivals table {' '.join(_names(paths))}"]
        lines = [f"`{line}`" for line in (*lines, *(one["command"] for one in timed))]
        lines += dict.fromkeys(f"Speed: {_machine(one['machine'])}." for one in timed)
        shown = markdown(frontier_table(compared(paths)))
        return f"{shown}\n\n<small>{'<br>'.join(lines)}</small>"
    table, machine = rival_choices(RESULTS / "rivals" / "held")
    command = "python -m benchmarks.rivals train choices --out benchmarks/results/rivals/held"
    return _with_source(table, [command], machine, ", one seed, 5,000 held-out images")


def render_ideals(name: str) -> str:
    """Where the ideal might matter; places that were not measured have no rows."""
    table, records = study_table(RESULTS / "tuning" / "ideal", IDEALS[name])
    lines = []
    for record in records:
        places = f"--studies {IDEALS[name]} --out benchmarks/results/tuning/ideal"
        more = f", {record['seeds']} seeds, mean and deviation"
        lines += [f"`{record['command']} {places}`", f"{_machine(record['machine'])}{more}."]
    return f"{markdown(table)}\n\n<small>{'<br>'.join(lines)}</small>"


def render_search(name: str) -> str:
    """Networks that a search trained to the end, and its verdict."""
    path = RESULTS / "search" / f"{SEARCHES[name]}.json"
    result = read_search(path)
    more = f", {result.seconds:.0f} s"
    shown = _with_source(
        finalists_table(result), [shlex.join(result.command)], result.machine, more
    )
    return f"{shown}\n\n> {result.verdict}"


def render_found(name: str) -> str:
    """Searches on CIFAR with one budget."""
    if name == "search_gap":
        within = searches("params=10%")
        told = ["python -m benchmarks.search gap --budget params=10%"]
        return _with_source(gap_table(within), told, next(iter(within.values())).machine)
    found = searches("drop=0.0")
    commands = dict.fromkeys(shlex.join(result.command) for result in found.values())
    first = next(iter(found.values()))
    more = f", {first.seconds:.0f} s for the first, alone on the GPU"
    return _with_source(found_table(found), commands, first.machine, more)


def render_elsewhere(name: str) -> str:
    """Heads on other data."""
    folder = RESULTS / "elsewhere" / ELSEWHERE[name]
    command = f"python -m benchmarks.elsewhere table {folder.relative_to(ROOT)}"
    return f"{heads_elsewhere([folder])}\n\n<small>`{command}`</small>"


def render_ood(name: str) -> str:
    """Scores of strange examples, over networks of a kind."""
    record = read_json(RESULTS / f"{name}.json")
    kinds = Counter(kind for kind, _ in {(r["network"], r["weights"]) for r in record["rows"]})
    counts = " and ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    more = f", mean and deviation over {counts}"
    return _with_source(ood_table(record), [record["command"]], record, more)


def render_zoo(name: str) -> str:
    """Networks that others wrote: where they are cut, and what a cut network was held to."""
    record = read_json(RESULTS / f"{name}.json")
    columns = (
        Column("name", "network"),
        Column("parameters", "parameters", ","),
        Column("ends", "cuts at ends of blocks", ","),
        Column("cuts", "cuts that all paths pass", ","),
        Column("seconds", "found in, s", ".2f"),
        Column("cut", "one in the middle"),
        Column("kept", "it keeps", ","),
        Column("network", "truncated"),
        Column("onnx", "ONNX differs by", ".0e"),
        Column("MiB", "peak memory, MiB", ","),
    )
    order = {known: k for k, known in enumerate(ZOO_NAMES)}
    rows = []
    for row in sorted(record["rows"], key=lambda one: order[one["name"]]):
        problem = row.get("refused") or row.get("failed")
        cut = f"`{row['cut']}`" if "cut" in row else ""
        values = row | {"cut": "; ".join(filter(None, (cut, problem)))}
        rows.append(Row({one.name: values.get(one.name) for one in columns}))
    return _with_source(Table(name, name, columns, tuple(rows)), [record["command"]], record)


def render_paper(name: str) -> str:
    """A table of an experiment: our numbers, those of the paper in brackets."""
    experiment, wanted = PAPER[name]
    path = RESULTS / "paper" / f"{experiment}.json"
    result = from_plain(ExperimentResult, read_json(path), path.name)
    table = next(each for each in result.tables if each.id == wanted)
    return _with_source(table, [" ".join(result.command)], result.machine)


def render_demo(name: str) -> str:
    """A table of an experiment on digits, or of another folder."""
    folder, experiment, wanted = OTHERS[name] if name in OTHERS else ("demo", *DEMO[name])
    result = demo_result(experiment, folder)
    table = next(each for each in result.tables if each.id == wanted)
    return _with_source(table, [" ".join(result.command)], result.machine)


def demo_result(experiment: str, folder: str = "demo") -> ExperimentResult:
    """An experiment on digits, or of another folder, as it is kept in the repository."""
    path = RESULTS / folder / f"{experiment}.json"
    return from_plain(ExperimentResult, read_json(path), path.name)


def render_short(name: str) -> str:
    """The VI-Net behind one cut of the digits network, next to its strongest and nearest rivals."""
    truncation, size = demo_result("fig-truncation"), demo_result("fig-parameters")
    *_, uncut = demo_result("table-efficiency").tables[0].rows
    points = {
        series.name: (series.y[series.labels.index(SHORT_CUT)], x)
        for series in size.figures[0].series
        if SHORT_CUT in series.labels
        for x in (series.x[series.labels.index(SHORT_CUT)],)
    }
    said = {
        row.values["head"]: f"{row.values['verdict']} ({row.values['interval']})"
        for row in truncation.tables[0].rows
        if row.values["cut"] == SHORT_CUT
    }
    columns = (
        Column("network", f"digits, cut at `{SHORT_CUT}`"),
        Column("accuracy", "test accuracy, %", ".2f"),
        Column("parameters", "parameters", ",.0f"),
        Column("verdict", "VI-Net is"),
    )
    variant = next(
        row.values
        for row in demo_result("table-efficiency").tables[0].rows
        if row.values["cut"] == SHORT_CUT
    )
    against = f"{variant['verdict']} ({variant['interval']})"
    whole = {"network": "uncut", "accuracy": uncut.values["accuracy"], "verdict": against}
    rows = [Row(whole | {"parameters": 1e3 * uncut.values["total"]})]
    for head in ("VI-Net", *SHORT_HEADS):
        right, count = points[head]
        values = {"network": head, "accuracy": right, "parameters": count}
        rows.append(Row(values | {"verdict": said.get(head)}, marked=head == "VI-Net"))
    table = Table(name, name, columns, tuple(rows))
    more = ", three splits; points by which it is ahead, 95 % interval"
    return _with_source(table, [" ".join(truncation.command)], truncation.machine, more)


def render_matrix(name: str) -> str:
    """Versions that were tried together, and those that could not be."""
    record = read_json(RESULTS / f"{name}.json")
    packages = ("python", "torch", "numpy", "scipy", "scikit-learn")
    columns = (Column("row", "environment"), *map(Column, packages), Column("outcome", "tests"))
    rows = []
    for row in record["rows"]:
        told = row["outcome"]
        if "passed" in row:
            told = f"{row['passed']:,} passed, {row['skipped']:,} skipped"
            told += f", **{row['failed']:,} failed**" if row["failed"] else ""
        rows.append(Row(row | {"outcome": told}))
    shown = markdown(Table(name, name, columns, tuple(rows)))
    return f"{shown}\n\n<small>`{record['command']}`<br>{record['wheel']}.</small>"


def _with_source(
    table: Table, commands: Iterable[str], machine: Mapping[str, Any], more: str = ""
) -> str:
    """The table, and in small print the commands that made it and on which machine."""
    made = f"{_machine(machine)}{more}."
    lines = "<br>".join([*(f"`{command}`" for command in commands), made])
    return f"{markdown(table)}\n\n<small>{lines}</small>"


def _machine(machine: Mapping[str, Any]) -> str:
    return f"{machine.get('gpu') or machine['processor']}, torch {machine['torch']}"


def _names(paths: Iterable[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


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


def render_files(name: str) -> str:
    """Every file of the package with the first sentence of its docstring."""
    rows = []
    for path in sorted((ROOT / "src" / "vinets").rglob("*.py")):
        told = ast.get_docstring(ast.parse(path.read_text())) or ""
        (sentence, *_) = re.split(r"(?<=(?<! al)\.) ", " ".join(told.split()))
        words = re.sub(r":\w+:`~?(?:[\w.]+\.)?([\w]+)`", r"`\1`", sentence).replace("``", "`")
        place = path.relative_to(ROOT / "src" / "vinets")
        rows.append(Row({"file": f"`{place}`", "told": words}))
    columns = (Column("file"), Column("told", "what it is for"))
    return markdown(Table(name, name, columns, tuple(rows)))


def fill(text: str) -> str:
    """Replace every marked table in a page by its current rendering."""

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        kinds = (
            (BUILDS, render_builds),
            (PAPER, render_paper),
            (DEMO | OTHERS, render_demo),
            (SHORT, render_short),
            (TUNING, render_tuning),
            (RIVALS, render_rivals),
            (IDEALS, render_ideals),
            (SEARCHES, render_search),
            (FOUND, render_found),
            (ELSEWHERE, render_elsewhere),
            (PACKAGE, lambda one: markdown(PACKAGE[one]())),
            (MATRIX, render_matrix),
            (CALLS, render_calls),
            ({"source_files"}, render_files),
            (OOD, render_ood),
            (ZOO, render_zoo),
        )
        table = next((make(name) for names, make in kinds if name in names), None) or render(name)
        return f"<!-- table: {name} -->\n{table}\n<!-- end -->"

    return re.sub(r"<!-- table: (\w+) -->.*?<!-- end -->", replacement, text, flags=re.DOTALL)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text()))
        print(f"filled {page.relative_to(ROOT)}")
