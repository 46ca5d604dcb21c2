"""A fit is finite and says of itself what its generators do on the points, or it is an error."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from vinets import ABM, OAVI, VCA, fit_class_ideals
from vinets.algebra.polynomials import PolynomialSet
from vinets.algebra.terms import TermSet
from vinets.ideals.base import NoGeneratorsWarning, RoundingWarning, ScaleWarning, verified
from vinets.ideals.fit import FittedIdeal

pytestmark = pytest.mark.filterwarnings("ignore")
DRAW = np.random.default_rng(0)
ANGLE = DRAW.uniform(0, 2 * np.pi, 60)
POINTS = {
    "circle": np.c_[np.cos(ANGLE), np.sin(ANGLE)],
    "grid": DRAW.integers(-3, 4, (60, 2)) / 3,
    "wide": DRAW.integers(0, 256, (40, 3)).astype(float),
    "tiny": 1e-4 * DRAW.uniform(-1, 1, (40, 2)),
    "line": np.c_[np.linspace(-1, 1, 30), np.linspace(-1, 1, 30) / 3],
}


def honest(model, X, least: float = 1e-14) -> None:
    """What transform gives on the points is what was told of them."""
    values = np.square(model.transform(X).astype(float)).mean(0)
    assert np.isfinite(values).all()
    np.testing.assert_allclose(model.mean_squares_, values, rtol=1e-6, atol=least)


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.parametrize("psi", [0.0, 1e-18, 1e-9, 1e-4, 0.05])
@pytest.mark.parametrize("kind", [ABM, OAVI, VCA])
def test_mean_squares_are_those_of_transform(kind, psi, name):
    X = POINTS[name]
    # out of a Gram matrix they are as good as that; where psi is below it, they are exact
    honest(kind(psi=psi, max_degree=3).fit(X), X, 1e-14 if psi > 1e-5 else 0.0)


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("psi", [1e-8, 1e-3, 0.05, 0.999])
@pytest.mark.parametrize("kind", [ABM, OAVI])
def test_so_they_are_in_every_precision_or_there_is_an_error(kind, psi, precision):
    for X in (POINTS["circle"], POINTS["grid"], POINTS["line"]):
        try:
            model = kind(psi=psi, precision=precision, max_degree=3).fit(X)
        except ValueError as error:
            assert "overflow on these points" in str(error)
        else:
            honest(model, X)


def test_where_the_ball_binds_float32_decides_as_float64():
    """Gram matrices in float32 would be coarser than the tolerance, and keep what vanishes."""
    X = np.random.default_rng(1).uniform(-1, 1, (3, 5)).astype(np.float32)
    given = {"psi": 1e-10, "tau": 3.0, "oracle": "exact", "max_degree": 2}
    wide, low = (OAVI(precision=p, **given).fit(X) for p in ("float64", "float32"))
    assert len(wide.order_ideal_) > len(X)  # the ball keeps terms that depend on others
    assert low.order_ideal_.tolist() == wide.order_ideal_.tolist()
    assert low.leading_terms_.tolist() == wide.leading_terms_.tolist()


@pytest.mark.parametrize("scale", [1.0, 1e-12])
@pytest.mark.parametrize("kind", [ABM, OAVI])
def test_what_low_precision_leaves_is_told_at_every_scale(kind, scale):
    X = scale * np.random.default_rng(2).uniform(-1, 1, (1, 3))
    with pytest.warns(RoundingWarning, match="above psi=0 on the points"):
        model = kind(psi=0.0, precision="float32", max_degree=1).fit(X)
    assert (model.mean_squares_ > 1e-20 * scale**2).any()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RoundingWarning)
        kind(psi=0.0, max_degree=1).fit(X)


@pytest.mark.parametrize("share", [1.9, 2.1])
def test_a_generator_may_have_twice_the_mean_square_that_is_asked_for(share):
    """Its own points round, too; what is beyond that is told."""
    psi, half = 1e-3, torch.ones(1, dtype=torch.float64)
    terms = TermSet.from_exponents([[0]])
    found = PolynomialSet(terms, TermSet.from_exponents([[1]]), half[None], half)
    ideal = FittedIdeal(found, 0 * half, (), "orthogonal")
    total = 7 * share * psi * half
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checked = verified(ideal, lambda: (total, half), 7, 1.0, psi, stacklevel=1)
    torch.testing.assert_close(checked.values, share * psi * half)
    assert [w.category for w in caught] == [RoundingWarning] * (share > 2)


WARNED = {
    RoundingWarning: (ABM(psi=0.0, precision="float32", max_degree=1), 1),
    ScaleWarning: (ABM(psi=0.01, max_degree=2), 7),
    NoGeneratorsWarning: (ABM(psi=0.0, max_degree=1), 1),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", WARNED)
def test_warnings_point_at_the_line_that_fits(kind, stream):
    model, scale = WARNED[kind]
    count = 20 if kind is NoGeneratorsWarning else 1
    X = scale * np.random.default_rng(2).uniform(-1, 1, (count, 3))
    with pytest.warns(kind) as caught:
        model.fit_stream(X) if stream else model.fit(X)
    assert kind in {w.category for w in caught}
    assert {w.filename for w in caught} == {__file__}


@pytest.mark.parametrize("kind", [ABM, OAVI, VCA])
def test_huge_integers_are_an_error_or_finite(kind):
    X = DRAW.integers(10**17, 10**18, (20, 3))
    try:
        honest(kind(psi=0.1).fit(X), X)
    except ValueError as error:
        assert "overflow" in str(error)


@pytest.mark.parametrize("count", [10, 30, 60, 100])
@pytest.mark.parametrize("equally", [True, False])
def test_vca_calls_nothing_a_generator_that_does_not_vanish(count, equally):
    """On a line, its polynomials of high degree are rounding: it ends there, and says so."""
    x = np.linspace(-1, 1, count) if equally else DRAW.uniform(-1, 1, count)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = VCA(psi=0.0, max_degree=None).fit(x[:, None])
    assert (model.mean_squares_ < 1e-15).all()
    assert len(model.generators_) or any(w.category is RoundingWarning for w in caught)
    if count == 10:
        assert len(model.generators_) == 1  # the product over all points
    honest(model, x[:, None])


def test_complex_points_and_missing_labels_are_refused():
    X, y = POINTS["grid"], np.arange(60) % 2
    complex_points = torch.tensor(X) + 1j
    for given in (complex_points, complex_points.numpy()):
        with pytest.raises(ValueError, match=r"real|Complex"):
            ABM().fit(given)
        with pytest.raises(ValueError, match="must be real"):
            ABM().fit(X).generators_.evaluate(given)
    gaps = np.where(y == 1, np.nan, y)
    for labels in (gaps, torch.tensor(gaps), np.array(["a", None] * 30, dtype=object)):
        with pytest.raises(ValueError, match=r"missing \(NaN or None\)"):
            fit_class_ideals(X, labels, ABM())
    with pytest.raises(ValueError, match="of one kind"):
        fit_class_ideals(X, np.array(["a", 1] * 30, dtype=object), ABM())


def test_vca_loses_no_component_of_points_far_from_zero():
    """Near 0, a variable less its mean would look like a constant."""
    X = DRAW.integers(10**17, 10**18, (12, 4)).astype(float)
    with pytest.warns(ScaleWarning):
        model = VCA(psi=1e-12, max_degree=1).fit(X)
    (level,) = model.generators_.levels
    assert level.keep.shape[1] + level.vanish.shape[1] == 4
