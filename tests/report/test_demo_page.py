from __future__ import annotations

import dataclasses
import re
from dataclasses import replace

import numpy as np
import pytest
from pages import ReadPage, loads_nothing

from vinets.pipeline.comparison import Comparison, NetworkResult, Speed
from vinets.pipeline.report import BuildReport, Pictures
from vinets.report import can_draw, demo_page, html, print_page
from vinets.report.comparisons import duels_of
from vinets.report.demo_page import (
    ComplexityFacts,
    DemoResult,
    ExampleResult,
    outcome_page,
    summary,
)
from vinets.report.values import Bullets
from vinets.theory.bounds import Bound
from vinets.theory.complexity import Complexity, LayerNorms
from vinets.theory.networks import CutComplexity, HeadNorms
from vinets.training.history import Epoch, History, Recipe

TESTS = 100
PARTS = {"backbone": 30, "projection": 5, "monomials": 2, "coefficients": 8, "linear": 5}


@dataclasses.dataclass(frozen=True)
class Bounds:
    """As those of a polynomial layer, with a ratio that can be chosen."""

    ratio: float = 0.5

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return (Bound("q", "s", 0.125, 1.0), Bound("q", "s", self.ratio, 1.0))

    @property
    def holds(self) -> bool:
        return self.ratio <= 1


def theory(ratio: float = 0.5) -> ComplexityFacts:
    layers = (LayerNorms("a", 10.0, 30.0), LayerNorms("f", 10.0, 30.0))
    head = HeadNorms((LayerNorms("W", 20.0, 60.0),), (2, 2), Bounds(ratio))
    return ComplexityFacts(Complexity(layers), {"pool": CutComplexity(Complexity(layers), head)})


def network(name: str, wrong: range, parts: dict[str, int], speed: float) -> NetworkResult:
    history = History((Epoch(1, 1.0, 0.5, 0.5, 0.5, 1.0),), 1, Recipe(epochs=1))
    accuracy = 1 - len(wrong) / TESTS
    return NetworkResult(
        name, parts, (accuracy,), (tuple(wrong),), Speed(speed, 1.0), 0.5, 0.5, history
    )


def build() -> BuildReport:
    rng = np.random.default_rng(0)
    pictures = Pictures(
        points=rng.normal(size=(20, 5)),
        labels=np.repeat([0, 1], 10),
        means=rng.uniform(size=(2, 4)),
        owners=np.array([0, 0, 1, 1]),
        scores=(rng.uniform(size=9), rng.uniform(size=9)),
        kept=(np.ones(2), np.ones(2)),
    )
    seconds, counts = {"ideals": 1.0}, (9, 5, 8, 4, 72, 20)
    return BuildReport(
        "pool", "global", (3, 4), 300, 0.9, *counts, {1: 4}, PARTS, 100, seconds, pictures=pictures
    )


def result(ours: int = 4, theirs: int = 20, **changes) -> DemoResult:
    """Results of one cut, with so many errors of the VI-Net and of its baseline."""
    uncut = network("uncut network", range(5), {"backbone": 100}, 100.0)
    networks = (
        network("VI-Net", range(ours), PARTS, 200.0),
        network("MLP", range(30, 30 + theirs), PARTS, 200.0),
    )
    made = build()
    found = DemoResult(
        command="python -m vinets.demo --out 'a & b'",
        machine={"python": "3", "torch": "2", "numpy": "2", "vinets": "0", "gpu": None},
        seed=7,
        seeds=1,
        batch=256,
        data="digits",
        train=300,
        test=TESTS,
        comparisons=(Comparison("pool", (3, 4), uncut, networks, made),),
        theory=theory(),
        saved="pool",
        example=ExampleResult(0, "3", "8", {"3": 0.25, "8": 0.75}, "<@@>"),
        settings={"psi": 0.25, "oracle": None},
        seconds=12.0,
    )
    return replace(found, **changes)


@pytest.mark.parametrize(
    ("ours", "words"),
    [(4, "96.00%, more often than"), (5, "95.00%, as often as"), (6, "94.00%, less often than")],
)
def test_the_summary_follows_the_numbers(ours, words):
    text = summary(result(ours))
    assert words in text
    assert "50% fewer parameters" in text and "2.00 times as many images" in text
    (found,) = result().comparisons
    large = replace(found.networks[0], parts={"backbone": 130}, speed=None)
    text = summary(result(comparisons=(replace(found, networks=(large,)),)))
    assert "30% more parameters." in text


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome", "words"),
    [
        (4, 20, "wins", "wins clearly at pool"),
        (20, 4, "loses", "loses clearly at pool"),
        (4, 5, "open", "No difference is clear"),
    ],
)
def test_a_defeat_is_called_one(ours, theirs, outcome, words):
    found = result(ours, theirs)
    (duel,) = duels_of(found.comparisons)
    assert duel.outcome == outcome
    text = html(demo_page(found))
    assert words in text and f"{outcome}, {ours} to {theirs}" in text


def test_the_page_shows_table_command_settings_and_answer():
    text = html(demo_page(result()))
    for part in ("MLP", "generators: 9 found", "psi", "0.25", "&lt;@@&gt;", "wrongly", "Seed 7"):
        assert part in text
    assert "python -m vinets.demo --out 'a &amp; b'" in text and "gpu" not in text
    rows = ReadPage(text).rows
    assert ["digit 8", "75.00%"] in rows
    assert any(row[:3] == ["VI-Net", "96.00", "+1.00"] for row in rows)


def test_the_page_tells_the_complexity_and_whether_bounds_hold():
    found = result()
    text = html(demo_page(found))
    uncut, pool = found.theory.uncut.log10_R, found.theory.cuts["pool"].whole.log10_R
    row = next(row for row in ReadPage(text).rows if row[0] == "VI-Net cut at pool")
    assert row == [
        row[0],
        f"10^{pool:.2f}",
        f"10^{pool - uncut:.2f}",
        f"10^{pool:.2f}",
        "yes",
        "0.5",
    ]
    assert "larger than that of the uncut network for 1 of 1" in text
    broken = ReadPage(html(demo_page(result(theory=theory(2.0))))).rows
    assert next(row for row in broken if row[0] == "VI-Net cut at pool")[4:] == ["no", "2"]


@pytest.mark.skipif(not can_draw(), reason="needs matplotlib")
def test_every_picture_says_what_it_shows_and_the_page_loads_nothing():
    made = build()
    plane = np.random.default_rng(0).normal(size=(20, 2))
    text = html(demo_page(result(pictures=made.pictures, plane=plane)))
    labels = re.findall(r'<svg role="img" aria-label="([^"]+)"', text)
    assert len(labels) == len(set(labels)) == 4  # points, scores, generators, parts
    found = ReadPage(text)
    assert len(found.figures) == 4  # accuracy, both losses, complexity
    ids = found.values("id")
    assert len(ids) == len(set(ids)) and loads_nothing(text)


def test_a_quick_run_says_so_first_and_judges_nothing():
    settings = {"recipe.epochs": 7}
    page = demo_page(result(quick=True, settings=settings))
    first = page.lead[0].text
    assert first.startswith("A quick run") and "7 epochs" in first
    assert not any(isinstance(block, Bullets) for block in page.lead)
    assert "Against each baseline" not in [section.title for section in page.sections]
    assert demo_page(result()).lead[0] == summary(result())


def test_the_terminal_tells_the_same(capsys):
    found = result(20, 4)
    print_page(outcome_page(found))
    printed = " ".join(capsys.readouterr().out.split())
    assert summary(found) in printed
    assert "loses clearly at pool" in printed and "digit 8 75.00%" in printed
    assert "12 seconds in all" in printed
