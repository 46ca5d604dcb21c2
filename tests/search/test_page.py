"""A search as tables, a figure and a page."""

from __future__ import annotations

import shlex
from dataclasses import replace
from html import unescape

import pytest
from looks import faults

from vinets.report import html
from vinets.report.values import Bullets, Code, Facts, Notice
from vinets.search import Attempt, Candidate, SearchResult, parse_budget
from vinets.search.budget import Cost
from vinets.search.page import command_lines, finalists_table, rounds_table, search_page
from vinets.search.result import SearchPlan


def attempt(cut, head, size, accuracies, **more):
    command = ("vinets", "build", "a b", "--cut", cut, "--head", head)
    cost = Cost(size, 0.002, 0.0001)
    return Attempt(Candidate(cut, head, size), cost, accuracies, command=command, **more)


@pytest.fixture
def result():
    last = {"test": 0.96, "speed": 400.0, "latency": 0.0025, "spread": 0.0005, "seconds": 3.0}
    small = attempt("relu1", "products", 250, {2: 0.9, 4: 0.95}, interval=(-2.5, 0.5), **last)
    file = Attempt(small.candidate, Cost(250, stored=300), {4: 0.94}, test=0.95, command=("x",))
    attempts = (
        replace(small, int8=file),
        attempt("relu1", "pooled", 100, {2: 0.7}),
        attempt("relu2", "vanishing", 400, {2: 0.92, 4: 0.955}, **last),
        attempt("relu2", "linear", 900, {2: 0.8}),
    )
    uncut = Attempt(
        *(None, Cost(1_000, 0.004), {0: 0.97}),
        **{"test": 0.97, "speed": 200.0, "latency": 0.005, "spread": 0.001},
        command=("vinets", "evaluate", "base"),
    )
    return SearchResult(
        data="digits",
        budget=parse_budget("drop=2"),
        uncut=uncut,
        attempts=attempts,
        chosen=small.name,
        met=True,
        validation=100,
        tested=200,
        batch=1,
        notes=("There is no int8 of uncut.",),
        command=("vinets", "compress", "base"),
        saved="out/small",
    )


def test_the_table_has_the_uncut_network_the_finalists_and_files(result):
    table = result.table
    assert table == finalists_table(result)
    names = [row.values["network"] for row in table.rows]
    assert names == ["uncut", "product head, degree 2", "product head, degree 2, int8", "VI-Net"]
    uncut, chosen, file, _ = table.rows
    assert chosen.marked and not any(row.marked for row in (uncut, file))
    assert "gap" not in uncut.values and chosen.values["gap"] == pytest.approx(-1)
    assert chosen.values["faster"] == 2 and file.values["size"] == 300 / 1e6
    assert "2.5 ± 0.5" in str(table) and "mmacs" not in {c.name for c in table.columns}
    assert len(command_lines(result)) == 2 * len(table.rows) == 8
    assert "  vinets build 'a b' --cut relu1 --head products" in command_lines(result)


def test_rounds_and_plans_list_every_candidate_with_its_costs(result):
    table = rounds_table(result)
    assert [row.values["parameters"] for row in table.rows] == [100, 250, 400, 900]
    assert [column.heading for column in table.columns][-2:] == ["2 epochs, %", "4 epochs, %"]
    assert sum(row.marked for row in table.rows) == 1 and "2.000 ± 0.100" in str(table)
    # A limit on operations has a column, in millions for what was tested.
    costly = replace(result.uncut, cost=Cost(1_000, macs=2_500_000))
    table = finalists_table(replace(result, uncut=costly))
    assert table.rows[0].values["mmacs"] == 2.5 and "million multiply-adds" in str(table)
    tried = [replace(one, accuracies={}, cost=costly.cost) for one in result.attempts]
    table = rounds_table(SearchPlan(tuple(tried), (), 1.0, None))
    assert len(table.rows) == 4 == len(table.columns) and "2,500,000" in str(table)


def test_the_figure_shows_every_attempt_once_and_the_frontier(result):
    series = {one.name: one for one in result.frontier.series}
    chosen = next(one for name, one in series.items() if name.startswith("chosen"))
    assert chosen.x == (250,) and series["uncut"].x == (1_000,)
    drawn = [one for name, one in series.items() if name not in ("frontier", "uncut")]
    assert sum(len(one.x) for one in drawn) == len(result.attempts)
    front = series["frontier"]
    assert front.joined and front.x == (100, 250, 400) and list(front.y) == sorted(front.y)


def test_the_page_begins_with_the_budget_numbers_and_the_verdict(result):
    met, facts, sentence, more, budget = search_page(result).lead
    assert met == Notice("The budget, at most 2 points lost, is met.", "good")
    assert isinstance(facts, Facts) and isinstance(more, Bullets)
    names, values, remarks = zip(*facts.facts, strict=True)
    assert names == ("accuracy", "parameters", "time at batch 1", "size")
    assert values == ("96.00%", "250", "2.5 ± 0.5 ms", "0.001 MB")
    assert remarks[0] == "−1.00 points, 95 % from −2.50 to +0.50"
    assert remarks[1] == "25.0% of the uncut network's 1,000"
    assert remarks[2].startswith("2.00 times as fast, 5") and remarks[3] == "0.004 MB before"
    assert result.verdict == " ".join((sentence, *more.items)) and sentence.count(". ") == 0
    assert "one training does not decide it: linear, pooled behind relu1" in more.items[0]
    assert budget.startswith("Budget: at most 2 points lost. Chosen on 100 examples")
    older = tuple(replace(one, interval=None) for one in result.attempts)
    facts = search_page(replace(result, attempts=older)).lead[1]
    assert facts.facts[0][2] == "−1.00 points ± one image, which is 0.50"
    followed = tuple(replace(one, memory=3_000_000) for one in result.attempts)
    uncut = replace(result.uncut, memory=12_000_000)
    facts = search_page(replace(result, attempts=followed, uncut=uncut)).lead[1]
    assert facts.facts[-1] == ("peak memory", "3 MB", "12 MB before, at batch 1")


def test_a_missed_budget_comes_first_and_a_search_that_found_nothing_has_a_page(result):
    missed = replace(result, met=False, verdict="")
    first, second, *_ = search_page(missed).lead
    said = "The budget, at most 2 points lost, was not met: this is the nearest network."
    assert first == Notice(said, "bad")
    assert isinstance(second, Facts) and 'class="notice bad"' in html(search_page(missed))
    nothing = replace(result, attempts=(), chosen=None, saved="", verdict="")
    assert search_page(nothing).lead[0] == nothing.verdict
    assert "Nothing smaller was found" in html(search_page(nothing))


def test_the_page_says_how_to_use_and_to_make_each_network_again(result):
    folders = {"out/small": "'out/small'", "o@net.py:MyNet": "'o', backbone=MyNet()"}
    for saved, opened in folders.items():
        sections = {one.id: one for one in search_page(replace(result, saved=saved)).sections}
        (code,) = sections["use"].blocks
        assert isinstance(code, Code) and f"from_pretrained({opened})" in code.text
        assert f"vinets export {saved} --out" in code.text
    assert "use" not in {one.id for one in search_page(replace(result, saved="")).sections}
    page = html(search_page(result))
    assert all(shlex.join(one.command) in unescape(page) for one in result.attempts)
    assert result.notes[0] in page and "vinets compress base" in page


@pytest.mark.pages
def test_the_page_suits_every_screen(result, tmp_path):
    page = tmp_path / "report.html"
    page.write_text(html(search_page(result)), encoding="utf-8")
    assert faults(page) == []
