from __future__ import annotations

from math import comb

import pytest

from vinets.report.duels import duel, standings


def row(name: str, *wrong: list[int], cut: str = "pool") -> dict:
    return {"name": name, "cut": cut, "wrong": list(wrong)}


def mcnemar(better: int, worse: int) -> float:
    """Two-sided, by counting coin tosses."""
    n = better + worse
    tail = sum(comb(n, k) for k in range(min(better, worse) + 1)) / 2**n
    return min(1.0, 2 * tail)


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (3, 3), (1, 7), (9, 1), (12, 2)])
def test_one_seed_is_mcnemars_exact_test(better, worse):
    both = [900, 901]
    ours = row("VI-Net", both + list(range(100, 100 + worse)))
    theirs = row("MLP", both + list(range(better)))
    result = duel(ours, theirs)
    assert result.p == pytest.approx(mcnemar(better, worse))
    assert (result.ours, result.theirs) == (2 + worse, 2 + better)
    clear = mcnemar(better, worse) < 0.05
    assert result.outcome == (("wins" if better > worse else "loses") if clear else "open")


def test_several_seeds_count_an_image_once():
    ours = row("VI-Net", [1], [2], [3])
    theirs = row("MLP", *[list(range(10, 20))] * 3)
    result = duel(ours, theirs)
    assert result.p == pytest.approx(mcnemar(10, 3))  # not 30 to 3
    assert (result.ours, result.theirs) == (1, 10)


def test_trading_places_turns_the_outcome():
    strong, weak = row("a", [1]), row("b", list(range(2, 20)))
    assert duel(strong, weak).outcome == "wins"
    assert duel(weak, strong).outcome == "loses"
    assert str(duel(strong, weak)) == "wins, 1 to 18 (p < 0.001)"


def test_standings_say_what_the_duels_say():
    many = list(range(20, 40))
    duels = [
        duel(row("VI-Net", [1], cut="early"), row("MLP", many, cut="early")),
        duel(row("VI-Net", many, cut="middle"), row("MLP", [1], cut="middle")),
        duel(row("VI-Net", [1], cut="late"), row("MLP", [2], cut="late")),
        duel(row("VI-Net", [1], cut="late"), row("linear", [2, 3], cut="late")),
    ]
    first, second = standings(duels)
    assert first == (
        "Against MLP the VI-Net makes fewer errors behind 1 of 3 cuts, more behind 1 and as many "
        "behind 1. It wins clearly at early. It loses clearly at middle."
    )
    assert "Against linear" in second and second.endswith("No difference is clear.")
