"""The batch computes what the plain formulas say, row by row, and so does the projection."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vinets.oracles import LeastSquaresBatch
from vinets.oracles.problem import _shrink, project_to_ball, scale_into_ball

numbers = st.floats(-100, 100, allow_subnormal=False)
batches = st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=5)
radii = st.floats(0.01, 500)


def tensor(rows):
    return torch.tensor(rows, dtype=torch.float64)


def points(problem, seed=0, spread=1.0):
    """Random points of the ball within the prefix."""
    g = torch.Generator().manual_seed(seed)
    c = spread * torch.randn(problem.linear.shape, generator=g, dtype=problem.linear.dtype)
    return project_to_ball(c, problem.radius, problem.mask)


def test_value_is_the_mean_square_of_the_polynomial_and_has_that_gradient(instance):
    p, c = instance.problem, points(instance.problem).requires_grad_()
    residual = torch.einsum("nmo,no->nm", instance.matrices[p.owner], c) + instance.columns
    (wanted,) = torch.autograd.grad(residual.square().sum(), c)
    c = c.detach()
    torch.testing.assert_close(p.value(c), residual.detach().square().sum(1))
    torch.testing.assert_close(p.gradient(c), torch.where(p.mask, wanted, 0.0))
    assert (p.gradient(c)[~p.mask] == 0).all()


def test_product_and_lookups_equal_the_plain_loop(make_instance):
    p = make_instance(3, classes=5, rows=7).problem
    p = replace(p, owner=torch.tensor([4, 0, 0, 2, 4, 4, 0]))  # two classes own no row
    c = points(p)
    i, j = torch.arange(7) % p.width, torch.arange(7).flip(0) % p.width
    for n, k in enumerate(p.owner.tolist()):
        torch.testing.assert_close(p.product(c)[n], p.gram[k] @ c[n])
        assert torch.equal(p.gram_rows(i)[n], p.gram[k, i[n]])
        assert p.gram_entries(i, j)[n] == p.gram[k, i[n], j[n]]
    assert torch.equal(p.ungroup(p.group(c)), c)


@given(seed=st.integers(0, 10**6), spread=st.floats(1e-3, 10))
@settings(max_examples=10, deadline=None)
def test_dual_gap_bounds_the_error(instance, seed, spread):
    p, c = instance.problem, points(instance.problem, seed, spread)
    error = p.value(c) - instance.optimum
    assert (p.dual_gap(c, p.gradient(c)) >= error - 1e-7).all()


def test_select_is_the_same_problem_on_fewer_rows(instance):
    p, c = instance.problem, points(instance.problem)
    rows = torch.tensor([len(p) - 1, 0, 2])
    torch.testing.assert_close(p.select(rows).value(c[rows]), p.value(c)[rows])
    assert torch.equal(p.select(rows).mask, p.mask[rows])
    assert len(p.select(rows[:0])) == 0


def test_rounding_covers_what_another_summation_order_changes(make_instance):
    p = make_instance(5, width=30, radius=100.0).problem
    c = 30 * points(p, spread=1.0)
    flipped = LeastSquaresBatch(
        p.gram.flip(1, 2), p.linear.flip(1), p.constant, p.prefix, p.owner, p.radius
    )
    assert ((p.value(c) - flipped.value(c.flip(1))).abs() <= p.rounding(c)).all()


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("gram", torch.zeros(8, 8, dtype=torch.float64)),
        ("gram", torch.zeros(1, 8, 8, dtype=torch.int64)),
        ("linear", torch.zeros(6, 7, dtype=torch.float64)),
        ("linear", torch.zeros(6, 8)),
        ("constant", torch.zeros(5, dtype=torch.float64)),
        ("prefix", torch.full((6,), 9)),
        ("prefix", torch.full((6,), -1)),
        ("prefix", torch.full((6,), 8, dtype=torch.int32)),
        ("owner", torch.ones(6, dtype=torch.int64)),
        ("radius", 0.0),
        ("radius", float("nan")),
    ],
)
def test_errors_name_the_argument(make_instance, name, bad):
    with pytest.raises(ValueError, match=f"'{name}' parameter of LeastSquaresBatch must be"):
        replace(make_instance(0).problem, **{name: bad})


def test_rounding_is_its_formula(make_instance):
    p = make_instance(6, classes=3, rows=7).problem
    p = replace(p, gram=p.gram * torch.tensor([1.0, 4.0, 9.0])[:, None, None])
    c = points(p)
    for n, k in enumerate(p.owner.tolist()):
        reach = c[n].abs().sum() * p.gram[k].diagonal().max().sqrt()
        wanted = torch.finfo(torch.float64).eps * (p.constant[n].sqrt() + reach) ** 2
        torch.testing.assert_close(p.rounding(c)[n], wanted, rtol=1e-12, atol=0)


@pytest.mark.parametrize("classes", [1, 3])
def test_problems_of_one_column(make_instance, classes):
    """The least value of g c² + 2 b c + β over |c| <= r, in closed form."""
    p = make_instance(7, classes=classes, width=1, rows=7, radius=0.2).problem
    g, b = p.gram[p.owner, 0, 0], p.linear[:, 0]
    c = (-b / g).clamp(-p.radius, p.radius)
    torch.testing.assert_close(p.value(c[:, None]), g * c**2 + 2 * b * c + p.constant)
    torch.testing.assert_close(p.gradient(c[:, None])[:, 0], 2 * (g * c + b))
    assert torch.equal(p.ungroup(p.group(c[:, None])), c[:, None])
    assert p.group(c[:, None]).shape[::2] == (classes, 1)


@given(batches, radii)
@settings(max_examples=60, deadline=None)
def test_projection_is_the_nearest_point(rows, radius):
    """x is the projection of c iff x is in the ball and <c - x, v - x> <= 0 for all vertices v."""
    c = tensor(rows)
    x = project_to_ball(c, radius)
    assert (x.abs().sum(1) <= radius * (1 + 1e-12)).all()
    away = c - x
    largest = radius * away.abs().amax(1) - (away * x).sum(1)  # max over the vertices
    assert (largest <= 1e-9 * (1 + c.abs().sum(1)) ** 2).all()


@given(batches, radii)
@settings(max_examples=40, deadline=None)
def test_projection_is_idempotent_and_leaves_the_inside_alone(rows, radius):
    c = tensor(rows)
    x = project_to_ball(c, radius)
    torch.testing.assert_close(project_to_ball(x, radius), x, rtol=1e-12, atol=1e-12)
    inside = c.abs().sum(1) <= radius
    assert torch.equal(x[inside], c[inside])


def test_projection_keeps_to_the_mask():
    c = torch.full((2, 5), 3.0, dtype=torch.float64)
    mask = torch.arange(5) < torch.tensor([[2], [0]])
    x = project_to_ball(c, 1.0, mask)
    assert x.tolist() == [[0.5, 0.5, 0, 0, 0], [0.0] * 5]
    assert torch.equal(project_to_ball(c, 1.0, mask.to(c.dtype)), x)


def test_shrinking_ties_and_a_single_entry():
    assert _shrink(tensor([[2.0, -2.0, 2.0, 0.0]]), 3.0).tolist() == [[1.0, -1.0, 1.0, 0.0]]
    assert _shrink(tensor([[-7.0]]), 3.0).tolist() == [[-3.0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scaling_touches_only_what_is_outside(dtype):
    c = torch.tensor([[3.0, -1.0], [0.5, 0.25]], dtype=dtype)
    x = scale_into_ball(c, 2.0)
    torch.testing.assert_close(x[0], torch.tensor([1.5, -0.5], dtype=dtype))
    assert torch.equal(x[1], c[1])
