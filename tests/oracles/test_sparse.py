"""Shortening: fewer entries, values within the target, minimal over what stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vinets.oracles import (
    ORACLES,
    LeastSquaresBatch,
    Status,
    least_squares,
    shorten,
    solve,
    solve_sparse,
    sparse,
)

WIDE = {"width": 160, "points": 240}  # too many terms to add one by one


def instance(make_instance, seed, share=0.4, **more):
    """Problems whose terms depend on each other, as monomials do, and targets within reach.

    A ``share`` of what can be gained need not be gained.
    """
    sizes = {"rows": 30, "width": 40, "points": 60, "radius": 999.0} | more
    p = make_instance(seed, **sizes).problem
    start = least_squares(p)
    best = p.value(start)
    return p, start, best + share * (p.constant - best)


def value_over(p, n, support):
    """The least value of the row ``n`` over a list of entries."""
    G, b = p.gram[p.owner[n]].numpy(), p.linear[n].numpy()
    return float(
        p.constant[n] - b[support] @ np.linalg.solve(G[np.ix_(support, support)], b[support])
    )


def one_by_one(gram, b, beta, target):
    """Greedy elimination from its definition: leave out the cheapest entry, solve again."""
    support = list(range(len(b)))
    while True:
        trials = []
        for i in support:
            rest = [j for j in support if j != i]
            c = -np.linalg.solve(gram[np.ix_(rest, rest)], b[rest]) if rest else np.zeros(0)
            trials.append((beta + b[rest] @ c, rest))
        value, rest = min(trials)
        if value > target:
            return support
        support = rest
        if not support:
            return support


@pytest.mark.parametrize("share", [0.0, 1e9])  # in single precision, and not
@pytest.mark.parametrize(
    "options",
    [
        *({}, {"random_prefix": True}, {"classes": 3}),
        *(WIDE | {"random_prefix": True, "share": share} for share in (0.1, 0.3)),
    ],
)
def test_points_are_short_reach_their_target_and_are_minimal(
    make_instance, monkeypatch, share, options
):
    monkeypatch.setattr("vinets.oracles.sparse.SINGLE_TARGET", share)
    monkeypatch.setattr("vinets.oracles.sparse.SINGLE_TERMS", 0)
    p, start, target = instance(make_instance, 90, **options)
    c = shorten(p, start, target)
    assert (c[~p.mask] == 0).all()
    assert (p.value(c) <= target).all()
    some = p.prefix > 4
    assert ((c != 0).sum(1)[some] < p.prefix[some]).all()
    rough = 1e-9 if share else 1e-4
    assert (p.gradient(c)[c != 0].abs() <= rough).all()


def test_where_a_quarter_of_the_entries_suffices_few_more_stay(make_instance):
    """Of all entries at once, at most two in five are left out: 96 of 160 would stay."""
    p, start, target = instance(make_instance, 98, share=0.3, **WIDE)
    c = shorten(p, start, target)
    assert ((c != 0).sum(1) <= 70).double().mean() > 0.8


def test_a_support_is_taken_up_to_the_first_entry_that_suffices(make_instance, monkeypatch):
    monkeypatch.setattr(sparse, "MAX_REVISED_ENTRIES", 0)
    p, _, target = instance(make_instance, 99, width=12, random_prefix=True)
    some = (p.prefix > 0).nonzero()[:, 0]
    p, target = p.select(some), target[some]
    draws = torch.rand(p.mask.shape, generator=torch.Generator().manual_seed(0))
    support = draws.masked_fill(~p.mask, -1).argsort(1, descending=True)[:, :8]
    reached, points = sparse._over(p, torch.arange(len(p)), support, target)
    short = iter(points)
    for n, listed in enumerate(support.tolist()):
        listed = [i for i in listed if i < p.prefix[n]]
        sizes = range(1, len(listed) + 1)
        enough = [k for k in sizes if value_over(p, n, listed[:k]) <= target[n]]
        assert bool(reached[n]) == bool(enough)
        if enough:
            own = next(short)
            assert own.nonzero()[:, 0].tolist() == list(range(enough[0]))
            c = torch.zeros(1, p.width, dtype=own.dtype)
            c[0, listed[: enough[0]]] = own[: enough[0]]
            assert (p.select(torch.tensor([n])).gradient(c)[c != 0].abs() <= 1e-9).all()
    assert 0 < len(points) < len(p) and next(short, None) is None


def test_no_longer_than_greedy_elimination_by_much(make_instance):
    p, start, target = instance(make_instance, 91, rows=20, width=24)
    short = (shorten(p, start, target) != 0).sum(1)
    wanted = [
        len(one_by_one(p.gram[0].numpy(), p.linear[n].numpy(), float(p.constant[n]), float(t)))
        for n, t in enumerate(target)
    ]
    assert float(short.double().mean()) <= 1.25 * np.mean(wanted)


@pytest.mark.parametrize("name", ["cg", "pcg", "bpcg"])
def test_shorter_than_what_steps_from_zero_find(make_instance, name):
    p, start, target = instance(make_instance, 92)
    p = replace(p, constant=p.constant + 0.01 - target)  # one target for all
    target = 0.01
    found = solve_sparse(p, ORACLES[name](), start, target)
    assert (found.status == Status.TARGET).all() and (found.value <= target).all()
    stepped = solve(p, ORACLES[name](), target=target, max_steps=2000)
    assert int((found.coefficients != 0).sum()) <= int((stepped.coefficients != 0).sum())


@pytest.mark.parametrize("radius", [999.0, 0.5])
def test_the_start_is_computed_if_none_is_given(make_instance, radius):
    p, start, target = instance(make_instance, 97, width=70, points=120, radius=radius)
    p = replace(p, constant=p.constant + 0.01 - target)  # one target for all
    given = solve_sparse(p, ORACLES["bpcg"](), start, 0.01, max_steps=50)
    found = solve_sparse(p, ORACLES["bpcg"](), None, 0.01, max_steps=50)
    assert torch.equal(given.status, found.status)
    torch.testing.assert_close(given.coefficients, found.coefficients)


def test_the_named_solver_takes_over_where_the_ball_binds(make_instance):
    p, start, _ = instance(make_instance, 93, radius=0.5)
    assert (start.abs().sum(1) > p.radius).any()
    target = float(solve(p, ORACLES["pcg"]()).value.max())
    found = solve_sparse(p, ORACLES["bpcg"](), start, target, max_steps=2000)
    assert (found.coefficients.abs().sum(1) <= p.radius * (1 + 1e-12)).all()
    assert (found.value <= target + 1e-6).all() and (found.steps > 0).any()


def test_a_minimiser_on_the_boundary_stands_in_for_a_short_point_outside():
    """The second term is all but a multiple of the first, which without it has to be larger."""
    gram = torch.eye(70, dtype=torch.float64)
    gram[0, 0], gram[0, 1], gram[1, 0] = 1e-4, 0.9e-2, 0.9e-2
    c = torch.ones(1, 70, dtype=torch.float64)
    c[0, 1] = 0.005
    linear, whole = -c @ gram, torch.full((1,), 70)
    constant = 0.5 - (linear * c).sum(1)
    radius = float(c.sum(1))
    p = LeastSquaresBatch(gram[None], linear, constant, whole, 0 * whole, radius)
    short = shorten(p, c, torch.full_like(constant, 0.5001))
    assert short[0, 1] == 0 and float(short.sum()) > radius + 0.4
    found = solve_sparse(p, ORACLES["bpcg"](), c, 0.5001)
    assert torch.equal(found.coefficients, c) and not found.steps.any()


def test_what_misses_its_target_comes_back_as_it_is(make_instance):
    p, start, target = instance(make_instance, 94)
    target[::2] = p.value(start)[::2] - 1e-3
    c = shorten(p, start, target)
    assert torch.equal(c[::2], start[::2]) and (c[1::2] == 0).any(1).all()
    none = p.select(torch.zeros(0, dtype=torch.int64))
    assert shorten(none, start[:0], target[:0]).shape == (0, p.width)


def test_a_singular_matrix_spoils_nothing(make_instance):
    p = make_instance(96, rows=12, width=20, points=30, rank=6, radius=999.0).problem
    start = least_squares(p)
    target = p.value(start) + 0.1
    c = shorten(p, start, target)
    reached = p.value(c) <= target + 1e-6
    assert c.isfinite().all() and reached.all()
