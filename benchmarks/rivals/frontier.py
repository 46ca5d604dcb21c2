"""Which networks no other beats in accuracy and in what they cost, both at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.record import RESULTS
from benchmarks.rivals.table import rows
from benchmarks.tuning import JOINT
from benchmarks.tuning_tables import TITLES
from vinets.heads import HEADS, ProductsHead

if TYPE_CHECKING:
    from vinets.report import Table

Found = Mapping[str, Any]  # a row of :func:`benchmarks.rivals.table.rows`


@dataclass(frozen=True)
class Cost:
    """What a network costs, or yields: a key of the rows, and how it is shown."""

    key: str
    label: str
    short: str
    unit: float = 1.0  # one of these is so many of the key's
    format: str = ",.0f"
    more: bool = False  # whether more of it is better


COSTS = (
    Cost("parameters", "parameters, millions", "parameters", 1e6, ".2f"),
    Cost("device", "thousands of images/s on the GPU, 256 at once", "GPU", 1e3, ",.1f", True),
    Cost("cpu", "images/s on one CPU thread, one at a time", "CPU", more=True),
    Cost("alone_seconds", "seconds of training, alone on the GPU", "training"),
)
PUBLIC = {  # github.com/chenyaofo/pytorch-cifar-models: from scratch, 200 epochs, CIFAR-10
    "resnet20": (270_000, 92.60),
    "resnet32": (470_000, 93.53),
    "resnet44": (660_000, 94.01),
}
PUBLIC_EPOCHS = 200
HEADED = ("vi-net", "other head")  # kinds that stand behind a cut; "vi-net" is a product head
CLASSIC_TITLES = {name: f"ResNet-{name.removeprefix('resnet')}" for name in PUBLIC}


def results() -> list[Path]:
    """Where results of test images and speeds lie in the repository, as far as they are there."""
    folders = [RESULTS / "rivals" / "test", RESULTS / "tuning" / "test"]
    speeds = sorted((RESULTS / "rivals").glob("speed-*.json"))
    return [path for path in (*folders, *speeds) if path.exists()]


def compared(paths: Iterable[Path]) -> list[Found]:
    """Rows that stand beside each other: recipes as planned, all images; public ones as well.

    Rivals that were measured only have no accuracy. Heads always have: others are of an earlier
    plan.
    """
    every = rows(paths)
    trained = [row for row in every if row.get("accuracy") or row["kind"] not in HEADED]
    found = [row for row in trained if not row.get("recipe")]
    measured = {(row["given"], row["network"]): row for row in every}
    given = "resnet18"  # on CIFAR-10
    for name, (parameters, accuracy) in PUBLIC.items():
        if any(row["given"] == given for row in found):
            own = measured.get((given, name), {})  # it runs as fast as ours
            facts = {"parameters": parameters, "accuracy": accuracy, "epochs": PUBLIC_EPOCHS}
            speeds = {key: own.get(key) for key in ("device", "cpu")}
            found.append({"given": given, "kind": "public", "network": name} | facts | speeds)
    return sorted(found, key=lambda row: (row["given"], row["parameters"], row["network"]))


def is_equal(row: Found) -> bool:
    """Whether it was trained for no more epochs than a product head; the uncut network is given."""
    return bool(row["epochs"] <= JOINT.epochs)


def frontier(found: Iterable[Found], cost: Cost) -> list[Found]:
    """Rows of equal epochs that no other beats in both, by increasing accuracy."""
    # the given network as it is took no training, so it is no point of that axis
    known = [row for row in found if row.get("accuracy") and row.get(cost.key) and is_equal(row)]
    sign = -1 if cost.more else 1
    kept: list[Found] = []
    for row in sorted(known, key=lambda row: (sign * row[cost.key], -row["accuracy"])):
        if not kept or row["accuracy"] > kept[-1]["accuracy"]:
            kept.append(row)
    return kept


def name_of(row: Found) -> str:
    """What a network is called in tables and pictures."""
    name: str = row["network"]
    if row["kind"] in HEADED:
        cut, head = name.split(",")[0].split(" ")
        return cut if row["kind"] == "vi-net" else f"{cut}, {HEADS[head].label}"
    if row["kind"] == "public":
        return f"{CLASSIC_TITLES[name]}, public"
    if row["kind"] in ("uncut", "tuned"):
        return {"uncut": "uncut", "tuned": "uncut, tuned on"}[row["kind"]]
    return CLASSIC_TITLES.get(name) or name.removeprefix(f"{row['given']} ")


def frontier_table(found: Sequence[Found]) -> Table:
    """All networks; the last column names the costs at which one is on the frontier."""
    from vinets.report import Column, Row, Table

    shown = [cost for cost in COSTS if any(row.get(cost.key) for row in found)]
    columns = [
        Column("name", "network"),
        Column("epochs", format=","),
        Column("seeds", format=","),
        Column("accuracy", "accuracy, %", ".2f", "std"),
        *(Column(cost.key, cost.label, cost.format) for cost in shown),
        Column("frontier", "on the frontier of"),
    ]
    made = []
    for given in dict.fromkeys(row["given"] for row in found):
        own = [row for row in found if row["given"] == given]
        best = {cost.short: frontier(own, cost) for cost in shown}
        for row in own:
            values = {key: row.get(key) for key in ("epochs", "seeds", "accuracy", "std")}
            for cost in shown:
                value = row.get(cost.key)
                values[cost.key] = value / cost.unit if value else None
            values["frontier"] = ", ".join(short for short, rows in best.items() if row in rows)
            name = name_of(row)
            if row["kind"] == "vi-net":
                name = f"{ProductsHead.label}, {name}"
            section = f"In place of {TITLES[given]}"
            made.append(Row(values | {"name": name}, {}, section, row["kind"] == "vi-net"))
    return Table("frontier", "Whole networks", tuple(columns), tuple(made))
