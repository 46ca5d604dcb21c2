"""Results are read from their files, and pages say what they hold."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import torch
from pages import ReadPage, loads_nothing

from vinets import VINet
from vinets.core.plain import as_plain
from vinets.data import digits
from vinets.heads.facts import measure_vanishing
from vinets.paper import text as words_of
from vinets.paper.backbones import DIGITS
from vinets.paper.page import NEEDED, can_show, newcomers_page, read_results, results_page
from vinets.report import Axis, Column, ExperimentResult, Figure, Row, Series, Table, html
from vinets.report.values import ReferenceLine

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "demo"


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
        "machine": {"vinets": "0.1", "gpu": None},
        "machines": ({"gpu": None}, {"gpu": "one"}),
    }
    return ExperimentResult(name, "A title", **(parts | changes))


def written(folder, **results: ExperimentResult):
    for name, one in results.items():
        text = json.dumps(as_plain(one), allow_nan=False)
        (folder / f"{name}.json").write_text(text)
    return folder


def test_what_is_written_is_read_again_in_order_and_full_results_before_quick_ones(tmp_path):
    first, second = experiment("b-first", order=1), experiment("a-second", order=2)
    quick = experiment("b-first", order=1, quick="A quick run.")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "x.json").write_text("{")
    (tmp_path / "runs.json").mkdir()
    (tmp_path / "settings.json").write_text('{"experiment": "b-first", "quick": true}')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "notes.txt").write_text("{")
    found = read_results(written(tmp_path, second=second, quick=quick))
    assert found == [quick, second]
    assert type(found[0].figures[0].series[0].x[0]) is int  # counts stay whole
    assert read_results(written(tmp_path, first=first)) == [first, second]


def test_optional_keys_may_be_missing(tmp_path):
    axes = {"x": {"label": "x"}, "y": {"label": "y"}}
    table = {"id": "t", "caption": "T", "columns": [{"name": "a"}], "rows": [{"values": {}}]}
    least = {"experiment": "x", "title": "X", "tables": [table]}
    least["figures"] = [{"id": "f", "title": "F", **axes, "series": []}]
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


def test_a_folder_without_results_and_two_files_of_one_experiment_are_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no results of experiments"):
        read_results(tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        read_results(tmp_path / "none")
    (tmp_path / "cut.json").write_text('{"experiment": "x", "ti')
    with pytest.raises(ValueError, match=r"cut\.json is not readable JSON"):
        read_results(tmp_path)
    (tmp_path / "cut.json").unlink()
    written(tmp_path, copy=experiment(), first=experiment())
    with pytest.raises(ValueError, match=r"copy\.json and first\.json are both results of"):
        read_results(tmp_path)
    with pytest.raises(ValueError, match="'figures' must be a list in which every id occurs once"):
        experiment(figures=experiment().figures * 2)


# --- the page of results ----------------------------------------------------------------------


def page(*results: ExperimentResult) -> ReadPage:
    return ReadPage(html(results_page(results)))


def test_the_page_loads_nothing_and_says_how_it_was_run():
    text = html(results_page([experiment("a"), experiment("b")]))
    assert loads_nothing(text)
    names = ReadPage(text).values("id")
    assert {"a", "a:cifar", "b", "b:cifar"} <= set(names) and len(names) == len(set(names))
    found = page(experiment(command=("vinets", "reproduce", "a b"), seconds=12.34))
    assert "vinets reproduce 'a b'" in found.texts
    assert any(text.endswith("Results of vinets 0.1.") for text in found.texts)
    for row in (["seeds", "0, 1"], ["seconds in all", "12.3"], ["psi", "0.1"], ["cuts", "a, b"]):
        assert row in found.rows
    assert not any("gpu" in row for row in found.rows)
    empty = experiment(machine={}, settings={}, seeds=())
    assert "The results do not say." in page(empty).texts


def test_it_begins_with_the_score_of_the_claims():
    verdicts = [["a", "yes"], ["b", "yes"], ["c", "in 2 of 3"], ["d", "no"], ["e", "less here"]]
    table = Table.from_rows("claims", "Claims", ["claim", "verdict"], verdicts)
    texts = page(experiment("claims", tables=(table,))).texts
    score = "Of 5 claims of the paper, 2 hold here, 1 hold in part, and 1 do not. 1 only compare "
    assert f"{score}machines." in texts
    assert not any("claims of the paper" in text for text in page(experiment()).texts)


# --- the page on digits -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def results():
    return read_results(RESULTS)


def test_the_page_has_a_polynomial_its_means_the_claims_and_every_experiment(results):
    by_name = {one.experiment: one for one in results}
    shown = newcomers_page(results)
    text = unescape(html(shown))
    assert by_name["fig-vanishing"].text[1].partition(": p = ")[2].removesuffix(".") in text
    for row in by_name["claims"].tables[0].rows:
        assert str(row.values["claim"]).split("(")[0].strip() in text
    assert text.count("<svg") >= 3  # polynomials times classes, before and after training
    others = by_name.keys() - {"fig-kept", "fig-truncation", "fig-parameters", "claims"}
    titles = {section.title for section in shown.sections}
    assert titles >= {by_name[name].title for name in others}
    folder = f"out/demo/uncut/{DIGITS.network(0)} "
    assert words_of("page-on-digits", "next").count(folder) == 2  # the folder of an uncut network


def test_without_the_main_results_there_is_no_such_page(results):
    assert can_show(results)
    for name in NEEDED:
        assert not can_show([one for one in results if one.experiment != name])


def test_the_polynomials_of_the_page_vanish_on_test_images_as_it_says(results):
    """Held against the network that comes with the package, which was built in the same way."""
    net, data = VINet.from_pretrained("vinets/digits-cnn-vinet"), digits()

    def measured(part):
        images, labels = next(iter(part.batches(len(part))))
        with torch.no_grad():
            points = net.head.variables(net.latents(images))
        return measure_vanishing(net.head.polynomials, [(points, labels)], psi=0.01)

    # The definition holds on the images that the generators were found on, up to half precision.
    assert measured(data.train).satisfied >= 0.95
    held_out = measured(data.test)
    kept = next(one for one in results if one.experiment == "fig-kept").tables[0]
    said = next(row.values for row in kept.rows if str(row.section).endswith("pool"))
    assert held_out.smallest_own == pytest.approx(said["smallest"] / 100, abs=0.02)
    assert held_out.own_over_other == pytest.approx(said["ratio"], abs=0.05)
