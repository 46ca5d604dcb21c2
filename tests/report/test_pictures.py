"""The pictures of a build in :mod:`vinets.plotting`."""

from __future__ import annotations

import numpy as np
import pytest

from vinets.plotting import plot_generators, plot_points, plot_scores

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_points_are_drawn_class_by_class(ax, random):
    points, labels = random.normal(size=(30, 5)), np.repeat([0, 1, 2], 10)
    plot_points(points, labels, ["a", "b", "c"], ax)
    for k, drawn in enumerate(ax.collections):
        assert np.array_equal(drawn.get_offsets(), points[labels == k, :2])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="two coordinates or more"):
        plot_points(points[:, :1], labels, ["a", "b", "c"], ax)


def test_many_classes_have_different_colours(ax, random):
    plot_points(random.normal(size=(60, 2)), np.repeat(range(30), 2), list(range(30)), ax)
    colors = {tuple(drawn.get_facecolor()[0]) for drawn in ax.collections}
    assert len(colors) == 30 and ax.get_legend() is None


def test_generators_are_grouped_by_their_class_and_scaled_by_column(ax):
    means = np.array([[1.0, 2.0, 0.0], [4.0, 0.5, 0.0]])
    plot_generators(means, [1, 0, 1], ["a", "b"], ax)
    drawn = np.asarray(ax.images[0].get_array())
    assert np.allclose(drawn, [[1.0, 0.25, 0.0], [0.25, 1.0, 0.0]])
    assert list(ax.get_xticks()) == [0, 1.5]  # the middle of each group
    with pytest.raises(ValueError, match=r"means must have shape \(2, 2\)"):
        plot_generators(means, [1, 0], ["a", "b"], ax)


def test_scores_are_all_counted(ax, random):
    scores = [random.uniform(size=50), random.uniform(size=70)]
    kept = [np.sort(s)[-10:] for s in scores]
    plot_scores(scores, kept, ax)
    found, chosen = (sum(bar.get_height() for bar in part) for part in ax.containers)
    assert (found, chosen) == (120, 20)
