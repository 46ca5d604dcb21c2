"""Adding entries one by one: the steps of the textbook, prefixes, and what is given up."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from vinets.oracles import LeastSquaresBatch, least_squares
from vinets.oracles.forward import add_entries


def instance(make_instance, seed, share=0.4, **more):
    """Problems and targets that a ``share`` of what can be gained need not be gained for."""
    sizes = {"rows": 30, "width": 12, "points": 60, "radius": 999.0} | more
    p = make_instance(seed, **sizes).problem
    best = p.value(least_squares(p))
    return p, best + share * (p.constant - best)


def minimum(p, n, support):
    """Value and coefficients of the row ``n`` over a list of entries."""
    G, b = p.gram[p.owner[n]].numpy(), p.linear[n].numpy()
    support = list(support)
    c = -np.linalg.solve(G[np.ix_(support, support)], b[support])
    return float(p.constant[n]) + b[support] @ c, c


def one_by_one(p, n, target):
    """The support from its definition: the best entry joins until the target is reached.

    If one can be left out of four to eight after that, the cheapest is.
    """
    support, value = [], float(p.constant[n])
    while value > target:
        rest = set(range(int(p.prefix[n]))) - set(support)
        value, i = min((minimum(p, n, [*support, i])[0], i) for i in rest)
        support.append(i)
    if 4 <= len(support) <= 8:
        value, without = min(
            (minimum(p, n, s)[0], s) for s in combinations(support, len(support) - 1)
        )
        support = without if value <= target else support
    return sorted(support)


@pytest.mark.parametrize("options", [{}, {"random_prefix": True}, {"classes": 3}])
def test_steps_are_those_of_the_definition(make_instance, options):
    p, target = instance(make_instance, 80, **options)
    c, reached = add_entries(p, target)
    assert reached.all() and (c[~p.mask] == 0).all()
    assert (p.value(c) <= target + 1e-12).all()
    for n, row in enumerate(c):
        support = row.nonzero()[:, 0].tolist()
        assert support == one_by_one(p, n, float(target[n]))
        if support:
            np.testing.assert_allclose(row[support], minimum(p, n, support)[1], atol=1e-10)


def test_one_or_two_entries_are_as_few_as_there_can_be(make_instance):
    p, target = instance(make_instance, 81, share=0.6)
    sizes = (add_entries(p, target)[0] != 0).sum(1).tolist()
    assert {1, 2} <= set(sizes)
    for n, size in enumerate(sizes):
        for fewer in range(1, min(size, 3)):
            every = combinations(range(p.width), fewer)
            assert min(minimum(p, n, s)[0] for s in every) > target[n]


def test_a_target_out_of_reach_leaves_zero(make_instance):
    p, target = instance(make_instance, 82)
    target[::2] = p.value(least_squares(p))[::2] - 1e-3
    target[4] = -torch.inf
    c, reached = add_entries(p, target)
    assert not reached[::2].any() and reached[1::2].all()
    assert not c[::2].any()


def test_rows_that_need_many_entries_are_given_up(make_instance):
    p, target = instance(make_instance, 83, share=0.01, width=70, points=200)
    c, reached = add_entries(p, target)
    assert not reached.any() and not c.any()
    assert add_entries(p, 0.99 * p.constant)[1].all()


@pytest.mark.parametrize(("width", "steps_left"), [(2, 1), (70, 10)])
def test_rows_are_given_up_where_steps_like_the_next_would_not_suffice(width, steps_left):
    """Two terms that nearly agree lower the value by 1, and then by 19: the 1 decides.

    Where there are more than 64 terms, another one takes the first of the twelve steps.
    """
    gram = torch.eye(width, dtype=torch.float64)[None]
    gram[0, 0, 1] = gram[0, 1, 0] = 0.9
    linear = torch.zeros(2, width, dtype=torch.float64)
    linear[:, :2] = torch.tensor([1.0, -1.0])
    missing = torch.tensor([0.5, 1.5], dtype=torch.float64) + steps_left
    if width > 2:
        linear[:, -1] = 10.0
        missing += 100.0
    whole, constant = torch.full((2,), width), torch.full_like(missing, 1000.0)
    p = LeastSquaresBatch(gram, linear, constant, whole, 0 * whole, 999.0)
    target = constant - missing
    c, reached = add_entries(p, target)
    assert reached.tolist() == [True, False] and (p.value(least_squares(p)) < target).all()
    assert p.value(c)[0] <= target[0] and not c[1].any()


def test_what_zero_reaches_has_no_entries(make_instance):
    p, _ = instance(make_instance, 84)
    c, reached = add_entries(p, p.constant)
    assert reached.all() and not c.any()
    none = p.select(torch.zeros(0, dtype=torch.int64))
    assert add_entries(none, p.constant[:0])[0].shape == (0, p.width)


def test_dependent_and_empty_terms_are_not_taken(make_instance):
    p, _ = instance(make_instance, 85, rank=4)
    nothing = torch.zeros(1, p.width, p.width, dtype=torch.float64)
    nothing[:, :-1, :-1] = p.gram[:, :-1, :-1]
    linear = p.linear.clone()
    linear[:, -1] = 0.0
    p = replace(p, gram=nothing, linear=linear)
    target = p.value(least_squares(p)) + 1e-6
    c, reached = add_entries(p, target)
    assert c.isfinite().all() and ((c != 0).sum(1) <= 4).all()
    assert reached.all() and (p.value(c) <= target + 1e-9).all()
    assert c.abs().max() < 1e3


def test_gram_matrices_need_not_be_contiguous(make_instance):
    p, target = instance(make_instance, 86, classes=3)
    cut = replace(p, gram=torch.nn.functional.pad(p.gram, (0, 3, 0, 3))[:, :-3, :-3])
    assert torch.equal(add_entries(cut, target)[0], add_entries(p, target)[0])


def test_single_precision_stays_single(make_instance):
    p, target = instance(make_instance, 87)
    c, reached = add_entries(p.to(torch.float32), target.float())
    assert c.dtype == torch.float32 and reached.all()
    assert (p.value(c.double()) <= target + 1e-5).all()


def test_an_exact_copy_of_a_term_is_taken_once():
    u = torch.tensor([[2.0]], dtype=torch.float64)
    twice = torch.ones(1, 2, 2, dtype=torch.float64)
    one = torch.ones(1, dtype=torch.int64)
    p = LeastSquaresBatch(twice, u.expand(1, 2), u[0] * 2, 2 * one, 0 * one, 9.0)
    c, reached = add_entries(p, torch.tensor([0.0], dtype=torch.float64))
    assert reached.all() and c.tolist() == [[-2.0, 0.0]]
