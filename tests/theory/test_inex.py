from __future__ import annotations

import math
from fractions import Fraction
from itertools import chain, combinations, combinations_with_replacement

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vinets.algebra.terms import TermSet
from vinets.theory import inex as module
from vinets.theory.inex import encode, inex, inex_signs, subsets, sums_matrix


def every_term(n: int, degree: int) -> TermSet:
    """All terms of degree 1 to ``degree``."""
    blocks = [list(combinations_with_replacement(range(n), d)) for d in range(1, degree + 1)]
    empty = np.zeros((0, 0), dtype=np.int64)
    return TermSet(n, (empty, *(np.array(block, dtype=np.int64) for block in blocks)))


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
    if not points:
        return []
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


@pytest.mark.parametrize("degree", range(1, 7))
def test_subsets_are_all_non_empty_ones_by_size_and_signs_follow_the_size(degree):
    masks = subsets(degree)
    expected = chain.from_iterable(combinations(range(degree), k) for k in range(1, degree + 1))
    assert [tuple(np.flatnonzero(mask)) for mask in masks] == list(expected)
    assert inex_signs(degree).tolist() == [(-1) ** (degree - mask.sum()) for mask in masks]


rationals = st.fractions(min_value=-3, max_value=3, max_denominator=12)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.data())
def test_the_encoding_is_exact_in_rational_arithmetic(n, degree, data):
    known = every_term(n, degree)
    chosen = data.draw(st.sets(st.integers(0, len(known) - 1), min_size=1, max_size=6))
    terms = known.select(np.array(sorted(chosen)))
    numbers = st.lists(
        st.floats(-4, 4), min_size=len(terms), max_size=len(terms)
    )  # floats are rationals
    coefficients = data.draw(st.lists(numbers, min_size=1, max_size=3))
    constants = [0.3 * j - 0.1 for j in range(len(coefficients))]
    points = data.draw(st.lists(st.lists(rationals, min_size=n, max_size=n), max_size=2))
    encoded = encode(
        terms,
        torch.tensor(coefficients, dtype=torch.float64),
        torch.tensor(constants, dtype=torch.float64),
    )
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


def test_terms_of_missing_degrees_are_no_obstacle():
    terms = TermSet.from_exponents([[1, 0], [1, 2], [4, 1]])  # nothing of degrees 2 and 4
    encoded = encode(terms, torch.eye(3))
    assert encoded.degree == 5 and encoded.sums.shape == (1 + 7 + 31, 2)
    points = torch.tensor([[0.5, -2.0]], dtype=torch.float64)
    torch.testing.assert_close(encoded.evaluate(points), torch.tensor([[0.5, 2, -0.125]]).double())


def test_the_matrix_of_sums_is_sparse_and_holds_each_subset_of_each_term_once():
    terms = every_term(3, 4)
    matrix = sums_matrix(terms)
    assert matrix.is_sparse and matrix.is_coalesced()
    rows = []
    for block in terms.blocks[1:]:
        for term in block.tolist():
            for size in range(1, len(term) + 1):
                rows += [[c.count(i) for i in range(3)] for c in combinations(term, size)]
    assert matrix.to_dense().int().tolist() == rows


def test_the_matrix_of_a_paper_sized_layer_is_small():
    generator = np.random.default_rng(0)
    rows = np.unique(np.sort(generator.integers(0, 128, (4000, 5)), axis=1), axis=0)
    empty = [np.zeros((0, d), dtype=np.int64) for d in range(5)]
    matrix = sums_matrix(TermSet(128, (*empty, rows)))
    assert matrix.shape == (len(rows) * 31, 128)
    assert matrix._nnz() <= len(rows) * 5 * 16  # a dense one has 25 times as many


def slopes(encoded, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """How much the activations stretch the way between the images of x and y under W_M."""
    before = [torch.sparse.mm(encoded.sums, p.mT).mT for p in (x, y)]
    after = [encoded.activate(b) for b in before]
    return (after[0] - after[1]).norm(dim=1) / (before[0] - before[1]).norm(dim=1)


@pytest.mark.parametrize("degree", range(1, 6))
def test_the_stacked_activation_is_d_lipschitz_on_the_image_of_the_cube(degree):
    terms = every_term(3, degree)
    encoded = encode(terms, torch.ones(1, len(terms)))
    generator = torch.Generator().manual_seed(0)
    x = 2 * torch.rand(2000, 3, generator=generator, dtype=torch.float64) - 1
    far = 2 * torch.rand(2000, 3, generator=generator, dtype=torch.float64) - 1
    corner = x.sign()  # where monomials are steepest
    for a, b in [(x, far), (x, x.lerp(far, 1e-3)), (corner, corner.lerp(far, 1e-3))]:
        assert float(slopes(encoded, a, b).max()) <= degree * (1 + 1e-6)


@pytest.mark.parametrize("degree", range(1, 6))
def test_a_single_power_has_the_slope_d_in_its_variable(degree):
    x = torch.tensor([1.0], dtype=torch.float64, requires_grad=True)
    terms = TermSet.from_exponents([[degree]])
    encode(terms, torch.ones(1, 1)).evaluate(x[None]).sum().backward()
    assert float(x.grad) == pytest.approx(degree, rel=1e-9)


def test_off_the_image_the_activation_is_steeper_than_d():
    z = torch.from_numpy(subsets(3).sum(1)).double().requires_grad_()  # the image of (1, 1, 1)
    inex(z, 3).backward()
    assert float(z.grad.norm()) == pytest.approx(math.sqrt(33))  # along the image at most 3


X = TermSet.from_exponents([[1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: encode(TermSet.from_exponents([[0], [1]]), torch.ones(1, 2)), "degree 1 and more"),
        (lambda: encode(X, torch.ones(1, 2)), "'coefficients' parameter of encode .*1 columns"),
        (lambda: encode(X, torch.ones(2, 1), torch.ones(1)), "'constants' parameter .*2 numbers"),
        (lambda: encode(X, torch.tensor([[math.nan]])), "finite"),
        (lambda: inex(torch.ones(4), 2), r"'sums' parameter of inex .*\(\.\.\., 3\)"),
        (lambda: inex(torch.ones(1), 0), "from 1 to 20"),
        (lambda: inex(torch.ones(1), 21), "from 1 to 20"),
        (lambda: encode(X, torch.ones(1, 1)).evaluate(torch.ones(2, 3)), r"shape \(m, 1\)"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_encoding_that_is_too_large_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES", 11)
    assert sums_matrix(TermSet.from_exponents([[2]]))._nnz() == 3
    with pytest.raises(ValueError, match="12 entries; at most 11"):
        sums_matrix(TermSet.from_exponents([[3]]))
