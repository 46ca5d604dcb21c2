"""Exact and approximate ideals computed by Macaulay2, Singular, SymPy and rational arithmetic."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from vinets import ABM, OAVI
from vinets.algebra.polynomials import PolynomialSet
from vinets.ideals.base import NoGeneratorsWarning, ScaleWarning

KNOWN = json.loads((Path(__file__).parents[1] / "data" / "known_ideals.json").read_text())
ORDERS = {"ascending": "deglex_x1_smallest", "descending": "deglex_x1_largest"}
BORDERS = {
    "groebner": ("gb_leading_terms", "gb", "gb"),
    "full": ("border_leading_terms", "border_basis", "bb"),
}
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{w.__module__}.{w.__name__}")
    for w in (ScaleWarning, NoGeneratorsWarning)
]


def table(p: PolynomialSet, j: int) -> dict[tuple[int, ...], float]:
    terms, leading = p.terms.exponents().tolist(), p.leading.exponents().tolist()
    row = {tuple(t): float(c) for t, c in zip(terms, p.tail[j], strict=True)}
    return row | {tuple(leading[j]): float(p.lead[j])}


def parse(polynomial: dict) -> dict[tuple[int, ...], float]:
    return {
        tuple(int(e) for e in key.split(",")): float(Fraction(str(value)))
        for key, value in polynomial.items()
    }


def assert_same(got: dict, wanted: dict, tolerance: float) -> None:
    for term in got.keys() | wanted.keys():
        assert got.get(term, 0.0) == pytest.approx(wanted.get(term, 0.0), abs=tolerance)


def algorithms(case: dict, truth: dict, **common):
    common["max_degree"] = case["max_degree"]
    yield OAVI(0.0, oracle="exact", tau=1e9, **common)
    yield OAVI(truth["psi"], oracle="exact", tau=1e9, **common)
    yield OAVI(truth["psi"], oracle="agd", tau=1e9, **common)
    yield ABM(0.0, **common)
    yield ABM(truth["psi_abm"], **common)
    yield ABM(0.0, normalization="leading", **common)
    yield ABM(truth["psi"], normalization="leading", **common)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", KNOWN["exact_cases"], ids=lambda c: c["name"])
def test_exact_ideals(case, order, border):
    truth = case["orders"][ORDERS[order]]
    leading, basis, _ = BORDERS[border]
    for model in algorithms(case, truth, border=border, variable_order=order):
        model.fit(np.array(case["points_float"]))
        assert model.order_ideal_.tolist() == truth["O"]
        assert model.leading_terms_.tolist() == truth[leading]
        for j, exact in enumerate(truth[basis]):
            got, lead = table(model.generators_, j), float(model.generators_.lead[j])
            assert_same({t: c / lead for t, c in got.items()}, parse(exact), 1e-8)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("case", KNOWN["approximate_cases"], ids=lambda c: c["name"])
def test_approximate_ideals(case, order, border):
    suffix = BORDERS[border][2]
    common = {"max_degree": case["max_degree"], "border": border, "variable_order": order}
    points, psi = np.array(case["points_float"]), case["psi"]

    truth = case["orders"][ORDERS[order]][f"oavi_{suffix}"]
    for model in (OAVI(psi, oracle="exact", **common), ABM(psi, normalization="leading", **common)):
        model.fit(points)
        assert model.order_ideal_.tolist() == truth["O"]
        assert model.leading_terms_.tolist() == truth["leading_terms"]
        np.testing.assert_allclose(model.mean_squares_, truth["mse"], atol=1e-12)
        for j, exact in enumerate(truth["coefs"]):
            assert_same(table(model.generators_, j), parse(exact), 1e-8)

    truth = case["orders"][ORDERS[order]][f"abm_{suffix}"]
    model = ABM(psi, **common).fit(points)
    assert model.order_ideal_.tolist() == truth["O"]
    assert model.leading_terms_.tolist() == truth["leading_terms"]
    np.testing.assert_allclose(model.mean_squares_, truth["lambda_min_over_m"], atol=1e-12)
    np.testing.assert_allclose(model.generators_.lead, truth["abs_leading_coef"], atol=1e-8)
