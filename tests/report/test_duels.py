from __future__ import annotations

from math import comb

import pytest

from vinets.pipeline.comparison import NetworkResult
from vinets.report.comparisons import duel, standings


def network(name: str, *wrong: list[int]) -> NetworkResult:
    return NetworkResult(name, {}, (0.5,), wrong=tuple(map(tuple, wrong)))


def mcnemar(better: int, worse: int) -> float:
    """Two-sided, by counting coin tosses."""
    n = better + worse
    tail = sum(comb(n, k) for k in range(min(better, worse) + 1)) / 2**n
    return min(1.0, 2 * tail)


@pytest.mark.parametrize(("better", "worse"), [(0, 0), (3, 3), (1, 7), (9, 1), (12, 2)])
def test_one_seed_is_mcnemars_exact_test(better, worse):
    both = [900, 901]
    ours = network("VI-Net", both + list(range(100, 100 + worse)))
    theirs = network("MLP", both + list(range(better)))
    result = duel("pool", ours, theirs)
    assert result.p == pytest.approx(mcnemar(better, worse))
    assert (result.ours, result.theirs) == (2 + worse, 2 + better)
    clear = mcnemar(better, worse) < 0.05
    assert result.outcome == (("wins" if better > worse else "loses") if clear else "open")


def test_several_seeds_count_an_image_once():
    ours = network("VI-Net", [1], [2], [3])
    theirs = network("MLP", *[list(range(10, 20))] * 3)
    result = duel("pool", ours, theirs)
    assert result.p == pytest.approx(mcnemar(10, 3))  # not 30 to 3
    assert (result.ours, result.theirs) == (1, 10)


def test_trading_places_turns_the_outcome():
    strong, weak = network("a", [1]), network("b", list(range(2, 20)))
    assert duel("pool", strong, weak).outcome == "wins"
    assert duel("pool", weak, strong).outcome == "loses"
    assert str(duel("pool", strong, weak)) == "wins, 1 to 18 (p < 0.001)"


def test_standings_say_what_the_duels_say():
    many = list(range(20, 40))
    duels = [
        duel("early", network("VI-Net", [1]), network("MLP", many)),
        duel("middle", network("VI-Net", many), network("MLP", [1])),
        duel("late", network("VI-Net", [1]), network("MLP", [2])),
        duel("late", network("VI-Net", [1]), network("linear", [2, 3])),
    ]
    first, second = standings(duels)
    assert first == (
        "MLP: the VI-Net makes fewer errors behind 1 of 3 cuts, more behind 1 and as many behind 1."
        " It wins clearly at early. It loses clearly at middle."
    )
    assert second.startswith("linear: ") and second.endswith("No difference is clear.")
