"""The engine against the plain loop, and the properties every construction must have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import boosted_loop, in_l1_ball, least_squares, plain_loop, smallest_eigenvector

from vinets import OAVI
from vinets.data.synthetic import latent_like
from vinets.ideals.construct import construct
from vinets.ideals.fit import Rule

problems = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 100_000),
        "m": st.integers(1, 50),
        "n": st.integers(1, 6),
        "rank": st.integers(1, 4),
        "psi": st.floats(-4, -0.3).map(lambda e: 10.0**e),
        "max_degree": st.integers(1, 5),
        "border": st.sampled_from(["groebner", "full"]),
        "panel": st.integers(1, 9),
        "memory_limit": st.sampled_from([1, 3000, 100_000, 1 << 30]),
    }
)


@pytest.fixture(autouse=True, scope="module", params=[1024, 0], ids=["small", "any size"])
def engine(request):
    """Single small point sets have a construction of their own; with 0 nothing is small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vinets.ideals.small.MAX_BORDER_TERMS", request.param)
        yield


def rows(terms) -> list[tuple[int, ...]]:
    return [tuple(row) for block in terms.blocks for row in block.tolist()]


def points_of(p: dict, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(latent_like(p["m"], p["n"], p["rank"], seed=p["seed"] + seed))


def rule_of(p: dict, unit: bool) -> Rule:
    how = ("psi", "max_degree", "border", "panel", "memory_limit")
    return Rule(unit=unit, **{name: p[name] for name in how})


@pytest.mark.parametrize("orthogonal", [False, True], ids=["gram", "orthogonal"])
@pytest.mark.parametrize("unit", [False, True], ids=["leading", "unit"])
@settings(deadline=None, max_examples=60)
@given(p=problems)
def test_decisions_and_values_are_those_of_the_plain_loop(unit, orthogonal, p):
    Z = points_of(p)
    solve = smallest_eigenvector if unit else least_squares
    plain = plain_loop(Z.numpy(), p["psi"], solve, p["max_degree"], p["border"])
    (built,) = construct([Z], rule_of(p, unit), orthogonal=orthogonal)
    assert rows(built.order_ideal) == plain.order_ideal
    assert rows(built.generators.leading) == plain.leading
    wanted = [value for _, _, value in plain.generators]
    np.testing.assert_allclose(built.values, wanted, atol=1e-10)
    seen = built.generators.evaluate(Z).square().mean(0)
    np.testing.assert_allclose(seen, wanted, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(p=problems, unit=st.booleans())
def test_every_construction_is_an_ideal_basis_of_its_rule(p, unit):
    Z = points_of(p)
    (built,) = construct([Z], rule_of(p, unit), orthogonal=False)
    order, leading = rows(built.order_ideal), rows(built.generators.leading)
    known = set(order)
    if p["border"] == "groebner":
        for term in order:
            assert all(term[:j] + term[j + 1 :] in known for j in range(len(term)))
    products = {tuple(sorted((*t, i))) for t in order for i in range(p["n"])}
    border = {u for u in products - known if len(u) <= p["max_degree"]}
    if p["border"] == "groebner":
        border = {u for u in border if all(u[:j] + u[j + 1 :] in known for j in range(len(u)))}
    assert set(leading) == border and len(leading) == len(border)
    mean_square = built.generators.evaluate(Z).square().mean(0)
    assert bool((mean_square <= p["psi"] * (1 + 1e-9) + 1e-14).all())
    norms = built.generators.tail.square().sum(1) + built.generators.lead.square()
    if unit:
        np.testing.assert_allclose(norms, 1.0)
    else:
        assert bool((built.generators.lead == 1).all())


@settings(deadline=None, max_examples=40)
@given(p=problems, unit=st.booleans(), sizes=st.lists(st.integers(1, 40), min_size=2, max_size=4))
def test_batches_equal_single_fits(p, unit, sizes):
    sets = [points_of({**p, "m": m}, seed=k) for k, m in enumerate(sizes)]
    rule = rule_of(p, unit)
    for orthogonal in (False, True):
        together = construct(sets, rule, orthogonal=orthogonal)
        for Z, batched in zip(sets, together, strict=True):
            (alone,) = construct([Z], rule, orthogonal=orthogonal)
            assert rows(batched.order_ideal) == rows(alone.order_ideal)
            assert rows(batched.generators.leading) == rows(alone.generators.leading)
            torch.testing.assert_close(
                batched.generators.evaluate(Z).abs(), alone.generators.evaluate(Z).abs(),
                atol=1e-8, rtol=1e-6,
            )  # fmt: skip


@pytest.mark.parametrize("oracle", ["exact", "cg", "pcg", "bpcg", "agd"])
@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 1000),
    m=st.integers(3, 25),
    n=st.integers(1, 3),
    psi=st.floats(-2.5, -1).map(lambda e: 10.0**e),
    radius=st.floats(1.0, 3.0),
)
def test_oavi_in_a_tight_ball_agrees_with_a_convex_solver(oracle, seed, m, n, psi, radius):
    pytest.importorskip("cvxpy")
    Z = latent_like(m, n, 2, seed=seed)
    plain = plain_loop(Z, psi, in_l1_ball(radius), max_degree=3)
    gaps = [abs(value - psi) for _, _, value in plain.generators]
    if gaps and min(gaps) < 1e-7:
        return  # a tie, where the convex solver's own tolerance decides
    for orthogonal in (False, True):
        (built,) = construct(
            [torch.from_numpy(Z)],
            Rule(psi, unit=False, radius=radius, oracle=oracle, max_degree=3, panel=3),
            orthogonal=orthogonal,
        )
        assert rows(built.order_ideal) == plain.order_ideal
        assert rows(built.generators.leading) == plain.leading
        tail = built.generators.tail
        assert bool((tail.abs().sum(1) <= radius * (1 + 1e-9)).all())
        seen = built.generators.evaluate(torch.from_numpy(Z)).square().mean(0)
        assert bool((seen <= psi * (1 + 1e-9)).all())


def test_a_ball_that_binds_keeps_dependent_terms_in_the_order_ideal():
    """x1 = 2 x0 needs a coefficient of 2: outside the ball of radius 1, so x1 joins O."""
    x = torch.linspace(-0.5, 0.5, 11, dtype=torch.float64)
    Z = torch.stack([x, 2 * x], dim=1)
    for orthogonal in (False, True):
        rule = Rule(1e-4, unit=False, radius=1.0, max_degree=2)
        (built,) = construct([Z], rule, orthogonal=orthogonal)
        assert (1,) in rows(built.order_ideal)
        (free,) = construct([Z], replace(rule, radius=np.inf), orthogonal=orthogonal)
        assert (1,) in rows(free.generators.leading)


def test_a_batch_in_which_the_ball_binds_equals_single_fits():
    sets = [torch.from_numpy(latent_like(20, 3, 2, seed=s)) for s in range(3)]
    rule = Rule(0.02, unit=False, radius=1.0, max_degree=3)
    together = construct(sets, rule, orthogonal=False)
    for Z, batched in zip(sets, together, strict=True):
        (alone,) = construct([Z], rule, orthogonal=False)
        assert rows(batched.order_ideal) == rows(alone.order_ideal)


@pytest.mark.parametrize(
    ("sets", "orthogonal", "precision"),
    [(1, False, "float64"), (2, False, "float64"), (1, True, "float64"), (1, False, "float32")],
)
def test_a_single_small_set_takes_the_short_way(monkeypatch, sets, orthogonal, precision):
    import vinets.ideals.construct as module

    calls = []
    right = module.construct_small
    monkeypatch.setattr(module, "construct_small", lambda *a: (calls.append(a), right(*a))[1])
    Z = torch.from_numpy(latent_like(20, 3, 2))
    rule = Rule(0.02, unit=True, max_degree=2, precision=precision)
    assert len(construct([Z] * sets, rule, orthogonal=orthogonal)) == sets
    assert bool(calls) == ((sets, orthogonal, precision) == (1, False, "float64"))


@pytest.mark.parametrize("memory", [1, 1 << 20])
def test_the_route_of_a_gpu_gives_the_coefficients_of_a_cpu(monkeypatch, memory):
    import vinets.ideals.construct as module
    from vinets.ideals.coefficients import _in_batches

    sets = [torch.from_numpy(latent_like(200, 20, 8, noise=0.1, seed=s)) for s in range(3)]
    rule = Rule(0.01, unit=True, max_degree=3, memory_limit=memory)
    cpu = construct(sets, rule, orthogonal=False)
    monkeypatch.setattr(module, "unit_coefficients", _in_batches)
    for here, there in zip(cpu, construct(sets, rule, orthogonal=False), strict=True):
        torch.testing.assert_close(here.generators.tail, there.generators.tail)
        torch.testing.assert_close(here.generators.lead, there.generators.lead)
        torch.testing.assert_close(here.values, there.values)


@pytest.mark.parametrize("oracle", ["cg", "pcg", "bpcg"])
def test_sparse_oracles_decide_as_the_prior_art_and_are_no_less_sparse(oracle):
    """The same order ideal and leading terms; values within psi; at most as many coefficients."""
    Z, psi = latent_like(150, 8, 4, seed=7), 5e-3
    model = OAVI(psi, oracle=oracle, max_degree=3).fit(Z)
    plain = boosted_loop(Z, psi, 3)
    terms = [np.repeat(np.arange(8), e).tolist() for e in model.order_ideal_]
    leading = [np.repeat(np.arange(8), e).tolist() for e in model.leading_terms_]
    assert terms == [list(t) for t in plain.order_ideal]
    assert leading == [list(t) for t in plain.leading]
    values = np.square(model.transform(Z)).mean(0)
    np.testing.assert_allclose(values, model.mean_squares_, rtol=1e-6)
    assert (values <= psi).all()
    theirs = sum(np.count_nonzero(c[:-1]) for _, c, _ in plain.generators)
    assert int(torch.count_nonzero(model.generators_.tail)) <= theirs
