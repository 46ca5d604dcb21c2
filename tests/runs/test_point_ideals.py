from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler

from vinets import ABM
from vinets.algebra.polynomials import PolynomialSet
from vinets.data.points import Points
from vinets.runs.point_ideals import fit_points


@pytest.fixture
def circles(random):
    """Two circles of different radii, by class."""
    angle = random.uniform(0, 2 * np.pi, 60)
    labels = np.array(["-1", "1"] * 30)
    radius = np.where(labels == "1", 1.0, 0.5)
    return Points(np.c_[radius * np.cos(angle), radius * np.sin(angle)], ("u", "v"), labels)


def test_every_class_has_the_ideal_of_its_points_in_common_units(circles):
    fitted = fit_points(circles, ABM(1e-9, max_degree=2), device="cpu")
    np.testing.assert_array_equal(fitted.scaling["low"], circles.values.min(0))
    np.testing.assert_array_equal(fitted.scaling["high"], circles.values.max(0))
    scale = MinMaxScaler((-1, 1)).fit(circles.values)
    scaled = scale.transform(circles.values)
    for summary in fitted.summaries():
        own = ABM(1e-9, max_degree=2).fit(scaled[circles.labels == summary.label])
        assert summary.generators == own.generators_.unscaled(scale).strings(["u", "v"])
        assert (summary.points, summary.degrees) == (30, {2: 1})
    assert fitted.summaries(0)[0].generators == []


@pytest.mark.parametrize(
    "names", [("-1", "1"), ("a", "A"), ("1.2", "1-2"), ("кот", "пёс"), ("a b", "a, b")]
)
def test_classes_are_saved_apart_whatever_their_names(circles, tmp_path, names):
    given = Points(circles.values, circles.names, np.where(circles.labels == "1", *names))
    fitted = fit_points(given, ABM(1e-9, max_degree=2), "none", "cpu")
    assert fitted.scaling is None
    fitted.save(tmp_path / "ideal.safetensors")
    assert len({path.name.lower() for path in tmp_path.iterdir()}) == 2
    found = [PolynomialSet.load(path) for path in sorted(tmp_path.iterdir())]
    for label in ("-1", "1"):
        points = circles.values[circles.labels == label]
        assert sum(np.abs(one.evaluate(points)).max() < 1e-9 for one in found) == 1


def test_a_constant_variable_is_scaled_to_a_constant():
    points = Points(np.c_[np.linspace(0, 1, 9), np.full(9, 7.0)], ("x", "y"), None)
    (summary,) = fit_points(points, ABM(0.0, max_degree=1), device="cpu").summaries()
    assert summary.label is None and summary.n_generators == 1
    with pytest.raises(ValueError, match="'minmax', 'none'"):
        fit_points(points, ABM(), "log")
