"""Parameters outside their domain are named; scales and tolerances choose the path."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from vinets import ABM, OAVI, VCA, ChristoffelClassifier, fit_class_ideals
from vinets.data.synthetic import circle
from vinets.ideals import monomial
from vinets.ideals.base import ScaleWarning


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ABM(-0.1), r"'psi' parameter of ABM must be a float in \[0, 1\). Got -0.1"),
        (OAVI(1.0), r"'psi' parameter of OAVI must be .* Got 1.0 .* the constant 1 counts"),
        (VCA(float("nan")), r"'psi' parameter of VCA"),
        (ABM("0.1"), r"'psi' parameter of ABM must be a float"),
        (OAVI(tau=1.5), r"'tau' parameter of OAVI must be a float in \[2, inf\). Got 1.5"),
        (OAVI(oracle="newton"), r"'oracle' parameter of OAVI must be one of 'agd', 'cg', 'pcg'"),
        (ABM(normalization="l2"), r"'normalization' parameter of ABM must be one of 'unit'"),
        (ABM(border="bb"), r"'border' parameter of ABM must be one of 'groebner', 'full'"),
        (ABM(variable_order="lex"), r"'variable_order' parameter of ABM"),
        (ABM(precision="int8"), r"'precision' parameter of ABM"),
        (ABM(max_degree=0), r"'max_degree' parameter of ABM must be a positive integer or None"),
        (OAVI(n_samples=-3), r"'n_samples' parameter of OAVI"),
        (VCA(memory_limit=0), r"'memory_limit' parameter of VCA .* It counts bytes"),
        (OAVI(start="corner"), "'start' parameter of OAVI"),
        (OAVI(stop="soon"), "'stop' parameter of OAVI"),
        (OAVI(tol=-1.0), "'tol' parameter of OAVI"),
        (OAVI(tau=-float("inf")), "'tau' parameter of OAVI"),
        (OAVI(start="vertex", tau=float("inf")), "give a finite tau"),
    ],
)
def test_parameters_outside_their_domain_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(circle(20))


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_huge_scales_are_decided_like_their_rescaled_twin(scale):
    """At psi = 0 the ideal does not depend on the scale: same order ideal, scaled generators."""
    points = circle(12, noise=0.0)
    small = ABM(0.0, normalization="leading", max_degree=None).fit(points)
    with pytest.warns(ScaleWarning):
        large = ABM(0.0, normalization="leading", max_degree=None).fit(scale * points)
    assert large.order_ideal_.tolist() == small.order_ideal_.tolist()
    assert large.report_.path == "orthogonal"


def test_a_fit_that_may_not_end_soon_says_so_before_it_begins(monkeypatch):
    def construct(*given, **more):
        raise KeyboardInterrupt  # the patience of whoever waits

    monkeypatch.setattr(monomial, "construct", construct)
    with (
        pytest.warns(ScaleWarning, match="Without max_degree, .* may take very long"),
        pytest.raises(KeyboardInterrupt),
    ):
        OAVI(0.0, max_degree=None).fit(255 * circle(20))
    with pytest.warns(ScaleWarning) as told, pytest.raises(KeyboardInterrupt):
        OAVI(0.0).fit(255 * circle(20))
    assert "max_degree" not in str(told[0].message)


def test_values_that_overflow_are_refused():
    with pytest.warns(ScaleWarning), pytest.raises(ValueError, match="overflow"):
        ABM(max_degree=5).fit(1e80 * circle(20))
    with pytest.warns(ScaleWarning), pytest.raises(ValueError, match="degree 1 overflow"):
        VCA().fit(1e200 * circle(20))
    with pytest.raises(ValueError, match=r"'estimator' parameter .* an estimator, such as ABM\(\)"):
        fit_class_ideals(circle(20), np.arange(20) % 2, "abm")


def test_tiny_tolerances_take_the_orthogonal_path_and_say_so():
    assert ABM(1e-3).fit(circle()).report_.path == "gram"
    assert ABM(1e-9).fit(circle(noise=0.0)).report_.path == "orthogonal"
    assert ABM(1e-3, precision="float32").fit(circle()).report_.path == "orthogonal"


LAYOUTS = [np.asfortranarray, lambda X: np.repeat(X, 2, 0)[::2], lambda X: X[::-1].copy()[::-1]]


@pytest.mark.parametrize("as_given", [*LAYOUTS, list])
def test_the_layout_of_an_array_does_not_matter(as_given):
    X = circle(30)
    model, other = ABM(1e-3).fit(X), ABM(1e-3).fit(as_given(X))
    assert other.generators_ == model.generators_
    np.testing.assert_array_equal(other.transform(as_given(X)), model.transform(X))


@pytest.mark.parametrize(
    "wrong",
    [
        np.full((3, 2), np.nan),
        np.array([[0.0, np.inf]]),
        np.zeros(4),
        np.zeros((2, 2, 2)),
        np.zeros((0, 2)),
        np.zeros((2, 0)),
        np.zeros((3, 3)),
    ],
)
def test_arrays_are_refused_in_the_words_of_scikit_learn(wrong):
    class ABM_(BaseEstimator):
        """Checks, and nothing else."""

    told = ABM_()
    told.n_features_in_ = 2
    with pytest.raises(ValueError, match=r".") as theirs:
        validate_data(told, wrong, reset=False)
    with pytest.raises(ValueError, match=r".") as ours:
        ABM(1e-3).fit(circle(20)).transform(wrong)
    assert str(ours.value).replace("ABM", "ABM_") == str(theirs.value)


def test_names_of_columns_are_those_of_the_last_fit():
    X = circle(30)
    model = ABM(1e-3, max_degree=2).fit(X)
    model.feature_names_in_ = np.array(["t", "s"], dtype=object)  # as a table would leave them
    with pytest.warns(UserWarning, match="valid feature names"):
        model.transform(X)
    model.fit(X)
    assert not hasattr(model, "feature_names_in_")
    assert "x0" in model.get_feature_names_out()[0]


@pytest.mark.parametrize("model", [ABM(), OAVI(), VCA(), ChristoffelClassifier()])
def test_points_that_may_not_be_written_to_raise_no_warning(model):
    points, labels = circle(40), np.arange(40) % 2
    points.setflags(write=False)  # as those of a pandas table, or of a file that is mapped
    once = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(points, labels)
            if isinstance(model, ChristoffelClassifier):
                model.predict(points)
            else:
                model.transform(points)
                model.generators_(points)
            if hasattr(model, "fit_stream"):
                model.fit_stream([points])
    finally:
        torch.set_warn_always(once)
    assert not [one for one in caught if "not writable" in str(one.message)]
