from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest

from vinets.report import (
    Axis,
    Column,
    Experiment,
    Figure,
    Row,
    Rule,
    Series,
    Table,
    read_results,
    results_page,
)
from vinets.report.formats import difference, number

NASTY = "</script><script>alert('1 & 2')</script>"


def experiment(name: str = "fig-truncation", **changes) -> Experiment:
    columns = (
        Column("model"),
        Column("accuracy", "accuracy %", ".2f", "accuracy_std", "higher"),
        Column("seconds", "", ",.1f", better="lower"),
        Column("size", "stored numbers", ","),
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
        rules=(Rule("uncut network", 93.0),),
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
    return Experiment(name, "A title", **(parts | changes))


def written(folder, *experiments: Experiment):
    for one in experiments:
        (folder / f"{one.experiment}.json").write_text(json.dumps(one.to_dict(), allow_nan=False))
    return folder


class Grid(HTMLParser):
    """Cells of the tables of a page, row by row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th") or (self.inside and tag in ("span", "abbr"))
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


# --- reading ----------------------------------------------------------------------------------


def test_what_is_written_is_read_again_in_order(tmp_path):
    first, second = experiment("b-first", order=1), experiment("a-second", order=2)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "x.json").write_text("{")
    (tmp_path / "runs.json").mkdir()
    (tmp_path / "settings.json").write_text('{"experiment": "b-first", "quick": true}')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "notes.txt").write_text("{")
    assert read_results(written(tmp_path, second, first)) == [first, second]


def test_optional_keys_may_be_missing_or_null_and_others_are_passed_over(tmp_path):
    least = {"experiment": "x", "title": "X", "paper": None, "new": [1]}
    least["figures"] = [
        {"id": "f", "title": "F", "x": {"label": "x"}, "y": {"label": "y"}, "series": []}
    ]
    least["tables"] = [
        {"id": "t", "caption": "T", "columns": [{"name": "a"}], "rows": [{"values": {}}]}
    ]
    (tmp_path / "x.json").write_text(json.dumps(least))
    (found,) = read_results(tmp_path)
    assert (found.paper, found.seeds, found.figures[0].kind) == ("", (), "lines")
    assert '<section id="x">' in results_page(tmp_path)


def test_numbers_of_numpy_are_written_and_what_is_not_finite_becomes_null():
    values = {"a": np.int64(3), "b": np.float32(0.5), "c": float("nan"), "d": (np.inf, True)}
    found = json.loads(json.dumps(experiment(settings=values).to_dict(), allow_nan=False))
    assert found["settings"] == {"a": 3, "b": 0.5, "c": None, "d": [None, True]}


BROKEN = [
    ("title", 3, "'title' must be a text. Got 3 instead."),
    ("experiment", "../x", "'experiment' must be letters"),
    ("seeds", [True], "'seeds' must be a list of whole numbers"),
    ("tables 0 columns", [], "tables[0]: 'columns' must be a list of at least one"),
    ("tables 0 columns 1 format", "9999999d", "tables[0]: columns[1]: 'format' must be a format"),
    ("tables 0 columns 1 better", "more", "columns[1]: 'better' must be 'higher'"),
    ("tables 0 rows 2 values", [], "rows[2]: 'values' must be an object. Got [] instead."),
    ("figures 0 kind", "pie", "figures[0]: 'kind' must be 'lines' or 'scatter'"),
    ("figures 0 x", {}, "figures[0]: x: 'label' is missing"),
    ("figures 0 series 1 y", [1], "series[1]: 'y' must be a list of 2 entries"),
    ("figures 0 series 0 x", ["1", 2], "series[0]: 'x' must be a list of finite numbers"),
    ("figures 0 rules 0 y", 10**400, "rules[0]: 'y' must be a finite number"),
    ("figures 0 id", None, "figures[0]: 'id' must be a text"),
]


@pytest.mark.parametrize(("where", "value", "complaint"), BROKEN)
def test_a_broken_file_is_named_with_its_key(tmp_path, where, value, complaint):
    values = experiment().to_dict()
    *path, last = where.split()
    inner = values
    for key in path:
        inner = inner[int(key) if key.isdigit() else key]
    inner[last] = value
    (tmp_path / "broken.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match=r"^broken\.json: ") as error:
        read_results(tmp_path)
    assert complaint in str(error.value) and len(str(error.value)) < 250


def test_ids_occur_once():
    twice = experiment().figures * 2
    with pytest.raises(ValueError, match="'figures' must be a list in which every id occurs once"):
        experiment(figures=twice)


@pytest.mark.parametrize("text", ["", '{"experiment": "x", "ti', "[" * 100_000, "\udcff"])
def test_json_that_was_cut_off_is_named(tmp_path, text):
    (tmp_path / "cut.json").write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=r"^cut\.json is no valid JSON"):
        read_results(tmp_path)


def test_a_folder_without_results_and_two_files_of_one_experiment_are_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no results of experiments"):
        read_results(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        read_results(tmp_path / "none")
    written(tmp_path, experiment())
    (tmp_path / "copy.json").write_text(json.dumps(experiment().to_dict()))
    with pytest.raises(ValueError, match=r"copy\.json and fig-truncation\.json are both"):
        read_results(tmp_path)


# --- the page ---------------------------------------------------------------------------------


def test_tables_have_ours_the_papers_and_the_difference():
    rows = Grid(results_page([experiment(figures=())])).rows
    assert rows[0] == ["model", "accuracy %", "seconds", "stored numbers"]
    assert rows[1] == ["ours", "paper", "Δ"] * 2
    assert rows[2] == ["CIFAR-10"]
    ours = ["88.40 ± 0.10", "88.62", "−0.22", "2.0", "1,002.0", "−1,000.0", "1,234"]
    assert rows[3] == ["Tiny", *ours]
    assert rows[4] == ["Large", "93.02", "93.02", "0.00", "–", "–", "", "–"]
    assert rows[5] == ["CIFAR-100"]
    assert rows[6] == ["Other", "71.00", "–", "", "–", "–", "", "5"]


def test_gains_and_losses_follow_from_what_is_better():
    text = results_page([experiment(figures=())])
    assert '<td class="loss">−0.22</td>' in text and '<td class="gain">−1,000.0</td>' in text
    assert "<td>0.00</td>" in text


def test_the_data_of_a_figure_are_in_its_table_and_in_its_script():
    text = results_page([experiment(tables=())])
    rows = Grid(text).rows
    assert rows[0] == ["", "removed", "linear head", "VI-Net"]
    assert rows[1:3] == [["b.bn1", "10", "90.50", "91.25 ± 0.50"], ["a.bn1", "20", "–", "88.00"]]
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', text)
    found = json.loads(data)
    assert [s["look"] for s in found["series"]] == [1, 0]
    assert [p["y"] for p in found["series"][0]["points"]] == [90.5, None]
    assert found["rules"] == [{"name": "uncut network", "y": 93.0, "text": "93.00"}]


def test_points_that_share_an_x_get_a_row_each():
    series = Series("VI-Net", (1, 1), (2, 3), ("a", "a"))
    figure = Figure("f", "F", Axis("x"), Axis("y"), (series,))
    rows = Grid(results_page([experiment(tables=(), figures=(figure,))])).rows
    assert rows[:3] == [
        ["series", "", "x", "y"],
        ["VI-Net", "a", "1", "2"],
        ["VI-Net", "a", "1", "3"],
    ]


def test_text_of_results_is_never_markup():
    axis = Axis(NASTY)
    series = (Series(NASTY, (1,), (2,), (NASTY,)),)
    figure = Figure("f", NASTY, axis, axis, series, rules=(Rule(NASTY, 1),))
    table = Table("t", NASTY, (Column(NASTY), Column("b", NASTY)), (Row({"b": NASTY}, {}, NASTY),))
    parts = {"figures": (figure,), "tables": (table,), "text": (NASTY,), "notes": (NASTY,)}
    parts |= {"command": (NASTY,), "settings": {NASTY: {NASTY: NASTY}}, "machine": {NASTY: NASTY}}
    text = results_page([experiment(paper=NASTY, **parts)], title=NASTY)
    assert re.findall(r"<script[^>]*>", text) == ['<script type="application/json">', "<script>"]
    assert text.count("</script>") == 2


def test_the_page_loads_nothing_and_has_every_id_once():
    text = results_page([experiment("a"), experiment("b")])
    assert not re.search(r"https?:|@import|<link|<iframe|url\(|src=", text)
    names = re.findall(r'\bid="([^"]*)"', text)
    assert len(names) == len(set(names)) == 4
    assert set(re.findall(r'href="#([^"]*)"', text)) == {"a", "b"}


def test_it_says_how_it_was_run():
    text = results_page([experiment()])
    assert "vinets reproduce 'a b'" in text and "Results of vinets 0.1." in text
    rows = Grid(text).rows
    for row in (["seeds", "0, 1"], ["seconds in all", "12.3"], ["psi", "0.1"], ["cuts", "a, b"]):
        assert row in rows
    same_name = Grid(results_page([experiment(settings={"seconds in all": 7})])).rows
    assert ["seconds in all", "12.3"] in same_name and ["seconds in all", "7"] in same_name
    assert not any("gpu" in row for row in rows)
    empty = experiment(command=(), machine={}, settings={}, seeds=(), seconds=None)
    assert "The results do not say." in results_page([empty])


@pytest.mark.parametrize(
    ("value", "spec", "text"),
    [
        (float("inf"), ".2f", "–"),
        (10**400, ".2f", "–"),
        ("10.5M", ",", "10.5M"),
        (3.0, ",d", "3"),
        (0.123, "+.1%", "+12.3%"),
        ([1], ".1f", "[1]"),
    ],
)
def test_odd_values_are_shown_as_they_can_be(value, spec, text):
    assert number(value, spec) == text
    assert difference(value, None, spec) == difference(None, value, spec) == ""


# --- colours ----------------------------------------------------------------------------------


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_what_is_behind_them(scheme):
    style = files("vinets.report").joinpath("style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", style, flags=re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", blocks[scheme]))
    series = [f"series-{i}" for i in range(1, 9)]
    for name in ("ink", "quiet", "accent", "gain", "loss", *series):
        for back in ("page", "card"):
            light, dark = sorted((luminance(colours[n]) for n in (name, back)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, back)
