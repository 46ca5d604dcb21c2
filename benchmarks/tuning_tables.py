"""Tables of joint tuning on test images: heads behind the early cuts, products at the paper's."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from benchmarks.tuning import EARLY, HEADS, early, variants, vinet
from vinets.heads import HEADS as KINDS
from vinets.models import PRESETS, create_model
from vinets.paper.backbones import UNCUT, VARIANTS
from vinets.report import Column, Row, Table
from vinets.runs.store import Store, TrialRecord
from vinets.runs.trial import Trial

WHOLE = {  # parameters of the uncut networks
    name: sum(p.numel() for p in create_model(name, classes).parameters())
    for name, classes in (("resnet18", 10), ("resnet34", 100))
}
LABELS = {"uncut": "uncut"} | {head: KINDS[head].label for head in HEADS}
TITLES = {"resnet18": "ResNet-18, CIFAR-10", "resnet34": "ResNet-34, CIFAR-100"}


def early_table(folder: Path) -> tuple[Table, dict[str, Any]]:
    """All heads behind the early cuts, and the machine; heads without a result are left out."""
    columns = (
        Column("head"),
        Column("rate", "learning rate", ".3g"),
        Column("parameters", "parameters in total", ","),
        Column("accuracy", "accuracy, %", ".2f", "std"),
        Column("delta", "Δ to uncut", "+.2f"),
        Column("behind", "products ahead by", "+.2f", "joint"),
    )
    store, rows, machine = Store(folder), [], {}
    for network, cut in EARLY:
        planned = [trial for trial in early() if (trial.network, trial.cut) == (network, cut)]
        found = {
            head: values
            for head in HEADS
            if (values := _over_seeds(store, (t for t in planned if t.head == head)))
        }
        for head, values in found.items():
            machine = values["machine"]
            row = values | {"head": LABELS[head]}
            if head != "products" and "products" in found:
                ours = found["products"]
                row["behind"] = ours["accuracy"] - values["accuracy"]
                row["joint"] = (ours["std"] ** 2 + values["std"] ** 2) ** 0.5
            section = f"{TITLES[network]}, {cut}; uncut {values['uncut']:.2f} %"
            rows.append(Row(row, section=section, marked=head == "products"))
    return Table("early", "Heads behind early cuts", columns, tuple(rows)), machine


def short_table(folder: Path) -> tuple[Table, dict[str, Any]]:
    """The same for a reader in a hurry: heads down, cuts across."""
    store, machine = Store(folder), {}
    columns, rows = [Column("network")], {head: {} for head in ("uncut", *reversed(HEADS))}
    for network, cut in EARLY:
        key = f"{network} {cut}"
        columns.append(
            Column(key, f"{TITLES[network].split(',')[0]}, `{cut}`, %", ".2f", f"{key} std")
        )
        columns.append(Column(f"{key} size", "parameters", ","))
        planned = [trial for trial in early() if (trial.network, trial.cut) == (network, cut)]
        for head in HEADS:
            values = _over_seeds(store, (trial for trial in planned if trial.head == head))
            if not values:
                continue
            machine = values["machine"]
            rows[head] |= {key: values["accuracy"], f"{key} std": values["std"]}
            rows[head][f"{key} size"] = values["parameters"]
            rows["uncut"] |= {key: values["uncut"], f"{key} size": WHOLE[network]}
    made = [
        Row({"network": LABELS[head]} | row, marked=head == "products")
        for head, row in rows.items()
        if row
    ]
    for weight in (1.0, 0.1):
        trials = vinet((weight,))
        if values := _over_seeds(store, trials):
            key = f"{trials[0].network} {trials[0].cut}"
            row = {key: values["accuracy"], f"{key} std": values["std"]}
            row[f"{key} size"] = values["parameters"]
            made.append(Row({"network": f"VI-Net, kept vanishing by {weight:g}"} | row))
    return Table("short", "Heads behind early cuts", tuple(columns), tuple(made)), machine


def variant_table(folder: Path) -> tuple[Table, dict[str, Any]]:
    """Products behind the eight cuts of the paper, with its numbers, and the machine."""
    columns = (
        Column("network", "in place of"),
        Column("size"),
        Column("cut"),
        Column("total", "total, M", ".2f"),
        Column("accuracy", "accuracy, %", ".2f", "std"),
        Column("uncut", "uncut, %", ".2f"),
        Column("delta", "Δ to uncut", "+.2f"),
    )
    store, rows, machine = Store(folder), [], {}
    for name, place in PRESETS.items():
        network, cut = place
        planned = (trial for trial in variants() if (trial.network, trial.cut) == place)
        if not (values := _over_seeds(store, planned)):
            continue
        machine, theirs = values["machine"], VARIANTS[name]
        size = name.split("-")[-1].lower()
        row = values | {"network": name, "size": size, "cut": cut}
        row["total"] = values["parameters"] / 1e6
        uncut = UNCUT[network]["accuracy"]
        paper = {
            "total": theirs["total"],
            "accuracy": theirs["accuracy"],
            "uncut": uncut,
            "delta": theirs["accuracy"] - uncut,
        }
        rows.append(Row(row, paper, TITLES[network]))
    return Table("variants", "Products at the paper's cuts", columns, tuple(rows)), machine


def _over_seeds(store: Store, trials: Iterable[Trial]) -> dict[str, Any]:
    """Mean and deviation over the seeds that there are; empty where there is none."""
    records: list[TrialRecord] = [store.record(t) for t in trials if not store.missing([t])]
    if not records:
        return {}
    found = [record.result.trained for record in records]
    accuracies = [100 * one.accuracy for one in found]
    first = records[0]
    return {
        "rate": first.trial.recipe.learning_rate,
        "parameters": found[0].parameters,
        "accuracy": fmean(accuracies),
        "std": stdev(accuracies) if len(accuracies) > 1 else 0.0,
        "uncut": 100 * found[0].uncut,
        "delta": fmean(accuracies) - 100 * found[0].uncut,
        "machine": dict(first.machine),
    }
