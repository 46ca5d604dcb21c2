from __future__ import annotations

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vinets.algebra.terms import TermSet
from vinets.latent.cut import truncate
from vinets.models import digits_cnn
from vinets.models.networks import BasicBlock
from vinets.theory.advisor import Region, Split, advise, power_of_ten, split_at
from vinets.theory.bounds import encode, kappa, polynomial_bounds
from vinets.theory.complexity import spectral_complexity
from vinets.theory.norms import Complexity, LayerNorms, matrix_norms

numbers = st.floats(0.1, 10)
some_layers = st.lists(st.builds(LayerNorms, st.just(""), numbers, numbers, numbers), max_size=4)
splits = st.builds(
    lambda kept, removed, before, last: Split(tuple(kept), (*removed, last), tuple(before)),
    some_layers,
    some_layers,
    some_layers,
    st.builds(LayerNorms, st.just(""), numbers, numbers, numbers),
)
regions = st.builds(
    Region, splits, st.floats(0.1, 10), st.floats(1, 100), st.sampled_from(["proved", "stated"])
)
sizes = st.tuples(st.integers(1, 6), st.integers(1, 500), st.integers(1, 500))


def chain(count: int, norm: float, ratio: float = 100.0) -> Split:
    """An uncut network of ``count`` equal layers and a final one of norm 3, all of them removed."""
    layers = tuple(LayerNorms(str(i), norm, ratio * norm) for i in range(count))
    return Split((), (*layers, LayerNorms("fc", 3.0, 9.0)))


def plain_bound(region: Region, d: int, n: int, s: int, tau: float) -> float:
    """The bound on kappa as the formula stands, without logarithms."""

    def product(layers):
        return math.prod(layer.lipschitz * layer.spectral for layer in layers)

    def total(layers):
        return sum((layer.two_one / layer.spectral) ** (2 / 3) for layer in layers)

    split = region.split
    power = 2 ** (d / 2) if region.constant == "proved" else 2**d
    head = d * power * d * tau * region.lambda_1 * math.sqrt(n * s)
    sums = (2**d * s) ** (2 / 3) + (n * math.sqrt(s)) ** (2 / 3) + region.lambda_2 ** (2 / 3)
    shares = (total(split.kept) + total(split.before) + sums) / (
        total(split.kept) + total(split.removed)
    )
    return head * product(split.before) / product(split.removed) * shares**1.5


# --- the region -------------------------------------------------------------------------------


@settings(deadline=None)
@given(regions, sizes, st.floats(1e-3, 1e3))
def test_logarithms_give_the_bound_as_the_formula_stands(region, size, tau):
    expected = math.log10(plain_bound(region, *size, tau))
    assert region.log10_kappa(*size, tau) == pytest.approx(expected, abs=1e-9)


def test_products_that_no_float_holds_are_compared_all_the_same():
    region = Region(chain(200, 1e5), lambda_1=1.0, lambda_2=10.0)
    assert 980 < region.log10_tau_max(2, 10, 16) < 1003
    low = Region(chain(200, 1e-5), lambda_1=1.0, lambda_2=10.0)
    assert low.log10_kappa(2, 10, 16, 1.0) > 980


# --- the bound bounds -------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(splits, st.data(), st.sampled_from(["proved", "stated"]), st.booleans())
def test_the_bound_is_at_least_the_kappa_of_random_heads(split, data, constant, own_ratio):
    powers = st.tuples(st.integers(0, 3), st.integers(0, 2)).filter(any)
    exponents = data.draw(st.sets(powers, min_size=1, max_size=8))
    terms = TermSet.from_exponents(sorted(exponents, key=sum))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 10**6)))
    count, classes = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 6))
    matrix = torch.randn(count, len(terms), generator=generator, dtype=torch.float64)
    # High powers leave few large entries.
    matrix = matrix.abs() ** data.draw(st.sampled_from([0, 5])) * matrix
    final = torch.randn(classes, count, generator=generator, dtype=torch.float64)
    found = polynomial_bounds(encode(terms, matrix), final)
    size, final = found.size, found.final
    ratio = max(1.0, final.ratio) if own_ratio else float(classes)
    region = Region(split, final.spectral, ratio, constant)
    bound = region.log10_kappa(size.degree, size.polynomials, size.monomials, size.tau)
    actual = kappa(split.kept, split.removed, (*split.before, *found.layers))
    assert math.log10(actual) <= bound + 1e-9


@pytest.mark.parametrize("degree", range(1, 7))
def test_the_bound_is_within_a_factor_of_two_of_the_kappa_of_a_power(degree):
    # Where the sum of the kept layers outweighs the rest, kappa is a quotient of products. That
    # of x^d is d sqrt(d (d + 1) 2^(d - 2)); without a factor d the bound would be broken.
    split = Split((LayerNorms("", 1.0, 1e15),), (LayerNorms("", 1.0, 1.0),))
    one = torch.ones(1, 1, dtype=torch.float64)
    found = polynomial_bounds(encode(TermSet.from_exponents([[degree]]), one), one)
    actual = kappa(split.kept, split.removed, found.layers)
    bound = 10 ** Region(split, 1.0, 1.0).log10_kappa(degree, 1, 1, 1.0)
    assert bound / actual == pytest.approx(2 / math.sqrt(1 + 1 / degree), rel=1e-6)


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10**6))
def test_no_final_layer_has_a_ratio_above_the_number_of_classes(classes, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(classes, columns, generator=generator, dtype=torch.float64)
    assert 1 - 1e-9 <= matrix_norms(matrix).ratio <= classes * (1 + 1e-9)
    attained = matrix_norms(5 * torch.eye(classes, 9))  # orthogonal rows of equal length
    assert attained.ratio == pytest.approx(classes, rel=1e-12)


# --- splitting --------------------------------------------------------------------------------


def residual_network() -> nn.Module:
    torch.manual_seed(0)
    stem = [nn.Conv2d(2, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU()]
    blocks = [BasicBlock(3, 3, 1), BasicBlock(3, 4, 2)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


HEAD = (LayerNorms("W_M", 7.0, 40.0, 2.0), LayerNorms("W_C", 3.0, 9.0), LayerNorms("W_F", 2.0, 5.0))


@pytest.mark.parametrize(
    ("make", "shape", "cut", "kept", "changed"),
    [
        (residual_network, (2, 6, 6), "2", 1, 0),  # in front of the blocks
        (residual_network, (2, 6, 6), "3", 3, 0),  # between them
        (residual_network, (2, 6, 6), "3.bn1", 1, 1),  # inside: the fork is a plain layer
        (residual_network, (2, 6, 6), "4.bn2", 3, 2),  # inside: there is no sum
        (residual_network, (2, 6, 6), "4", 4, 1),  # in front of the pooling
        (residual_network, (2, 6, 6), "6", 5, 0),  # behind it
        (digits_cnn, (1, 8, 8), "relu2", 2, 0),
        (digits_cnn, (1, 8, 8), "relu4", 3, 1),
    ],
)
def test_kappa_of_the_split_is_the_quotient_of_the_complexities(make, shape, cut, kept, changed):
    network, example = make().eval(), torch.zeros(1, *shape)
    uncut = spectral_complexity(network, example)
    truncated = spectral_complexity(truncate(network, cut), example)
    projection = LayerNorms("projection", 1.0, 8.0)
    split = split_at(uncut, truncated, [projection])
    assert len(split.kept) == kept and len(split.before) == changed + 1
    assert split.kept + split.removed == uncut.layers
    assert split.kept + split.before == (*truncated.layers, projection)
    vinet = Complexity((*truncated.layers, projection, *HEAD))
    found = kappa(split.kept, split.removed, (*split.before, *HEAD))
    assert found == pytest.approx(vinet.R / uncut.R, rel=1e-9)


# --- advice -----------------------------------------------------------------------------------


def expected_setting(region: Region, classes: int, per_class: int, monomials: int, tau: float):
    """The rule, as its text stands."""
    while True:
        for degree in (5, 4, 3, 2, 1):
            if tau <= 10 ** region.log10_tau_max(degree, classes * per_class, monomials):
                return degree, classes * per_class, monomials
        if (per_class, monomials) == (1, 16):
            return None
        per_class, monomials = max(1, per_class // 2), max(16, monomials // 2)


@pytest.mark.parametrize("norm", [1e-30, 1.0, 30, 100, 200, 300, 600, 1000, 1300, 2000, 1e4, 1e40])
@pytest.mark.parametrize("classes", [2, 100])
def test_the_recommendation_keeps_to_its_rule(norm, classes):
    advice = advise(chain(3, norm), classes)
    expected = expected_setting(advice.region, classes, 128, 512, 10.0)
    found = advice.setting
    told = json.loads(json.dumps(advice.to_dict(), allow_nan=False))
    assert [row["fits"] for row in told["rows"]] == [row.fits for row in advice.rows]
    assert told["log10_removed"] == advice.region.split.log10_removed
    if expected is None:
        assert found is None and told["setting"] is None
        return
    assert (found.degree, found.polynomials, found.monomials) == expected
    assert found.log10_kappa <= 0 and advice.tau == 10
    assert found.log10_tau_max == pytest.approx(advice.region.log10_tau_max(*expected))
    assert told["setting"]["log10_tau_max"] == found.log10_tau_max


def test_the_grid_and_the_defaults():
    advice = advise(chain(3, 100.0), 10)
    assert len(advice.rows) == 5 * 7 * 9
    assert (advice.region.lambda_1, advice.region.lambda_2) == (3.0, 10.0)
    assert advice.region.split.log10_removed == pytest.approx(6 + math.log10(3))
    stated = advise(chain(3, 100.0), 10, constant="stated")
    for ours, theirs in zip(advice.rows, stated.rows, strict=True):
        gap = ours.log10_tau_max - theirs.log10_tau_max
        assert gap == pytest.approx(ours.degree / 2 * math.log10(2))


def test_a_wanted_size_below_the_smallest_is_not_enlarged():
    advice = advise(chain(3, 1e4), 10, per_class=3, monomials_wanted=5)
    assert (advice.setting.polynomials, advice.setting.monomials) == (30, 5)
    assert {(r.polynomials, r.monomials) for r in advice.path} == {(30, 5), (10, 5)}


def test_a_sentence_says_what_to_take_or_why_nothing_fits():
    assert advise(chain(3, 1e3), 100).sentence == (
        "Take 12800 polynomials over 512 monomials of degree up to 3: κ ≤ 0.38 at τ = 10, and "
        "κ ≤ 1 up to τ = 26.3."
    )
    advice = advise(chain(1, 10.0), 10)
    assert advice.setting is None and not any(row.fits for row in advice.path)
    assert "10 polynomials over 16 monomials of degree 1" in advice.sentence
    assert "∏ρ‖W‖₂ = 10^1.48 only" in advice.sentence


@pytest.mark.parametrize("log10", [-7.31, -3.9, -0.0001, 0.0, 1.4199, 5.9999, 6.0, 12.345])
def test_powers_are_rounded_down_by_little(log10):
    text = power_of_ten(log10)
    power, number = text.startswith("10^"), float(text.removeprefix("10^").replace("−", "-"))
    shown = number if power else math.log10(number)
    assert log10 - 0.11 < shown <= log10 + 1e-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Split((), ()), "'removed'.*at least one layer.*before its last"),
        (lambda: Split((), (LayerNorms("a", 0.0, 0.0),)), "'removed'.*positive, finite"),
        (lambda: Split((LayerNorms("a", math.nan, 1.0),), HEAD), "'kept'.*positive, finite"),
        (lambda: split_at(Complexity(HEAD), Complexity(HEAD)), "at least one layer"),
        (lambda: Region(chain(1, 2.0), 0.0, 1.0), "'lambda_1'.*positive, finite"),
        (lambda: Region(chain(1, 2.0), 1.0, 0.5), r"'lambda_2'.*a number in \[1, inf\)"),
        (lambda: Region(chain(1, 2.0), 1.0, 1.0, "printed"), "'constant'.*'proved' or 'stated'"),
        (lambda: Region(chain(1, 2.0), 1.0, 1.0).log10_tau_max(0, 1, 1), "'degree'.*positive"),
        (lambda: advise(chain(1, 2.0), 0), "'classes'.*positive integer"),
        (lambda: advise(chain(1, 2.0), 10, tau=math.inf), "'tau'.*positive, finite"),
        (lambda: advise(chain(1, 2.0), 10, per_class=0), "'per_class'.*positive integer"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
