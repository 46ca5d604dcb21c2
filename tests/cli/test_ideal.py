from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler

from vinets import ABM, OAVI
from vinets.algebra.polynomials import PolynomialSet


@pytest.fixture
def circle(tmp_path):
    """Points of a circle of radius 2 around (1, 0), with a class that changes nothing."""
    angle = np.linspace(0, 6, 40)
    path = tmp_path / "circle.csv"
    rows = [f"{1 + 2 * np.cos(a)!r},{2 * np.sin(a)!r},{i % 2}" for i, a in enumerate(angle)]
    path.write_text("\n".join(["u,v,half", *rows]).replace("np.float64(", "").replace(")", ""))
    return path


def points_of(path) -> np.ndarray:
    return np.loadtxt(path, delimiter=",", skiprows=1)


def test_it_prints_what_the_library_finds(call, circle):
    found = call("ideal", circle, "--label", "half", "--psi", "1e-6", "--max-degree", 2, "--json")
    values = points_of(circle)
    scale = MinMaxScaler((-1, 1)).fit(values[:, :2])
    points = scale.transform(values[:, :2])
    result = found.json()
    assert result["variables"] == ["u", "v"]
    assert result["scaling"]["low"] == values[:, :2].min(0).tolist()
    for entry in result["ideals"]:
        own = points[values[:, 2] == int(entry["label"])]
        model = ABM(psi=1e-6, max_degree=2).fit(own)
        assert entry["generators"] == model.generators_.unscaled(scale).strings(["u", "v"])
        assert entry["n_terms"] == len(model.order_ideal_)
        assert entry["degrees"] == {"2": 1}
        np.testing.assert_allclose(entry["mean_squares"], model.mean_squares_, atol=1e-15)


def test_the_unscaled_circle_has_its_equation(call, circle, tmp_path):
    circle.write_text("\n".join(line.rpartition(",")[0] for line in circle.read_text().split("\n")))
    options = ["--scale", "none", "--psi", "1e-9", "--max-degree", 2]
    out = tmp_path / "circle.safetensors"
    done = call("ideal", circle, *options, "--normalization", "leading", "--out", out)
    assert "|G| = 1, |O| = 5" in done.out
    assert "v^2 + u^2 - 2*u - 3" in done.out
    assert "Rescale the data" in done.err
    values = PolynomialSet.load(out).evaluate(points_of(circle))
    np.testing.assert_allclose(values, 0, atol=1e-9)


def test_options_reach_the_algorithm(call, circle):
    options = ["--max-degree", 3, "--border", "full", "--variable-order", "descending"]
    chosen = ["--algorithm", "oavi", "--oracle", "exact", "--tau", 50, "--psi", 0.001]
    (entry,) = call("ideal", circle, *options, *chosen, "--json").json()["ideals"]
    model = OAVI(
        0.001, oracle="exact", tau=50, max_degree=3, border="full", variable_order="descending"
    )
    scale = MinMaxScaler((-1, 1)).fit(points_of(circle))
    model.fit(scale.transform(points_of(circle)))
    assert entry["n_generators"] == len(model.generators_)
    assert entry["generators"] == model.generators_.unscaled(scale).strings(["u", "v", "half"])


def test_the_first_generators_or_all_are_printed(call, circle):
    options = ["--max-degree", 3, "--border", "full", "--psi", 0.2]
    count = call("ideal", circle, *options, "--json").json()["ideals"][0]["n_generators"]
    assert count > 2
    shown = call("ideal", circle, *options, "--first", 2).out
    assert shown.count("mean square") == 2
    assert f"... and {count - 2} more" in shown
    assert call("ideal", circle, *options, "--all").out.count("mean square") == count


def test_nothing_found_is_told(call, tmp_path, random):
    np.save(tmp_path / "cloud.npy", random.normal(size=(50, 2)))
    words = ["ideal", tmp_path / "cloud.npy", "--psi", "1e-9", "--max-degree", 2]
    assert "nothing vanishes" in call(*words).out
