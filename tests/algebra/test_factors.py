"""Quadratics as products, against SymPy's expansion and against all other products."""

import numpy as np
import pytest
import sympy
import torch

from vinets.algebra.factors import nearest_products
from vinets.algebra.shared import SharedPolynomials
from vinets.algebra.terms import TermSet

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


@pytest.mark.parametrize(
    "text", ["(x + 2*y - 1)*(x - y + 3)", "(x + y)*(x - 3)", "(2*x - z + 1)**2", "x - 2*y + 1"]
)
def test_products_are_found_exactly(text):
    symbols = sympy.symbols("x y z")
    p = quadratic(sympy.expand(sympy.sympify(text)), symbols)
    points = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    expected = sympy.lambdify(symbols, sympy.sympify(text))(*points.double().numpy().T)
    np.testing.assert_allclose(product_at(nearest_products(p), points), expected, atol=1e-5)


def test_minus_a_square_is_one_too():
    (x,) = sympy.symbols("x,")
    p = quadratic(-((x - 2) ** 2), [x])
    points = torch.linspace(-3, 3, 7)[:, None]
    expected = -((points[:, 0] - 2) ** 2)
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
