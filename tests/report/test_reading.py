from __future__ import annotations

import json

import numpy as np
import pytest

from vinets.core.plain import as_plain
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
    read_results,
    results_page,
)


def experiment(name: str = "fig-truncation", **changes) -> ExperimentResult:
    columns = (Column("model"), Column("accuracy", "accuracy %", ".2f", better="higher"))
    rows = (
        Row({"model": "Tiny", "accuracy": 88.404}, {"accuracy": 88.62}, "CIFAR-10"),
        Row({"model": "Large", "accuracy": None}),
        Row({"model": "Other"}, marked=True),
    )
    series = (
        Series("linear head", (10, 20), (90.5, None), ("b.bn1", "a.bn1")),
        Series("VI-Net", (10, 20), (91.25, 88), ("b.bn1", "a.bn1"), (0.5, None)),
    )
    levels = (ReferenceLine("uncut network", 93.0),)
    figure = Figure("cifar", "CIFAR-10", Axis("x"), Axis("y"), series, levels=levels)
    parts = {
        "tables": (Table("sizes", "Sizes", columns, rows),),
        "figures": (figure,),
        "seeds": (0, 1),
        "settings": {"psi": 0.1, "cuts": ["a", "b"]},
        "machines": ({"gpu": None}, {"gpu": "one"}),
    }
    return ExperimentResult(name, "A title", **(parts | changes))


def written(folder, *results: ExperimentResult):
    for one in results:
        text = json.dumps(as_plain(one), allow_nan=False)
        (folder / f"{one.experiment}.json").write_text(text)
    return folder


def test_what_is_written_is_read_again_in_order(tmp_path):
    first, second = experiment("b-first", order=1), experiment("a-second", order=2)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "x.json").write_text("{")
    (tmp_path / "runs.json").mkdir()
    (tmp_path / "settings.json").write_text('{"experiment": "b-first", "quick": true}')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "notes.txt").write_text("{")
    found = read_results(written(tmp_path, second, first))
    assert found == [first, second]
    assert type(found[0].figures[0].series[0].x[0]) is int  # counts stay whole


def test_optional_keys_may_be_missing(tmp_path):
    least = {"experiment": "x", "title": "X"}
    least["figures"] = [
        {"id": "f", "title": "F", "x": {"label": "x"}, "y": {"label": "y"}, "series": []}
    ]
    least["tables"] = [
        {"id": "t", "caption": "T", "columns": [{"name": "a"}], "rows": [{"values": {}}]}
    ]
    (tmp_path / "x.json").write_text(json.dumps(least))
    (found,) = read_results(tmp_path)
    assert (found.paper, found.seeds, found.figures[0].kind) == ("", (), "lines")
    assert '<section id="x">' in html(results_page([found]))


def test_numbers_of_numpy_are_written_and_what_is_not_finite_becomes_null():
    values = {"a": np.int64(3), "b": np.float32(0.5), "c": float("nan"), "d": (np.inf, True)}
    found = json.loads(json.dumps(as_plain(experiment(settings=values)), allow_nan=False))
    assert found["settings"] == {"a": 3, "b": 0.5, "c": None, "d": [None, True]}


BROKEN = [
    ("title", 3, "title must be a text. Got 3 instead."),
    ("experiment", "../x", "'experiment' must be letters"),
    ("seeds", [True], "seeds[0] must be a whole number"),
    ("titel", "x", "'titel' is not known here. Did you mean 'title'?"),
    ("tables 0 columns", [], "tables[0]: 'columns' must be a list of at least one"),
    ("tables 0 columns 1 format", "9999999d", "columns[1]: 'format' must be a format"),
    ("tables 0 columns 1 better", "more", "columns[1]: 'better' must be 'higher'"),
    ("tables 0 columns 1 name", "model", "'columns' must be a list in which every name occurs"),
    ("tables 0 rows 2 values", [], "rows[2]: values must be an object. Got [] instead."),
    ("figures 0 kind", "pie", "figures[0]: 'kind' must be 'lines' or 'scatter'"),
    ("figures 0 x", {}, "figures[0]: x: label is missing"),
    ("figures 0 series 1 y", [1], "series[1]: 'y' must be a list of 2 entries"),
    ("figures 0 series 0 x", ["1", 2], "series[0]: x[0] must be"),
    ("figures 0 levels 0 y", "high", "levels[0]: y must be"),
    ("figures 0 id", None, "figures[0]: id must be a text"),
]


@pytest.mark.parametrize(("where", "value", "complaint"), BROKEN)
def test_a_broken_file_is_named_with_its_key(tmp_path, where, value, complaint):
    values = as_plain(experiment())
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
    with pytest.raises(ValueError, match=r"cut\.json is not readable JSON"):
        read_results(tmp_path)


def test_a_folder_without_results_and_two_files_of_one_experiment_are_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no results of experiments"):
        read_results(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        read_results(tmp_path / "none")
    written(tmp_path, experiment())
    (tmp_path / "copy.json").write_text(json.dumps(as_plain(experiment())))
    with pytest.raises(ValueError, match=r"copy\.json and fig-truncation\.json are both"):
        read_results(tmp_path)
