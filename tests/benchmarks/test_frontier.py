"""The frontier holds what no other network beats, and pictures show what stands in the records."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.rivals.figure import left_out, save
from benchmarks.rivals.frontier import COSTS, compared, frontier, frontier_table, name_of
from benchmarks.rivals.plan import PLANS, RECIPES, SIZES, TRIED, rival
from benchmarks.rivals.table import choice_table
from benchmarks.rivals.train import FOLDER, Result, RivalRecord
from benchmarks.tuning import early, variants
from vinets.core.files import write_json
from vinets.core.plain import as_plain, changes
from vinets.runs.store import Store, TrialRecord
from vinets.runs.trial import TrainingFacts, TrialResult

BY_KEY = {cost.key: cost for cost in COSTS}


def write(folder, one, accuracy, parameters=1000):
    epochs = 0 if one.kind == "uncut" else one.recipe.epochs
    result = Result(accuracy, 0.93, parameters, "", 0.1, epochs, None, 9.0)
    record = as_plain(RivalRecord(one, result, "", 1, {"gpu": "G", "torch": "T"}))
    write_json(folder / FOLDER / f"{one.name}.json", record | {"rival": changes(one)})


def write_trials(folder, accuracy=0.9):
    for trial in [t for t in (*early(2), *variants(seeds=2)) if t.network == "resnet18"]:
        size = {"backbone": len(trial.cut) * 1000 + 10 * len(trial.head)}
        facts = TrainingFacts(accuracy + trial.seed / 100, 0.93, 0.9, 0.1, size, 12.0)
        Store(folder).write(TrialRecord(trial, TrialResult(training=facts), {"torch": "T"}))


@pytest.mark.parametrize("key", ["parameters", "cpu"])
def test_the_frontier_is_what_no_other_beats(key):
    draw, cost = random.Random(0), BY_KEY[key]
    rows = [
        {"epochs": 24, "accuracy": draw.randint(80, 95), key: draw.randint(1, 40)} for _ in "x" * 60
    ]

    def beats(one, other):
        gain = one[key] - other[key] if cost.more else other[key] - one[key]
        better = one["accuracy"] - other["accuracy"]
        return gain >= 0 and better >= 0 and (gain > 0 or better > 0)

    # Longer training and unknown costs are no part of it.
    others = [
        {"epochs": 100, "accuracy": 99.0, key: 1},
        {"epochs": 24, "accuracy": 99.0, key: None},
    ]
    found = frontier([*rows, *others, {"kind": "classic", key: 1}], cost)
    places = {(row[key], row["accuracy"]) for row in found}
    assert len(places) == len(found) > 2
    for row in rows:
        is_best = not any(beats(other, row) for other in rows)
        assert ((row[key], row["accuracy"]) in places) == is_best


def test_planned_recipes_stand_beside_each_other_with_speeds_of_two_machines(tmp_path):
    usual = rival("resnet18", "classic", model="resnet20")
    write(tmp_path, usual, 0.90)
    write(tmp_path, replace(usual, recipe=replace(usual.recipe, learning_rate=0.017)), 0.99)
    base = {"architecture": "resnet20", "kind": "classic", "parameters": 1000}
    for part, value in (("device", {"median": 70.0}), ("cpu", {"median": 7.0}), ("training", 500)):
        speeds = [base | {part: value}]
        write_json(tmp_path / f"{part}.json", {"given": "resnet18", "speeds": speeds})
    found = compared([tmp_path])
    assert [row["accuracy"] for row in found if row["kind"] == "classic"] == [pytest.approx(90)]
    rows = {row["kind"]: row for row in found if row["network"] == "resnet20"}
    assert rows["classic"]["device"] == 70.0 and rows["classic"]["cpu"] == 7.0
    assert rows["classic"]["alone_seconds"] == 24 * 50_000 / 500
    assert rows["public"]["cpu"] == 7.0 and rows["public"].get("alone_seconds") is None


def test_no_recipe_is_better_on_held_out_images_by_more_than_chance():
    folder = Path(__file__).parents[2] / "benchmarks" / "results" / "rivals" / "held"
    table, _ = choice_table(folder)
    means: dict[str, dict[float, float]] = {}
    for row in table.rows:
        kind = TRIED[row.values["network"]][0].kind
        for label, value in row.values.items():
            if label.startswith("learning rate"):
                sums = means.setdefault(kind, {})
                rate = float(label.rpartition(" ")[2])
                sums[rate] = sums.get(rate, 0) + value
    for kind in ("classic", "narrow"):
        apart = max(means[kind].values()) - means[kind][RECIPES[kind].learning_rate]
        assert apart < (0.4**2 + 0.7**2) ** 0.5  # one standard error of such a sum


def test_the_table_names_the_costs_of_the_frontier(tmp_path):
    write(tmp_path, rival("resnet18", "pruned", size=SIZES[0]), 0.85, 900)
    write(tmp_path, rival("resnet18", "pruned", size=SIZES[1]), 0.84, 950)
    rows = {row.values["name"]: row.values for row in frontier_table(compared([tmp_path])).rows}
    assert rows["pruned, uniform, 0.15M"]["frontier"] == "parameters"
    assert rows["pruned, uniform, 0.40M"]["frontier"] == ""
    assert rows["ResNet-20, public"]["frontier"] == ""  # 200 epochs


def test_pictures_show_what_is_there(tmp_path):
    pytest.importorskip("matplotlib")
    for plan in ("uncut", "classic", "narrow", "pruned"):
        for i, one in enumerate(PLANS[plan]("resnet18", SIZES)):
            write(tmp_path, one, 0.5 if one.size == SIZES[0] else 0.9 + i / 1000, 2000 + 100 * i)
    write_trials(tmp_path)
    found = compared([tmp_path])
    (picture,) = save(found, tmp_path / "images")
    text = picture.read_text()
    shown = ("In place of ResNet-18", "layer2.1", "Torch-Pruning", "public ResNet-20, 32, 44")
    assert all(part in text for part in shown)
    assert "parameters, millions" in text and "images/s" not in text  # no speed is known
    below = {name_of(row) for row in left_out(found)}
    assert below == {"narrow, 0.15M", "pruned, uniform, 0.15M", "pruned, global, 0.15M"}
    again = save(found, tmp_path / "again")[0]
    assert again.read_bytes() == picture.read_bytes()
