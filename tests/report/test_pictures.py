"""The pictures of a build in :mod:`vinets.ideals.plot`."""

from __future__ import annotations

import numpy as np
import pytest

from vinets.ideals.plot import plot_generators

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure


@pytest.fixture
def ax():
    return Figure().add_subplot()


def test_generators_are_grouped_by_their_class_and_scaled_by_column(ax):
    means = np.array([[1.0, 2.0, 0.0], [4.0, 0.5, 0.0]])
    plot_generators(means, [1, 0, 1], ["a", "b"], ax)
    drawn = np.asarray(ax.images[0].get_array())
    assert np.allclose(drawn, [[1.0, 0.25, 0.0], [0.25, 1.0, 0.0]])
    assert list(ax.get_xticks()) == [0, 1.5]  # the middle of each group
    with pytest.raises(ValueError, match=r"means must have shape \(2, 2\)"):
        plot_generators(means, [1, 0], ["a", "b"], ax)
