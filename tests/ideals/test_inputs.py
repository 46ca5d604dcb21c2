"""Degenerate data are decided right; bad input gets one clear sentence."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from vinets import ABM, OAVI, VCA
from vinets.data.synthetic import circle, latent_like
from vinets.ideals.base import NoGeneratorsWarning, ScaleWarning

ALGORITHMS = [ABM(), ABM(normalization="leading"), OAVI(), OAVI(oracle="exact"), VCA()]
NAMES = ["abm", "abm-leading", "oavi", "oavi-exact", "vca"]
every_algorithm = pytest.mark.parametrize("model", ALGORITHMS, ids=NAMES)


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
    ],
)
def test_parameters_outside_their_domain_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(circle(20))


@every_algorithm
@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_data_that_are_not_points_are_refused(model, kind):
    wrap = torch.tensor if kind == "torch" else np.array
    with pytest.raises(ValueError, match=r"(?i)nan"):
        model.fit(wrap([[0.1, float("nan")], [0.2, 0.3]]))
    with pytest.raises(ValueError, match=r"(?i)inf"):
        model.fit(wrap([[0.1, float("inf")], [0.2, 0.3]]))
    with pytest.raises(ValueError, match=r"2D|shape"):
        model.fit(wrap([0.1, 0.2, 0.3]))
    with pytest.raises(ValueError, match=r"0 sample|shape"):
        model.fit(wrap(np.zeros((0, 2))))
    model.fit(wrap([[0.1, 0.2], [0.3, 0.1], [0.0, 0.5]]))
    with pytest.raises(ValueError, match="3 features"):
        model.transform(wrap([[0.1, 0.2, 0.3]]))


@every_algorithm
def test_no_generators_is_a_warning_with_the_remedy(model, random):
    points = random.uniform(-1, 1, size=(60, 2))
    with pytest.warns(NoGeneratorsWarning, match="raise psi or max_degree"):
        found = model.__class__(1e-9, max_degree=1).fit(points)
    assert found.transform(points).shape == (60, 0)


@every_algorithm
def test_leaving_the_unit_box_warns(model):
    with pytest.warns(ScaleWarning, match=r"reaches .* Rescale the data"):
        model.fit(3 * circle(30))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(circle(30))


@pytest.mark.parametrize("psi", [0.0, 1e-12, 1e-3, 0.5, 0.999])
@pytest.mark.parametrize("model", ALGORITHMS, ids=NAMES)
@pytest.mark.parametrize(
    "points",
    [
        pytest.param(np.array([[0.5, -0.25, 0.125]]), id="one point"),
        pytest.param(latent_like(3, 8, 2), id="fewer points than variables"),
        pytest.param(np.repeat(latent_like(4, 3, 2), 5, axis=0), id="repeated points"),
        pytest.param(np.c_[np.full(12, 0.3), latent_like(12, 2, 2)], id="constant column"),
        pytest.param(np.repeat(latent_like(12, 2, 2), 2, axis=1), id="duplicate columns"),
        pytest.param(np.zeros((5, 3)), id="all zero"),
        pytest.param(1e-8 * latent_like(12, 3, 2), id="tiny scale"),
    ],
)
def test_degenerate_point_sets_give_valid_ideals(model, points, psi):
    model = model.__class__(**{**model.get_params(), "psi": psi})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoGeneratorsWarning)
        model.fit(points)
    assert model.report_.n_terms <= len(np.unique(points, axis=0))
    values = model.transform(points)
    assert np.isfinite(values).all()
    if not isinstance(model, VCA):
        assert (np.mean(values**2, axis=0) <= psi * (1 + 1e-9) + 1e-18).all()


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_huge_scales_are_decided_like_their_rescaled_twin(scale):
    """At psi = 0 the ideal does not depend on the scale: same order ideal, scaled generators."""
    points = circle(12, noise=0.0)
    small = ABM(0.0, normalization="leading", max_degree=None).fit(points)
    with pytest.warns(ScaleWarning):
        large = ABM(0.0, normalization="leading", max_degree=None).fit(scale * points)
    assert large.order_ideal_.tolist() == small.order_ideal_.tolist()
    assert large.report_.path == "orthogonal"


def test_values_that_overflow_are_refused():
    with pytest.warns(ScaleWarning), pytest.raises(ValueError, match="overflow"):
        ABM(max_degree=5).fit(1e80 * circle(20))


def test_tiny_tolerances_take_the_orthogonal_path_and_say_so():
    assert ABM(1e-3).fit(circle()).report_.path == "gram"
    assert ABM(1e-9).fit(circle(noise=0.0)).report_.path == "orthogonal"
    assert ABM(1e-3, precision="float32").fit(circle()).report_.path == "orthogonal"
