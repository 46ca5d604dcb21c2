"""Polynomials of several sets over one list of terms, against the sets themselves; and products.

Quadratics as products are held against SymPy's expansion and against all other products.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy
import torch

from vinets.algebra.common_terms import (
    SharedPolynomials,
    count_monomials,
    nearest_products,
    term_moments,
    union_of_terms,
)
from vinets.algebra.polynomials import PolynomialSet
from vinets.algebra.terms import TermSet


def random_terms(random, n, count, low=0):
    rows = {tuple(r) for r in random.integers(0, 3, size=(count, n)).tolist()}
    return TermSet.from_exponents(
        sorted((r for r in rows if sum(r) >= low), key=lambda r: (sum(r), r[::-1]))
    )


def random_set(seed, n=3):
    random = np.random.default_rng(seed)
    terms, leading = random_terms(random, n, 9), random_terms(random, n, 4, low=1)
    tail = torch.from_numpy(random.normal(size=(len(leading), len(terms))))
    tail[:, ::3] = 0
    return PolynomialSet(terms, leading, tail, torch.from_numpy(random.normal(size=len(leading))))


def exponents(terms):
    return [tuple(row) for row in terms.exponents().tolist()]


@pytest.mark.parametrize("seeds", [[0], [1, 2], [3, 4, 5, 6]])
def test_values_are_those_of_the_sets_side_by_side(seeds, random):
    sets = [random_set(seed) for seed in seeds]
    shared = SharedPolynomials.of(sets)
    points = torch.from_numpy(random.uniform(-1, 1, size=(11, 3)))
    wanted = torch.cat([p.evaluate(points) for p in sets], dim=1)
    torch.testing.assert_close(shared.evaluate(points), wanted)
    assert len(shared) == wanted.shape[1]
    assert shared.owners.tolist() == [k for k, p in enumerate(sets) for _ in range(len(p))]
    assert (shared.coefficients != 0).any(0).all()  # every term is used
    used = set()
    for p in sets:
        used |= {t for t, yes in zip(exponents(p.terms), (p.tail != 0).any(0), strict=True) if yes}
        used |= set(exponents(p.leading))
    used -= {(0, 0, 0)}
    assert len(shared.terms) == len(used) == count_monomials(sets)
    assert set(exponents(shared.terms)) == used


def test_the_constant_is_the_bias():
    one = TermSet.from_exponents([[0, 0], [1, 0]])
    tail = torch.tensor([[3.0, 0.5]])
    p = PolynomialSet(one, TermSet.from_exponents([[1, 1]]), tail, torch.tensor([2.0]))
    both = SharedPolynomials.of([p, p])
    assert both.constants.tolist() == [3.0, 3.0] and both.terms.names() == ["x0", "x0*x1"]
    assert both.coefficients.tolist() == [[0.5, 2.0]] * 2
    bare = SharedPolynomials.of(
        [PolynomialSet(one, p.leading, tail * torch.tensor([0, 1]), p.lead)]
    )
    assert bare.constants.tolist() == [0.0] and bare.terms.names() == ["x0", "x0*x1"]


def test_union_of_terms_is_the_sorted_union(random):
    sets = [random_terms(random, 4, 12) for _ in range(3)]
    union, places = union_of_terms(sets)
    rows = exponents(union)
    assert sorted(rows) == sorted({row for terms in sets for row in exponents(terms)})
    assert [sum(row) for row in rows] == sorted(sum(row) for row in rows)
    for terms, at in zip(sets, places, strict=True):
        assert [rows[i] for i in at] == exponents(terms)


def test_union_with_sets_of_other_depths_and_with_nothing():
    low, high = TermSet.from_exponents([[1, 0]]), TermSet.from_exponents([[0, 0], [0, 3]])
    union, places = union_of_terms([low, high, TermSet(2, ())])
    assert union.names() == ["1", "x0", "x1^3"]
    assert [at.tolist() for at in places] == [[1], [0, 2], []]


def made(table, constants=None, owners=None):
    table = torch.tensor(table, dtype=torch.float64)
    n = table.shape[1]
    terms = TermSet.from_exponents(np.eye(n, dtype=int))
    constants = torch.zeros(len(table)) if constants is None else torch.tensor(constants)
    owners = torch.arange(len(table)) if owners is None else torch.tensor(owners)
    return SharedPolynomials(terms, table, constants.double(), owners)


def test_compact_drops_unused_terms_and_constant_polynomials():
    small = made([[1, 0, 2], [0, 0, 0], [0, 0, 3]], [1.0, 2.0, 3.0], [5, 6, 7]).compact()
    assert small.terms.names() == ["x0", "x2"]
    assert small.coefficients.tolist() == [[1, 2], [0, 3]]
    assert small.constants.tolist() == [1, 3] and small.owners.tolist() == [5, 7]


def test_restrict_keeps_the_terms_of_the_largest_influence():
    table = [[1.0, -4.0, 0.0, 2.0], [1.0, 0.0, 0.5, 0.0]]
    spread = torch.tensor([1.0, 0.1, 10.0, 2.0])  # influence 2, 0.4, 5, 4
    full = made(table)
    assert full.restrict(2, spread).terms.names() == ["x2", "x3"]
    assert full.restrict(2, spread).coefficients.tolist() == [[0, 2], [0.5, 0]]
    one = full.restrict(1, spread)
    assert one.terms.names() == ["x2"] and one.owners.tolist() == [1]  # the other lost all its own
    for count in (4, 9):
        assert torch.equal(full.restrict(count, spread).coefficients, full.coefficients)
    assert full.restrict(3, spread).terms.names() == ["x0", "x2", "x3"]


@pytest.mark.parametrize("chunk", [1, 7, 4096])
def test_moments_are_those_of_numpy(chunk, random):
    terms = random_terms(random, 3, 8)
    points = torch.from_numpy(random.uniform(-1, 1, size=(23, 3))).float()
    mean, std = term_moments(terms, points, chunk=chunk)
    values = np.prod(points.double().numpy()[:, None] ** terms.exponents(), axis=2)
    constant = values.std(0) < 1e-8
    assert mean.dtype == std.dtype == torch.float64
    np.testing.assert_allclose(mean, values.mean(0), rtol=1e-12)
    np.testing.assert_allclose(std, np.where(constant, 1.0, values.std(0)), rtol=1e-9)


def test_moments_far_from_zero_do_not_cancel(random):
    points = torch.from_numpy(1e6 + random.normal(size=(500, 1)))
    mean, std = term_moments(TermSet.from_exponents([[0], [1]]), points, chunk=64)
    np.testing.assert_allclose(mean, [1, points.numpy().mean()], rtol=1e-14)
    np.testing.assert_allclose(std, [1, points.numpy().std()], rtol=1e-9)


def test_points_of_another_width_are_named():
    with pytest.raises(ValueError, match=r"points must have shape \(m, 2\)"):
        made([[1.0, 2.0]]).evaluate(torch.zeros(3, 4))


NONE = torch.zeros(1, dtype=torch.int64)


def quadratic(expression, symbols):
    """A polynomial of SymPy as ours."""
    found = sympy.Poly(expression, *symbols)
    exponents = [e for e in found.monoms() if sum(e)]
    order = sorted(exponents, key=lambda e: (sum(e), [-k for k in e]))
    terms = TermSet.from_exponents(order)
    values = [float(found.coeff_monomial(e)) for e in terms.exponents().tolist()]
    constant = torch.tensor([float(found.coeff_monomial((0,) * len(symbols)))])
    return SharedPolynomials(terms, torch.tensor([values]), constant, NONE)


def product_at(forms, points):
    z = torch.cat([torch.ones(len(points), 1), points], 1).double()
    return (z @ forms[0].mT * (z @ forms[1].mT))[:, 0]


PRODUCTS = ["(x + 2*y - 1)*(x - y + 3)", "(x + y)*(x - 3)", "(2*x - z + 1)**2", "-(x - 2)**2"]


@pytest.mark.parametrize("text", [*PRODUCTS, "x - 2*y + 1"])
def test_products_are_found_exactly(text):
    symbols = sympy.symbols("x y z")
    p = quadratic(sympy.expand(sympy.sympify(text)), symbols)
    points = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    expected = sympy.lambdify(symbols, sympy.sympify(text))(*points.double().numpy().T)
    np.testing.assert_allclose(product_at(nearest_products(p), points), expected, atol=1e-5)


def test_no_other_product_of_two_forms_is_nearer():
    symbols = sympy.symbols("x y z")
    p = quadratic(sympy.sympify("3*x**2 - 2*y**2 + z**2/2 + x*y/3 + z - 1"), symbols)
    forms = nearest_products(p)[:, 0]
    whole = torch.zeros(4, 4, dtype=torch.float64)
    entries = {(0, 0): -1, (1, 1): 3, (2, 2): -2, (3, 3): 0.5, (1, 2): 1 / 6, (0, 3): 0.5}
    for (i, j), value in entries.items():
        whole[i, j] = whole[j, i] = value

    def distance(a, b):
        return float((whole - (torch.outer(a, b) + torch.outer(b, a)) / 2).norm())

    best = distance(*forms)
    generator = torch.Generator().manual_seed(1)
    for size in (0.01, 0.1, 1.0):
        for _ in range(200):
            moved = forms + size * torch.randn(2, 4, generator=generator, dtype=torch.float64)
            assert distance(*moved) >= best - 1e-12


def test_higher_degrees_are_refused():
    terms = TermSet.from_exponents([[3, 0]])
    cubic = SharedPolynomials(terms, torch.ones(1, 1), torch.zeros(1), NONE)
    with pytest.raises(ValueError, match="degree 3"):
        nearest_products(cubic)
