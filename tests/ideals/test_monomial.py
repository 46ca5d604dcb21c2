"""Which path is taken, in which order of the variables, and what counts as closed."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from vinets import ABM, OAVI
from vinets.ideals.fit import Rule
from vinets.ideals.monomial import _by_correlation, _variable_order, needs_orthogonal
from vinets.ideals.stream import Stream, correlation_order


def needing(degree, precision="float64"):
    """The choice of a path for points up to a size, and a tolerance."""
    return lambda top, psi: needs_orthogonal(
        top, Rule(psi, unit=True, max_degree=degree, precision=precision)
    )


@pytest.mark.parametrize(("precision", "eps"), [("float64", 2.0**-52), ("float32", 2.0**-23)])
def test_the_gram_matrix_must_resolve_the_tolerance(precision, eps):
    edge, needed = 64 * eps**0.5, needing(3, precision)
    assert not needed(1.0, edge) and needed(1.0, 0.999 * edge)
    # the largest mean square of a term of degree 3 on points up to 2 is 2^6; small points are as 1
    assert needed(2.0, 0.999 * 64 * edge)
    assert not needed(2.0, 1.001 * 64 * edge)
    assert not needed(0.01, edge)


def test_the_largest_point_of_all_sets_chooses_the_path():
    unit = torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None]
    model = ABM(1e-5, max_degree=3)
    assert [ideal.path for ideal in model._fit_sets([unit])] == ["gram"]
    wider = model._fit_sets([unit, -2 * unit])
    assert [ideal.path for ideal in wider] == ["orthogonal"] * 2


def test_degrees_beyond_eight_and_huge_points_are_capped():
    for degree in (8, 20, None):
        edge = 64 * 2.0**-26 * 2**16
        assert needing(degree)(2.0, 0.999 * edge) and not needing(degree)(2.0, 1.001 * edge)
    assert needing(None)(1e300, 0.9)


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision_is_added_up_in_float32(precision):
    edge, needed = 64 * 2.0**-23, needing(3, precision)
    assert not needed(1.0, edge) and needed(1.0, 0.999 * edge)


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", [ABM, OAVI])
def test_half_precision_finds_no_more_terms_than_points(kind, precision):
    grid = np.array([[-1.0], [0.0], [1.0]] * 5)  # values that every precision holds exactly
    model = kind(psi=0.0, precision=precision).fit(grid)
    assert model.order_ideal_.tolist() == [[0], [1], [2]]


@pytest.mark.parametrize("constant", [0.5, 0.7, 4000.7])  # means of the last two are rounded
def test_orders_of_variables(constant, random):
    points = torch.from_numpy(random.normal(size=(50, 4)))
    points[:, 2] = points[:, 0] + 0.1 * points[:, 1]
    points[:, 3] = constant  # no correlation with anything, and no division by zero
    by_correlation = partial(_by_correlation, points)
    assert _variable_order("ascending", 4, by_correlation) is None
    assert _variable_order("descending", 4, by_correlation).tolist() == [3, 2, 1, 0]
    total = np.abs(np.corrcoef(points[:, :3].numpy().T)).sum(0)
    order = _variable_order("pearson", 4, by_correlation).tolist()
    assert order == [3, *np.argsort(total).tolist()]
    scales = torch.tensor([1e-3, 1.0, 1e-4, 1e-2], dtype=torch.float64)
    batches = Stream(list(points.split([7, 30, 13])))
    assert correlation_order(batches).tolist() == order
    assert _by_correlation(scales * points).tolist() == order  # whatever the scales
