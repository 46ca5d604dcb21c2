"""Generators as sequences of polynomials, in the user's coordinates and for other programs."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest
import sympy
import torch
from sklearn.preprocessing import MinMaxScaler, PowerTransformer, StandardScaler

from vinets import ABM, OAVI, VCA
from vinets.algebra.polynomial import Polynomial
from vinets.algebra.polynomials import PolynomialSet

MODELS = [
    ABM(1e-9, max_degree=3),
    ABM(1e-9, max_degree=3, border="full"),
    OAVI(1e-9, oracle="exact", max_degree=3),
    VCA(1e-9, max_degree=3),
]


def circle(count: int = 40) -> np.ndarray:
    angle = np.linspace(0, 6.2, count)
    return np.c_[np.cos(angle), np.sin(angle)]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_indices_iteration_calls_and_comparison_agree(model):
    found, points = model.fit(circle()).generators_, np.random.default_rng(0).normal(size=(7, 2))
    assert len(list(found)) == len(found) >= 1
    values = found(points)
    np.testing.assert_array_equal(values, found.evaluate(points))
    for k, one in enumerate(found):
        assert one == found[k] == found[k - len(found)] and one in found
        np.testing.assert_allclose(one(points), values[:, k], atol=1e-10)
        assert one(points[3]) == pytest.approx(values[3, k], abs=1e-10)
        torch.testing.assert_close(one(torch.from_numpy(points)), torch.from_numpy(one(points)))
        assert one.degree == found.degrees[k]
        assert hash(one) == hash(found[k])
    assert list(found[:1]) == [found[0]]
    again = model.fit(circle()).generators_
    assert again == found and hash(again) == hash(found)
    assert found != found[1:] and found[0] != 2
    with pytest.raises(IndexError):
        found[len(found)]
    with pytest.raises(ValueError, match="a point of 2 coordinates"):
        found[0]([1.0, 2.0, 3.0])


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_an_exact_circle_has_no_rounding_in_it(model):
    found = model.fit(circle()).generators_
    x, y = sympy.symbols("x y")
    assert "e-" not in " ".join(found.strings())
    for expression in found.to_sympy((x, y)):
        sizes = [abs(float(c)) for c in sympy.Poly(expression, x, y).coeffs()]
        assert min(sizes) > 1e-9 * max(sizes)
    assert found.to_sympy((x, y), rational=True)[0] == x**2 + y**2 - 1
    # with no tolerance, all is kept
    every = found.to_sympy((x, y), tolerance=0.0)[0]
    assert sympy.Poly(every, x, y).length() >= 3


@pytest.mark.parametrize("value", [1 / 3, -22 / 7, 0.125, 1e-3, 12345.5, -1e-4])
def test_fractions_are_the_simplest_within_the_tolerance(value):
    terms, names = ((0,), ()), ("x",)
    for tolerance in (1e-9, 1e-5):
        made = Polynomial(terms, (2.0, 2 * value), names).rational(tolerance)
        lead, constant = made.coefficients
        width = tolerance * max(1, abs(value))
        assert lead == 1 and isinstance(constant, Fraction) and abs(constant - value) <= width
        for denominator in range(1, min(constant.denominator, 2000)):
            assert abs(round(value * denominator) / denominator - value) > width * (1 - 1e-6)


def test_scaled_polynomials_have_the_same_values_before_the_scaling(random):
    X = random.normal(size=(60, 3)) * [1, 20, 0.1] + [5, -300, 0]
    X[:, 2] = X[:, 0] * 0.3 + X[:, 1] * 0.01
    for scaler in (MinMaxScaler((-1, 1), clip=True), StandardScaler()):
        Z = scaler.fit(X).transform(X)
        for model in (ABM(0.01, max_degree=3, border="full"), VCA(0.01, max_degree=2)):
            with warnings.catch_warnings(action="ignore"):  # some leave [-1, 1]
                found = model.fit(Z).generators_
            own = found.unscaled(scaler)
            assert isinstance(own, PolynomialSet) and len(own)
            expected = found(Z)
            np.testing.assert_allclose(own(X), expected, atol=1e-6 * max(1, abs(expected).max()))
            np.testing.assert_array_equal(own.degrees, found.degrees)


def test_scalers_that_bend_are_refused():
    found = ABM(1e-9, max_degree=2).fit(circle()).generators_
    with pytest.raises(ValueError, match="by a line of its own"):
        found.unscaled(PowerTransformer().fit(circle()))
    with pytest.raises(ValueError, match="a fitted scaler of 2 variables"):
        found.unscaled(MinMaxScaler())


def test_names_of_columns_are_printed_and_saved(tmp_path, monkeypatch):
    names = np.array(["width", "height"], dtype=object)
    for model in (OAVI(1e-9, oracle="exact", max_degree=2), VCA(1e-9, max_degree=2)):
        with monkeypatch.context() as patch:  # as of a table of pandas
            patch.setattr("sklearn.utils.validation._get_feature_names", lambda X: names)
            found = model.fit(circle().tolist()).generators_
        assert "height^2" in str(found) and "width^2" in str(found[0])
        assert {str(s) for s in found.to_sympy()[0].free_symbols} == {"width", "height"}
        found.save(tmp_path / "p")
        again = type(found).load(tmp_path / "p")
        assert again == found and again.names == ("width", "height")
        assert model.fit(torch.from_numpy(circle())).generators_.names == ("x0", "x1")
    with pytest.raises(ValueError, match="2 names"):
        found.named(["x"])


def test_scripts_hold_the_ideal_that_sympy_has():
    angle = np.linspace(0, 3, 50)
    curve = np.c_[np.cos(angle), np.cos(angle) ** 2 / 3, np.cos(angle) ** 3]
    found = OAVI(1e-12, oracle="exact", max_degree=3).fit(curve).generators_
    found = found.named(["a b", "R", "x2"])
    symbols = sympy.symbols("x0:3")
    expected = found.to_sympy(symbols, rational=True)
    singular, macaulay = found.to_singular(), found.to_macaulay2()
    assert singular.startswith("// x0 is a b\n// x1 is R\nring r = 0, (x0,x1,x2), dp;\nideal i = ")
    assert macaulay.startswith("-- x0 is a b\n-- x1 is R\nR = QQ[x0,x1,x2]\nI = ideal(")
    for body in (singular.split("ideal i = ")[1].rstrip(";"), macaulay.split("ideal(")[1][:-1]):
        texts = body.replace("^", "**").split(",")
        given = [sympy.sympify(text, rational=True) for text in texts]
        assert [sympy.expand(a - b) for a, b in zip(given, expected, strict=True)] == [0] * len(
            found
        )
    # the ideal of the curve: a point of it is a zero, and its equations are in it
    basis = sympy.groebner(expected, *symbols, order="grevlex")
    x, y, z = symbols
    assert all(basis.contains(p) for p in (3 * y - x**2, z - x**3))
