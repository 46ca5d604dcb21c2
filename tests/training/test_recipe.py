from __future__ import annotations

import json
import math

import pytest

from vinets.core.plain import as_plain, from_plain
from vinets.core.settings import BACKBONE, TrainingOptions
from vinets.training import Epoch, History


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", -1),
        ("epochs", None),
        ("epochs", 2.5),
        ("batch_size", -1),
        ("learning_rate", -0.1),
        ("learning_rate", math.nan),
        ("learning_rate", "fast"),
        ("momentum", 1.0),
        ("weight_decay", -1e-4),
        ("validation", 1.0),
        ("validation", -0.1),
        ("label_smoothing", 1.0),
        ("distill", 1.1),
        ("temperature", 0.0),
        ("temperature", -1.0),
        ("clip", -1.0),
        ("schedule", "step"),
        ("precision", "float16"),
    ],
)
def test_numbers_outside_their_domain_are_named(name, value):
    with pytest.raises(
        ValueError, match=rf"^The '{name}' parameter of TrainingOptions must be .* Got"
    ):
        TrainingOptions(**{name: value})


def test_nesterov_needs_momentum():
    with pytest.raises(ValueError, match=r"'momentum'.*above 0 with nesterov"):
        TrainingOptions(nesterov=True, momentum=0.0)


def test_cosine_falls_from_the_rate_to_nothing():
    recipe = TrainingOptions(learning_rate=0.3)
    assert recipe.rate(0, 100) == 0.3
    assert recipe.rate(50, 100) == pytest.approx(0.15)
    assert recipe.rate(100, 100) == pytest.approx(0, abs=1e-12)
    rates = [recipe.rate(s, 100) for s in range(101)]
    assert rates == sorted(rates, reverse=True)


def test_one_cycle_rises_for_a_quarter_and_falls():
    recipe = TrainingOptions(learning_rate=0.2, schedule="one-cycle")
    rates = [recipe.rate(s, 80) for s in range(81)]
    assert rates.index(max(rates)) == 20 and rates[20] == pytest.approx(0.2)
    assert rates[10] == pytest.approx(0.1) and rates[50] == pytest.approx(0.1)
    assert rates[:21] == sorted(rates[:21]) and rates[20:] == sorted(rates[20:], reverse=True)
    assert rates[0] > 0 and rates[80] == 0


@pytest.mark.parametrize("schedule", ["cosine", "one-cycle", "constant"])
@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_the_learning_rate_is_never_exceeded(schedule, steps):
    recipe = TrainingOptions(learning_rate=0.2, schedule=schedule)
    rates = [recipe.rate(s, steps) for s in range(steps)]
    assert all(0 < rate <= 0.2 for rate in rates)


def test_constant_is_constant():
    recipe = TrainingOptions(schedule="constant", learning_rate=0.1)
    assert {recipe.rate(s, 9) for s in range(10)} == {0.1}


def test_a_history_survives_json():
    epochs = (Epoch(1, 2.0, 0.5, None, None, 1.5), Epoch(2, 1.0, 0.6, 1.1, 0.4, 0.5))
    history = History(epochs, 2, BACKBONE)
    assert from_plain(History, json.loads(json.dumps(as_plain(history)))) == history
    assert history.seconds == 2.0 and history.kept == epochs[1]
