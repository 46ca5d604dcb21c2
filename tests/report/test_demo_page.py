from __future__ import annotations

import re

import pytest

from vinets.report import can_draw, demo_html
from vinets.report.demo_page import duels_of, print_outcome, summary
from vinets.report.results import COLUMNS, result_cells, result_row

TESTS = 100
PARTS = {"backbone": 30, "projection": 5, "monomials": 2, "coefficients": 8, "linear": 5}
SPEED = {"images_per_second": 200.0, "images_per_second_std": 1.0}


def complexity(log10: float, names: str) -> dict:
    """What the theory says about a network of plain layers."""
    layer = {"spectral": 10.0, "two_one": 30.0, "lipschitz": 1.0, "share": 1 / len(names)}
    return {"log10_R": log10, "layers": [layer | {"name": name} for name in names]}


def theory() -> dict:
    bounds = {"holds": True, "bounds": [{"tightness": 0.125}, {"tightness": 0.5}]}
    head = {"log10_kappa": 1.75, "log10_R_guaranteed": 6.5, "bounds": bounds}
    return {"uncut": complexity(4.0, "abc"), "cuts": {"pool": complexity(5.75, "ahf") | head}}


def results(ours: int = 4, theirs: int = 20) -> dict:
    """Results of one cut, with so many errors of the VI-Net and of its baseline."""
    facts = {"cut": "pool", "seconds": 1.0, **SPEED}
    epochs = [{"epoch": 1, "loss": 1.0, "validation_loss": 0.5}]
    slow = {"images_per_second": 100.0, "images_per_second_std": 1.0}
    wrong = [list(range(5))]
    return {
        "command": "python -m vinets.demo --out 'a & b'",
        "machine": {"python": "3", "torch": "2", "numpy": "2", "vinets": "0", "gpu": None},
        "seed": 7,
        "seeds": 1,
        "data": {"name": "digits", "train": 300, "test": TESTS},
        "batch": 256,
        "uncut": result_row("uncut network", {"backbone": 100}, wrong, TESTS, seconds=9.0) | slow,
        "cuts": [
            {
                "cut": "pool",
                "channels": 3,
                "positions": 4,
                "uncut": slow,
                "settings": {"psi": 0.25},
                "report": "generators: 9 found, 5 kept",
            }
        ],
        "rows": [
            result_row("VI-Net", PARTS, [list(range(ours))], TESTS, **facts),
            result_row("MLP", PARTS, [list(range(30, 30 + theirs))], TESTS, **facts),
        ],
        "histories": {"pool": {"VI-Net": {"epochs": epochs, "best": 1}}},
        "theory": theory(),
        "saved": {"cut": "pool", "folder": "vinet"},
        "example": {
            "index": 0,
            "label": "3",
            "prediction": "8",
            "probabilities": {"3": 0.25, "8": 0.75},
            "picture": "<@@>",
        },
        "seconds": 12.0,
    }


@pytest.fixture
def _plain(monkeypatch):
    """Figures take time, and words do not depend on them."""
    monkeypatch.setattr("vinets.report.demo_page.can_draw", lambda: False)


@pytest.mark.parametrize(
    ("ours", "words"),
    [(4, "96.00%, more often than"), (5, "95.00%, as often as"), (6, "94.00%, less often than")],
)
def test_the_summary_follows_the_numbers(ours, words):
    text = summary(results(ours))
    assert words in text
    assert "50% fewer numbers" in text and "2.00 times as many images" in text
    large = results()
    large["rows"][0]["parameters"] = 130
    assert "30% more numbers" in summary(large)


@pytest.mark.usefixtures("_plain")
@pytest.mark.parametrize(
    ("ours", "theirs", "outcome", "words"),
    [
        (4, 20, "wins", "wins clearly at pool"),
        (20, 4, "loses", "loses clearly at pool"),
        (4, 5, "open", "No difference is clear"),
    ],
)
def test_a_defeat_is_called_one(ours, theirs, outcome, words):
    (duel,) = duels_of(results(ours, theirs))
    assert duel.outcome == outcome
    text = demo_html(results(ours, theirs))
    assert words in text and f"{outcome}, {ours} to {theirs}" in text


@pytest.mark.usefixtures("_plain")
def test_the_page_shows_table_command_settings_and_answer():
    text = demo_html(results())
    for part in ("MLP", "generators: 9 found", "psi", "0.25", "&lt;@@&gt;", "wrongly", "Seed 7"):
        assert part in text
    assert "python -m vinets.demo --out 'a &amp; b'" in text
    assert "gpu" not in text


@pytest.mark.usefixtures("_plain")
def test_the_page_tells_the_complexity_and_whether_bounds_hold():
    found = results()
    text = demo_html(found)
    for part in ("10^4.00", "10^5.75", "10^1.75", "10^6.50", "<td>yes</td><td>0.5</td>"):
        assert part in text
    assert "larger than that of the uncut network for 1 of 1" in text
    found["theory"]["cuts"]["pool"]["bounds"]["holds"] = False
    assert "<td>NO</td>" in demo_html(found)


@pytest.mark.usefixtures("_plain")
def test_without_matplotlib_the_page_says_so():
    text = demo_html(results(), {"points": pytest.fail})
    assert "<svg" not in text and "vinets[plots]" in text
    assert "96.00" in text


@pytest.mark.skipif(not can_draw(), reason="needs matplotlib")
def test_every_figure_says_what_it_shows():
    drawings = {name: lambda ax: ax.plot([1, 2]) for name in ("points", "generators", "scores")}
    text = demo_html(results(), drawings)
    assert text.count("<figure>") == text.count("<svg ") == 8
    labels = re.findall(r'<svg role="img" aria-label="([^"]+)"', text)
    assert len(set(labels)) == 8


def test_the_terminal_tells_the_same(capsys):
    print_outcome(results(20, 4))
    printed = " ".join(capsys.readouterr().out.split())
    assert summary(results(20, 4)) in printed
    assert "loses clearly at pool" in printed and "8 with 75.0%, 3 with 25.0%" in printed


def test_cells_hold_the_difference_to_the_uncut_network():
    found = results()
    cells = result_cells(found["rows"], found["uncut"])
    assert all(len(row) == len(COLUMNS) for row in cells)
    assert [row[2] for row in cells] == ["", "+1.00", "−15.00"]
    assert cells[1][3:9] == ["30", "5", "2", "8", "5", "50"]
