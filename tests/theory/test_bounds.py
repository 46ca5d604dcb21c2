from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vinets import build
from vinets.algebra.common_terms import SharedPolynomials
from vinets.algebra.terms import TermSet
from vinets.data import digits
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.models import digits_cnn
from vinets.theory import bounds as module
from vinets.theory.bounds import (
    PolynomialBounds,
    PolynomialSize,
    encode,
    encode_polynomials,
    inex,
    inex_signs,
    kappa,
    polynomial_bounds,
    subsets,
    sums_matrix,
)
from vinets.theory.norms import matrix_norms
from vinets.training import fine_tune

ONE = TermSet.from_exponents([[1]])
COLUMN = torch.ones(4, 1, dtype=torch.float64)


def every_term(n: int, degree: int) -> TermSet:
    """All terms of degree 1 to ``degree``."""
    blocks = [list(combinations_with_replacement(range(n), d)) for d in range(1, degree + 1)]
    empty = np.zeros((0, 0), dtype=np.int64)
    return TermSet(n, (empty, *(np.array(block, dtype=np.int64) for block in blocks)))


# --- polynomials as two layers ----------------------------------------------------------------


def direct(terms: TermSet, coefficients, constants, point):
    """The polynomials at one point by powers and products, in the arithmetic of the point."""
    table = terms.exponents().tolist()
    values = [math.prod(x**a for x, a in zip(point, row, strict=True)) for row in table]
    return [
        sum((c * v for c, v in zip(row, values, strict=True)), shift)
        for row, shift in zip(coefficients, constants, strict=True)
    ]


def evaluate_exactly(encoded, points):
    """The values at rational points by the matrices of the encoding, without rounding."""
    x = np.array(points, dtype=object)  # numpy multiplies and adds fractions as they are
    sums = x @ encoded.sums.to_dense().long().numpy().astype(object).T
    values, start = [], 0
    for degree in encoded.terms.degrees.tolist():
        signs = inex_signs(degree).astype(object)
        part = sums[:, start : start + len(signs)]
        values.append(part**degree @ signs / math.factorial(degree))
        start += len(signs)
    # Coefficients are the binary fractions that floats are.
    exact = np.vectorize(Fraction, otypes=[object])
    matrix, shifts = exact(encoded.coefficients.numpy()), exact(encoded.constants.numpy())
    return (np.stack(values, 1) @ matrix.T + shifts).tolist()


rationals = st.fractions(min_value=-3, max_value=3, max_denominator=12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.data())
def test_the_encoding_is_exact_in_rational_arithmetic(n, degree, data):
    known = every_term(n, degree)
    chosen = data.draw(st.sets(st.integers(0, len(known) - 1), min_size=1, max_size=6))
    terms = known.select(np.array(sorted(chosen)))
    numbers = st.lists(st.floats(-4, 4), min_size=len(terms), max_size=len(terms))
    coefficients = data.draw(st.lists(numbers, min_size=1, max_size=3))  # floats are rationals
    constants = [0.3 * j - 0.1 for j in range(len(coefficients))]
    points = [data.draw(st.lists(rationals, min_size=n, max_size=n))]
    tables = (torch.tensor(numbers, dtype=torch.float64) for numbers in (coefficients, constants))
    encoded = encode(terms, *tables)
    exact = [[Fraction(c) for c in row] for row in coefficients]
    shifts = [Fraction(b) for b in constants]
    assert evaluate_exactly(encoded, points) == [direct(terms, exact, shifts, x) for x in points]


@pytest.mark.parametrize("degree", range(1, 6))
def test_the_encoding_agrees_in_float64_up_to_degree_five(degree):
    terms = every_term(4, degree)
    generator = torch.Generator().manual_seed(degree)
    coefficients = torch.randn(3, len(terms), generator=generator).double()
    coefficients /= coefficients.abs().sum(1, keepdim=True)
    constants = torch.randn(3, generator=generator).double()
    points = 2 * torch.rand(50, 4, generator=generator, dtype=torch.float64) - 1
    ours = encode(terms, coefficients, constants).evaluate(points)
    theirs = [direct(terms, coefficients.tolist(), constants.tolist(), x) for x in points.tolist()]
    torch.testing.assert_close(ours, torch.tensor(theirs, dtype=torch.float64), atol=1e-9, rtol=0)


@pytest.mark.parametrize("degree", range(1, 6))
def test_the_stacked_activation_is_d_lipschitz_on_the_image_of_the_cube(degree):
    terms = every_term(3, degree)
    encoded = encode(terms, torch.ones(1, len(terms)))
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(2000, 3, generator=generator, dtype=torch.float64) - 1
    far = 2 * torch.rand(2000, 3, generator=generator, dtype=torch.float64) - 1
    corner = x.sign()  # where monomials are steepest
    for a, b in [(x, far), (x, x.lerp(far, 1e-3)), (corner, corner.lerp(far, 1e-3))]:
        # How far the activations stretch the way between the images of a and b under W_M.
        before = [torch.sparse.mm(encoded.sums, p.mT).mT for p in (a, b)]
        after = [encoded.activate(sums) for sums in before]
        slopes = (after[0] - after[1]).norm(dim=1) / (before[0] - before[1]).norm(dim=1)
        assert float(slopes.max()) <= degree * (1 + 1e-6)


def test_off_the_image_the_activation_is_steeper_than_d():
    z = torch.from_numpy(subsets(3).sum(1)).double().requires_grad_()  # the image of (1, 1, 1)
    inex(z, 3).backward()
    assert float(z.grad.norm()) == pytest.approx(math.sqrt(33))  # along the image at most 3


def test_an_encoding_that_is_too_large_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES", 11)
    assert sums_matrix(TermSet.from_exponents([[2]]))._nnz() == 3
    with pytest.raises(ValueError, match="12 entries; at most 11"):
        sums_matrix(TermSet.from_exponents([[3]]))


# --- norms ------------------------------------------------------------------------------------


def dense_norms(matrix: torch.Tensor) -> tuple[float, float]:
    """Both norms by the definitions, from the dense matrix."""
    table = matrix.detach().double().to_dense().numpy()
    two_one = sum(math.sqrt(sum(a * a for a in row)) for row in table.tolist())
    return float(np.linalg.svd(table, compute_uv=False)[0]), two_one


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6), st.booleans())
def test_norms_are_those_of_the_definitions(rows, columns, seed, sparse):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(rows, columns, generator=generator, dtype=torch.float64)
    norms = matrix_norms(matrix.to_sparse() if sparse else matrix)
    assert (norms.spectral, norms.two_one) == pytest.approx(dense_norms(matrix), rel=1e-9)


# --- every bound holds ------------------------------------------------------------------------


@st.composite
def random_layers(draw: st.DrawFn) -> PolynomialBounds:
    """Bounds of random polynomials: dense or sparse rows, few or many, of any scale."""
    known = every_term(draw(st.integers(1, 4)), draw(st.integers(1, 5)))
    chosen = draw(st.sets(st.integers(0, len(known) - 1), min_size=1, max_size=20))
    terms = known.select(np.array(sorted(chosen)))
    count, classes = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10**6)))
    matrix = torch.randn(count, len(terms), generator=generator, dtype=torch.float64)
    power = draw(st.sampled_from([0, 1, 6]))  # high powers leave few large entries
    matrix = draw(st.floats(1e-3, 1e3)) * matrix.abs() ** power * matrix
    final = torch.randn(classes, count, generator=generator, dtype=torch.float64)
    return polynomial_bounds(encode(terms, matrix), final)


@settings(max_examples=150, deadline=None)
@given(random_layers())
def test_every_bound_holds_for_random_polynomials(found):
    assert len(found.bounds) == 7
    for bound in found.bounds:
        assert bound.holds, bound


def test_every_bound_holds_for_a_trained_vinet_and_its_encoding_is_the_layer():
    data = digits().train
    small = {"components": 8, "keep": 6, "monomials": 48, "per_class": 40, "progress": None}
    net = build(digits_cnn().eval(), data, "relu3", **small)[0]
    fine_tune(net, data.subset(torch.arange(300)), epochs=2, views=1, progress=None)
    layer, plain = net.eval().head.polynomials, net.head.folded()
    assert layer.shift is not None and layer.shift.abs().max() > 0  # folding is not vacuous
    found = polynomial_bounds(layer, plain.linear.weight)
    assert found.holds and len(found.bounds) == 7
    weight, terms = plain.polynomials.weight.detach(), plain.polynomials.monomials.terms
    size = found.size
    assert (size.monomials, size.polynomials) == (len(terms), len(weight))
    assert size.degree == len(terms.blocks) - 1 >= 2
    assert size.tau == pytest.approx(float(weight.double().abs().sum(1).max()))
    matrices = sums_matrix(terms), weight, plain.linear.weight
    for norms, matrix in zip(found.layers, matrices, strict=True):
        assert (norms.spectral, norms.two_one) == pytest.approx(dense_norms(matrix), rel=1e-9)
    assert [layer.lipschitz for layer in found.layers] == [size.degree, 1, 1]
    z = 2 * torch.rand(40, 8, generator=torch.Generator().manual_seed(0)) - 1
    theirs = layer(z).detach().double()
    ours = encode_polynomials(layer).evaluate(z.double()).abs()
    torch.testing.assert_close(ours, theirs, atol=1e-5 * float(theirs.max()), rtol=1e-4)


# --- and none could be much smaller -----------------------------------------------------------


def test_bounds_are_attained_or_nearly_so():
    # one variable: W_M = W_C = (1); equal rows: ||W_C|| is sqrt(N) tau
    single = polynomial_bounds(encode(ONE, torch.ones(1, 1)), COLUMN)
    assert single.holds
    assert [bound.tightness for bound in single.bounds] == pytest.approx(
        [2**-0.5, 1 / 2, 1, 1, 2**-0.5, 1 / 2, (2 + 4 ** (1 / 3)) / (4 ** (1 / 3) * 2 + 1)]
    )
    rows = polynomial_bounds(encode(every_term(2, 2), 3 * torch.eye(5)[:1].expand(7, 5)))
    assert rows.bounds[2].tightness == pytest.approx(1)


@pytest.mark.parametrize("degree", range(1, 9))
def test_the_bound_on_the_sums_is_right_in_the_degree_to_a_factor_of_two(degree):
    # the norm of a power x^d is sqrt(d (d + 1) 2^(d - 2))
    found = polynomial_bounds(encode(TermSet.from_exponents([[degree]]), torch.ones(1, 1)))
    assert found.bounds[0].tightness == pytest.approx(math.sqrt((1 + 1 / degree) / 4))


def test_the_printed_condition_on_the_final_layer_would_not_bound_the_sum():
    final = torch.ones(100, 1, dtype=torch.float64)
    found = polynomial_bounds(encode(ONE, torch.ones(1, 1)), final)
    printed = float(final.norm(dim=0).sum()) / found.final.spectral  # columns: not transposed
    assert printed == pytest.approx(1)
    actual = found.bounds[-1].actual
    assert found.size.sum_of_ratios(printed) < actual <= found.size.sum_of_ratios(10.0)


def test_proved_and_stated_product_differ_by_the_root_of_two_to_the_d():
    size = PolynomialSize(degree=4, monomials=3, polynomials=5, tau=2.0)
    assert size.product(7.0, "stated") == pytest.approx(2**4 * 4 * 2 * 7 * math.sqrt(15))
    assert size.product(7.0) == pytest.approx(2**2 * 4 * 2 * 7 * math.sqrt(15))
    assert size.sum_of_ratios(8.0) == pytest.approx(48 ** (2 / 3) + 5 ** (2 / 3) * 3 ** (1 / 3) + 4)


# --- records and refusals ---------------------------------------------------------------------


def test_generators_layers_and_encodings_are_taken_alike():
    terms = every_term(2, 2)
    layer = PolynomialLayer(terms, 3, standardized=False)
    shared = SharedPolynomials(terms, layer.weight.detach(), torch.zeros(3), torch.zeros(3))
    first, second = polynomial_bounds(layer), polynomial_bounds(shared)
    assert first == second == polynomial_bounds(encode_polynomials(shared))
    assert len(first.bounds) == len(first.layers) + 2 == 4  # no theorem without a final layer


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: encode(TermSet.from_exponents([[0], [1]]), torch.ones(1, 2)), "degree 1 and more"),
        (lambda: encode(ONE, torch.ones(1, 2)), "'coefficients' parameter of encode .*1 columns"),
        (lambda: encode(ONE, torch.ones(2, 1), torch.ones(1)), "'constants' parameter .*2 numbers"),
        (lambda: encode(ONE, torch.tensor([[math.nan]])), "finite"),
        (lambda: inex(torch.ones(4), 2), r"'sums' parameter of inex .*\(\.\.\., 3\)"),
        (lambda: encode(ONE, torch.ones(1, 1)).evaluate(torch.ones(2, 3)), r"shape \(m, 1\)"),
        (lambda: polynomial_bounds(encode(ONE, torch.zeros(1, 1))), "'tau'.*positive"),
        (lambda: polynomial_bounds(encode(ONE, torch.ones(1, 1)), torch.ones(2, 3)), "1 columns"),
        (lambda: polynomial_bounds(torch.nn.Linear(2, 2)), "PolynomialLayer.*Got 'Linear'"),
        (lambda: matrix_norms(torch.zeros(2, 2)), "not zero"),
        (lambda: matrix_norms(torch.zeros(2, 2).to_sparse()), "not zero"),
        (lambda: matrix_norms(torch.full((2, 2), math.nan)), "finite"),
        (lambda: matrix_norms(torch.full((2, 2), math.inf).to_sparse()), "finite"),
        (lambda: kappa([], [], []), "layers of an uncut network"),
        (lambda: PolynomialSize(0, 1, 1, 1.0), "'degree'.*positive integer"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()
