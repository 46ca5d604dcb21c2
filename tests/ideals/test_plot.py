from __future__ import annotations

import builtins
from importlib.util import module_from_spec

import numpy as np
import pytest

from vinets import ABM, VCA, fit_class_ideals
from vinets.data.synthetic import circle, sphere
from vinets.ideals import plot
from vinets.ideals.plot import (
    plot_class_values,
    plot_generators,
    plot_zero_sets,
    plot_zero_surface,
    values_by_class,
    zero_triangles,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.contour import ContourSet  # noqa: E402


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


def curves(ax) -> list[np.ndarray]:
    """Vertices (k, 2) of every zero set on the axes."""
    sets = [drawn for drawn in ax.collections if isinstance(drawn, ContourSet)]
    return [np.concatenate([path.vertices for path in drawn.get_paths()]) for drawn in sets]


@pytest.mark.parametrize("model", [ABM(0.0, max_degree=2), VCA(1e-9, max_degree=2)], ids=str)
def test_the_zero_set_of_points_of_a_circle_is_that_circle(model):
    points = circle(noise=0.0, radius=0.7)
    ax = plot_zero_sets(model.fit(points).generators_, points=points, window=(-1.0, 1.0))
    (curve,) = curves(ax)
    assert np.allclose(np.linalg.norm(curve, axis=1), 0.7, atol=1e-3)
    assert np.array_equal(ax.collections[0].get_offsets(), points)


def test_index_chooses_polynomials_and_keeps_their_colours():
    points = np.concatenate([circle(150, 0.0), np.zeros((50, 2))])
    generators = ABM(1e-6, max_degree=3).fit(points).generators_
    together = curves(plot_zero_sets(generators))
    assert len(generators) == len(together) == 2
    for j in (0, 1):
        alone = plot_zero_sets(generators, index=j)
        assert np.array_equal(curves(alone)[0], together[j])
    first = plot_zero_sets(generators, index=[0]).collections[0].get_edgecolor()
    second = plot_zero_sets(generators, index=-1).collections[0].get_edgecolor()
    assert not np.array_equal(first, second)
    with pytest.raises(IndexError, match=r"index must lie in \[0, 1\]"):
        plot_zero_sets(generators, index=2)


def test_a_polynomial_without_zeros_in_the_window_leaves_no_trace():
    generators = ABM(0.0, max_degree=2).fit(circle(noise=0.0)).generators_
    assert curves(plot_zero_sets(generators, window=(-0.5, 0.5))) == []


def test_triangles_of_a_sphere_lie_on_it_and_have_its_area():
    generators = ABM(0.0, max_degree=2).fit(sphere(noise=0.0, radius=0.9)).generators_
    triangles = zero_triangles(generators, resolution=30)
    assert np.allclose(np.linalg.norm(triangles, axis=-1), 0.9, atol=0.01)
    a, b, c = triangles.transpose(1, 0, 2)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    assert np.isclose(area, 4 * np.pi * 0.9**2, rtol=0.02)


def test_triangles_close_up():
    """Every edge of a closed surface belongs to two triangles."""
    generators = ABM(0.0, max_degree=2).fit(sphere(noise=0.0)).generators_
    window = (-1.23, 1.17)  # no point of the grid lies on the sphere
    triangles = zero_triangles(generators, window=window, resolution=9)
    corners = triangles.reshape(-1, 3).round(9)
    _, name = np.unique(corners, axis=0, return_inverse=True)
    triangles = name.reshape(-1, 3)
    edges = np.sort(np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, ::2]]))
    _, counts = np.unique(edges, axis=0, return_counts=True)
    assert (counts == 2).all()


def test_a_surface_is_drawn_on_axes_of_its_own_or_on_given_ones():
    points = sphere(100)
    generators = ABM(0.002, max_degree=2).fit(points).generators_
    given = pyplot.figure().add_subplot(projection="3d")
    assert plot_zero_surface(generators, given, points=points, resolution=8) is given
    assert len(given.collections) == 2
    assert plot_zero_surface(generators, resolution=8).name == "3d"


@pytest.mark.parametrize(
    ("draw", "points"), [(plot_zero_sets, sphere), (plot_zero_surface, circle)]
)
def test_the_number_of_variables_is_checked(draw, points):
    generators = ABM(0.002, max_degree=2).fit(points()).generators_
    with pytest.raises(ValueError, match=r"must be in [23] variables"):
        draw(generators)


def share_of_the_picture(ax) -> float:
    ax.figure.draw_without_rendering()
    return ax.get_position().width


def test_values_by_class_are_small_on_the_diagonal():
    radii = np.repeat([0.3, 0.6, 0.9], 60)
    Z = np.concatenate([circle(60, 0.005, radius, seed=1) for radius in (0.3, 0.6, 0.9)])
    ideals = fit_class_ideals(Z, radii, ABM(0.001, max_degree=2))
    means = values_by_class(ideals, Z, radii)
    assert (means.argmin(1) == np.arange(3)).all()
    plain = ideals[0.6].transform(Z[radii == 0.9]).mean()
    assert np.isclose(means[1, 2], plain)
    assert np.isnan(values_by_class(ideals, Z[:60], radii[:60])[:, 1:]).all()
    ax = plot_class_values(means, ideals.classes)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0.3", "0.6", "0.9"]
    assert share_of_the_picture(ax) > 0.5
    with pytest.raises(ValueError, match=r"means must have shape \(2, 2\)"):
        plot_class_values(means, [0, 1])


def test_generators_are_grouped_by_their_class_and_scaled_by_column():
    means = np.array([[1.0, 2.0, 0.0], [4.0, 0.5, 0.0]])
    ax = plot_generators(means, [1, 0, 1], ["a", "b"])
    drawn = np.asarray(ax.images[0].get_array())
    assert np.allclose(drawn, [[1.0, 0.25, 0.0], [0.25, 1.0, 0.0]])
    assert list(ax.get_xticks()) == [0, 1.5]  # the middle of each group
    assert [list(line.get_xdata()) for line in ax.lines] == [[0.5, 0.5]]  # between the groups
    assert share_of_the_picture(ax) > 0.7
    with pytest.raises(ValueError, match=r"means must have shape \(2, 2\)"):
        plot_generators(means, [1, 0], ["a", "b"])


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    plain_import = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return plain_import(name, *args, **kwargs)

    generators = ABM(0.002, max_degree=2).fit(circle()).generators_
    monkeypatch.setattr(builtins, "__import__", refuse)
    spec = plot.__spec__
    spec.loader.exec_module(module_from_spec(spec))  # to import the module takes no matplotlib
    with pytest.raises(ImportError, match=r"vinets\[plots\]"):
        plot_zero_sets(generators)
