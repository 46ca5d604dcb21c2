from __future__ import annotations

import pytest
from pages import ReadPage, loads_nothing

from vinets.report import (
    Axis,
    Column,
    ExperimentResult,
    Figure,
    ReferenceLine,
    Row,
    Series,
    Table,
    html,
    results_page,
)
from vinets.report.formats import difference, number


def experiment(name: str = "fig-truncation", **changes) -> ExperimentResult:
    columns = (
        Column("model"),
        Column("accuracy", "accuracy %", ".2f", "accuracy_std", "higher"),
        Column("seconds", "", ",.1f", better="lower"),
        Column("size", "parameters", ","),
    )
    rows = (
        Row(
            {"model": "Tiny", "accuracy": 88.404, "accuracy_std": 0.1, "seconds": 2, "size": 1234},
            {"accuracy": 88.62, "seconds": 1002.0},
            "CIFAR-10",
        ),
        Row(
            {"model": "Large", "accuracy": 93.02, "seconds": None}, {"accuracy": 93.02}, "CIFAR-10"
        ),
        Row({"model": "Other", "accuracy": 71.0, "size": 5}, {}, "CIFAR-100"),
    )
    series = (
        Series("linear head", (10, 20), (90.5, None), ("b.bn1", "a.bn1")),
        Series("VI-Net", (10, 20), (91.25, 88), ("b.bn1", "a.bn1"), (0.5, None)),
    )
    figure = Figure(
        "cifar",
        "CIFAR-10 <ResNet>",
        Axis("removed", format=".0f"),
        Axis("accuracy", format=".2f"),
        series,
        levels=(ReferenceLine("uncut network", 93.0),),
    )
    parts = {
        "tables": (Table("sizes", "Sizes & speed", columns, rows),),
        "figures": (figure,),
        "text": ("One < two.",),
        "notes": ("A remark.",),
        "command": ("vinets", "reproduce", "a b"),
        "machine": {"vinets": "0.1", "gpu": None},
        "seeds": (0, 1),
        "settings": {"psi": 0.1, "cuts": ["a", "b"]},
        "seconds": 12.34,
        "paper": "Figure 2",
    }
    return ExperimentResult(name, "A title", **(parts | changes))


def page(*results: ExperimentResult) -> ReadPage:
    return ReadPage(html(results_page(results)))


def test_tables_have_ours_the_papers_and_the_difference():
    rows = page(experiment(figures=())).rows
    assert rows[0] == ["model", "accuracy %", "seconds", "parameters"]
    assert rows[1] == ["CIFAR-10"]
    assert rows[2] == ["Tiny", "88.40 ± 0.10 88.62  −0.22", "2.0 1,002.0  −1,000.0", "1,234"]
    assert rows[3] == ["Large", "93.02 93.02  0.00", "–", ""]
    assert rows[4] == ["CIFAR-100"]
    assert rows[5] == ["Other", "71.00", "", "5"]


def test_gains_and_losses_follow_from_what_is_better():
    text = html(results_page([experiment(figures=())]))
    assert '<span class="loss">−0.22</span>' in text
    assert '<span class="gain">−1,000.0</span>' in text
    assert "<span>0.00</span>" in text


def test_the_data_of_a_figure_are_in_its_table_and_in_its_script():
    found = page(experiment(tables=()))
    assert found.rows[:3] == [
        ["point", "removed", "linear head", "VI-Net"],
        ["b.bn1", "10", "90.50", "91.25 ± 0.50"],
        ["a.bn1", "20", "–", "88.00"],
    ]
    (data,) = found.figures
    assert [s["look"] for s in data["series"]] == [1, 0]
    assert [p["y"] for p in data["series"][0]["points"]] == [90.5, None]
    assert data["levels"] == [{"name": "uncut network", "y": 93.0, "text": "93.00"}]


def test_points_that_share_an_x_get_a_row_each():
    series = Series("VI-Net", (1, 1), (2, 3), ("a", "a"))
    figure = Figure("f", "F", Axis("x"), Axis("y"), (series,))
    assert page(experiment(tables=(), figures=(figure,))).rows[:3] == [
        ["series", "point", "x", "y"],
        ["VI-Net", "a", "1", "2"],
        ["VI-Net", "a", "1", "3"],
    ]


def test_the_page_loads_nothing_and_has_every_id_once():
    text = html(results_page([experiment("a"), experiment("b")]))
    assert loads_nothing(text)
    found = ReadPage(text)
    assert found.values("id") == ["a", "a:cifar", "b", "b:cifar"]
    assert found.values("href") == ["#a", "#b"]


def test_it_says_how_it_was_run():
    found = page(experiment())
    assert "vinets reproduce 'a b'" in found.texts
    assert any(text.endswith("Results of vinets 0.1.") for text in found.texts)
    for row in (["seeds", "0, 1"], ["seconds in all", "12.3"], ["psi", "0.1"], ["cuts", "a, b"]):
        assert row in found.rows
    same_name = page(experiment(settings={"seconds in all": 7})).rows
    assert ["seconds in all", "12.3"] in same_name and ["seconds in all", "7"] in same_name
    assert not any("gpu" in row for row in found.rows)
    empty = experiment(command=(), machine={}, settings={}, seeds=(), seconds=None)
    assert "The results do not say." in page(empty).texts


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (float("inf"), ".2f", "–"),
        (10**400, ".2f", "–"),
        ("10.5M", ",", "10.5M"),
        (3.0, ",d", "3"),
        (0.123, "+.1%", "+12.3%"),
        (-1.5, "10^.1f", "10^−1.5"),
        (1234.56, ",.1f×", "1,234.6×"),
        ([1], ".1f", "[1]"),
    ],
)
def test_odd_values_are_shown_as_they_can_be(value, spec, text):
    assert number(value, spec) == text
    assert difference(value, None, spec) == difference(None, value, spec) == ""
