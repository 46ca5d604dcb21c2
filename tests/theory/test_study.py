from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from vinets.models import digits_cnn
from vinets.models.networks import BasicBlock
from vinets.theory.complexity import spectral_complexity
from vinets.theory.layers import read_layers
from vinets.theory.study import MarginBound, margins, network_width


def examples(count=200, classes=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, classes, generator=generator)
    labels = torch.randint(classes, (count,), generator=generator)
    logits[torch.arange(count), labels] += 1.5
    return logits, labels


def bound(values=None, **changes):
    values = margins(*examples()).numpy() if values is None else values
    settings = {"log10_R": 1.0, "input_norm": 3.0, "width": 50} | changes
    return MarginBound(values, **settings)


# Margins and their distribution


@pytest.mark.parametrize("classes", [2, 7])
def test_margins_are_those_of_a_plain_loop(classes):
    logits, labels = examples(classes=classes)
    expected = []
    for row, label in zip(logits.numpy().astype(float), labels.tolist(), strict=True):
        expected.append(row[label] - max(x for k, x in enumerate(row) if k != label))
    found = margins(logits, labels)
    assert found.dtype == torch.float64
    np.testing.assert_array_equal(found.numpy(), expected)
    wrong = (logits.argmax(1) != labels).double().mean().item()
    assert bound(found).error == pytest.approx(wrong)


def test_the_loss_counts_margins_of_at_most_gamma():
    values, gammas = np.array([0.5, -1.0, 0.5, 2.0, 0.0]), np.array([-2, -1, 0, 0.499, 0.5, 2, 9])
    sample, expected = bound(values), [np.mean(values <= gamma) for gamma in gammas]
    np.testing.assert_array_equal(sample.loss(gammas), expected)
    assert [sample.loss(g) for g in gammas.tolist()] == expected
    assert isinstance(sample.loss(1), float) and sample.error == 0.4  # the tie at 0 counts


def test_quantiles_invert_the_loss():
    sample = bound(np.random.default_rng(0).normal(size=100))
    shares = np.array([i / 100 for i in range(1, 101)])  # 0.07 * 100 is above 7 in floats
    np.testing.assert_array_equal(sample.quantiles(shares), sample.margins)
    np.testing.assert_array_equal(sample.loss(sample.quantiles(shares)), shares)
    assert sample.quantiles(0.0) == sample.margins[0]
    tied = bound(np.array([1.0, 1.0, 1.0, 2.0]))
    assert tied.quantiles(0.5) == 1 and tied.loss(tied.quantiles(0.5)) == 0.75


def test_margins_are_a_sorted_copy_and_the_record_holds_a_few():
    values = np.arange(1000.0)[::-1]
    sample = bound(values)
    assert values[0] == 999 and sample.margins.tolist() == sorted(values)
    with pytest.raises(ValueError, match="read-only"):
        sample.margins[0] = 0
    record = json.loads(json.dumps(sample.to_dict(), allow_nan=False))["margins"]
    assert record["quantiles"]["0.5"] == 499 and record["largest"] == 999
    assert record["examples"] == 1000 and len(str(record)) < 500


# Collecting


def test_collected_margins_and_norm_do_not_depend_on_the_batches():
    net = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 3)).train()
    net[0].eval()
    inputs, labels = torch.randn(50, 5), torch.randint(3, (50,))
    batches = [(inputs, labels)], zip(inputs.split(7), labels.split(7), strict=True)
    whole, parts = (MarginBound.measure(net, each, log10_R=0.0, width=8) for each in batches)
    assert [module.training for module in net] == [False, True, True]
    with torch.no_grad():
        expected = margins(net[2](net[0](inputs)), labels).sort().values
    for found in (whole, parts):
        np.testing.assert_allclose(found.margins, expected, atol=1e-5)
        assert found.input_norm == pytest.approx(np.linalg.norm(inputs.numpy().astype(float)))
        assert len(found.margins) == 50


# Width


def test_width_counts_what_a_block_carries():
    block = nn.Sequential(BasicBlock(3, 4, 2), nn.Flatten(), nn.Linear(16, 5))
    layers = read_layers(block, torch.zeros(1, 3, 4, 4))
    # Sizes: 48 at the input, 16 + 16 behind the fork, 16 behind the join, 5 at the end.
    assert network_width(layers) == 48
    assert network_width(layers[1:]) == 16
    wide = read_layers(BasicBlock(3, 3, 1), torch.zeros(1, 3, 4, 4))
    assert network_width(wide, extra=[95]) == 96
    assert network_width(wide, extra=[7, 1000]) == 1000


# The bound


def test_the_terms_are_those_of_the_formula():
    found = bound(log10_R=2.5, delta=0.05)
    m, gamma = 200, 0.7
    complexity = 3.0 * 10**2.5 * np.log(50) / gamma
    assert found.complexity_term(gamma) == pytest.approx(complexity / m)
    printed = bound(log10_R=2.5, form="printed")
    assert printed.complexity_term(gamma) == pytest.approx(complexity / np.sqrt(m))
    assert found.confidence_term == pytest.approx(np.sqrt(np.log(20) / m))
    total = np.mean(margins(*examples()).numpy() <= gamma) + complexity / m + found.confidence_term
    assert found.value(gamma) == pytest.approx(total)
    both = np.array([0.2, gamma])
    parts = found.loss(both) + found.complexity_term(both)
    np.testing.assert_allclose(found.value(both), parts + found.confidence_term)


def test_complexities_beyond_floats_stay_finite_in_logarithms():
    huge, larger = bound(log10_R=400.0), bound(log10_R=402.0)
    assert huge.complexity_term(1.0) == math.inf
    assert math.isfinite(huge.log10_complexity_term(1.0))
    assert larger.ratio_to(huge) == pytest.approx(100)
    assert bound(log10_R=-math.inf).complexity_term(1.0) == 0


# What may be compared


def network_bound(net, inputs, labels):
    log10_R = spectral_complexity(net, inputs[:1], tolerance=1e-8).log10_R
    width = network_width(read_layers(net, inputs[:1]))
    return MarginBound.measure(net, [(inputs, labels)], log10_R, width)


def test_a_factor_on_the_last_layer_cancels():
    torch.manual_seed(0)
    inputs, labels = torch.randn(60, 1, 8, 8), torch.randint(10, (60,))
    net = digits_cnn()
    before = network_bound(net, inputs, labels)
    net.fc.weight.data *= 7
    net.fc.bias.data *= 7
    after = network_bound(net, inputs, labels)
    np.testing.assert_allclose(after.margins, 7 * before.margins, rtol=1e-3)
    np.testing.assert_allclose(after.normalised, before.normalised, rtol=1e-3)
    scale = before.input_norm / 60 * 10**before.log10_R
    np.testing.assert_allclose(before.normalised * scale, before.margins)
    assert after.ratio_to(before, 0.99) == pytest.approx(1, rel=1e-3)


def test_the_ratio_is_free_of_the_scale_and_of_the_form():
    generator = np.random.default_rng(1)
    one, two = generator.gamma(2, 1, 101), generator.gamma(3, 2, 101)
    a, b = bound(one, log10_R=2.0, width=20), bound(two, log10_R=3.0, width=90)
    expected = 0.1 * np.log(20) / np.log(90) * np.median(two) / np.median(one)
    assert a.ratio_to(b) == pytest.approx(expected)
    assert b.ratio_to(a) == pytest.approx(1 / expected)
    c, d = (replace(each, form="printed") for each in (a, b))
    assert c.ratio_to(d) == pytest.approx(expected)


def test_margins_that_tie_are_compared_at_equal_loss():
    """Half the examples: 3 of 4 in a, for its margins tie, so 3 of 4 in b as well."""
    a, b = bound([1.0, 1.0, 1.0, 2.0]), bound([1.0, 2.0, 5.0, 6.0])
    assert a.ratio_to(b, 0.5) == pytest.approx(5.0)


# Errors

NUMBERS = torch.zeros(3, dtype=torch.long)


OUTSIDE = {"delta": (0.0, 1.0), "width": (1,), "input_norm": (0.0,), "form": ("other",)}
OUTSIDE["log10_R"] = (math.nan, math.inf)


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_bound_names_what_is_outside_its_domain(name):
    for value in OUTSIDE[name]:
        with pytest.raises(ValueError, match=f"'{name}' parameter of MarginBound"):
            bound(**{name: value})


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: margins(torch.zeros(3), NUMBERS), r"shape \(m, K\).*Got \(3,\)"),
        (lambda: margins(torch.zeros(3, 1), NUMBERS), "two classes or more"),
        (lambda: margins(torch.zeros(3, 2), NUMBERS[:2]), "3 integers"),
        (lambda: margins(torch.zeros(3, 2), torch.zeros(3)), "float32"),
        (lambda: margins(torch.zeros(3, 2), NUMBERS + 2), "labels from 2 to 2"),
        (lambda: margins(torch.zeros(3, 2), NUMBERS - 1), "labels from -1 to -1"),
        (lambda: margins(torch.full((3, 2), math.nan), NUMBERS), "finite"),
        (lambda: bound([]), "at least one"),
        (lambda: bound([[1.0]]), "vector"),
        (lambda: bound([math.inf]), "finite"),
        (lambda: bound().value(0.0), "gamma"),
        (lambda: bound().value(math.nan), "gamma"),
        (lambda: bound().value(np.array([1.0, -1.0])), "gamma"),
        (lambda: bound([1.0]).loss(math.nan), "nan"),
        (lambda: bound([1.0]).quantiles(1.5), "from 0 to 1"),
        (lambda: bound(log10_R=-math.inf).normalised, "'R'"),
        (lambda: bound(log10_R=400.0).normalised, "positive finite number"),
        (lambda: bound().ratio_to(bound(input_norm=4.0)), "same examples"),
        (lambda: bound().ratio_to(bound([1.0, 2.0])), "200 and 2 examples"),
        (lambda: bound().ratio_to(bound(form="printed")), "forms"),
        (lambda: bound().ratio_to(bound(), 2.0), "quantile"),
        (lambda: bound().ratio_to(bound(), 0.001), "Choose a larger one"),
        (lambda: bound().ratio_to(bound(log10_R=-math.inf)), "complexity 0"),
        (lambda: MarginBound.measure(nn.Identity(), [], 0.0, 2), "no examples"),
        (lambda: MarginBound.measure(nn.Identity(), [({}, torch.zeros(1))], 0.0, 2), "one tensor"),
    ],
)
def test_wrong_values_are_refused_in_a_sentence(call, match):
    with pytest.raises(ValueError, match=match):
        call()
