"""OAVI's oracles by their own steps, against a loop that decides every term by them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from reference import in_l1_ball, plain_loop, stepping_loop

from vinets import ABM, OAVI, fit_class_ideals
from vinets.data.synthetic import latent_like
from vinets.ideals import construct
from vinets.oracles import ORACLES

PSI = 0.01
STEPPING = ("cg", "pcg", "bpcg", "agd")


def surface(seed: int, m: int = 40) -> np.ndarray:
    """Points near a surface in the cube, with noise far below the tolerance."""
    random = np.random.default_rng(seed)
    x, y = random.uniform(-1, 1, (2, m))
    Z = np.c_[x, y, np.tanh(x * y + 0.5 * x)] + 0.02 * random.normal(size=(m, 3))
    return np.clip(Z, -1, 1)


def terms(exponents: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(np.repeat(np.arange(len(row)), row).tolist()) for row in exponents]


@pytest.fixture(params=["small", "general"])
def path(request, monkeypatch):
    """Both constructions: that of small problems, and the general one."""
    if request.param == "general":
        monkeypatch.setattr(construct, "construct_small", lambda *_: None)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("tau", [1000.0, 2.5])  # where the ball does not bind, and where it does
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("oracle", STEPPING)
def test_decisions_are_those_of_the_oracle_and_vanish_by_its_steps(oracle, seed, tau):
    Z = surface(seed)
    start = "zero" if oracle == "agd" else "vertex"
    plain, steps = stepping_loop(Z, PSI, oracle, 3, tau)
    model = OAVI(PSI, oracle=oracle, start=start, tau=tau, max_degree=3).fit(Z)
    assert terms(model.order_ideal_) == plain.order_ideal
    assert terms(model.leading_terms_) == plain.leading
    values = model.transform(Z) ** 2
    assert (values.mean(0) <= PSI).all() and (model.steps_ > 0).all()
    assert model.report_.oracle["kept"] == len(model.generators_)
    tail = model.generators_.tail
    assert (tail.abs().sum(1) <= (tau - 1) * (1 + 1e-12)).all()
    if oracle == "cg":  # ties between vertices, which rounding breaks, change the way of others
        assert model.steps_.tolist() == steps
        for row, (_, c, _) in zip(tail.numpy(), plain.generators, strict=True):
            np.testing.assert_allclose(row[: len(c) - 1], c[:-1], atol=1e-9)


@pytest.mark.parametrize("oracle", STEPPING)
@pytest.mark.parametrize("start", ["least-squares", "vertex", "zero"])
def test_at_a_gap_the_mean_square_is_near_the_optimum(oracle, start):
    Z, tau, tol = surface(5), 3.0, 0.02
    plain = plain_loop(Z, PSI, in_l1_ball(tau - 1), max_degree=2)
    model = OAVI(PSI, oracle=oracle, start=start, stop="gap", tol=tol, tau=tau, max_degree=2).fit(Z)
    assert terms(model.leading_terms_) == plain.leading
    best = np.array([value for _, _, value in plain.generators])
    assert (model.mean_squares_ <= best + 1.01 * tol * PSI).all()
    assert (model.steps_.max() == 0) == (start == "least-squares")
    assert model.report_.oracle["status"].keys() == {"converged"}  # none stopped at a target


def test_fewer_steps_leave_more_zeros():
    Z = latent_like(60, 8, 3)
    early = OAVI(PSI, oracle="cg", start="vertex", max_degree=2).fit(Z)
    late = OAVI(PSI, oracle="cg", start="vertex", stop="gap", max_degree=2).fit(Z)
    assert (early.steps_ < late.steps_).all()
    assert early.nonzeros_.sum() < 0.8 * late.nonzeros_.sum()


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("oracle", [*STEPPING, "exact"])
def test_what_came_of_the_steps_is_told(oracle):
    start = "least-squares" if oracle == "exact" else "zero"
    model = OAVI(PSI, oracle=oracle, start=start, max_degree=2).fit(surface(1))
    assert model.steps_.shape == model.nonzeros_.shape == (len(model.generators_),)
    assert model.steps_.dtype == np.int64 and (model.steps_ > 0).all() == (oracle != "exact")
    wanted = [int((row != 0).sum()) for row in model.generators_.tail.numpy()]
    assert model.nonzeros_.tolist() == wanted
    assert model.report_.steps == model.steps_.sum() and model.report_.nonzeros == sum(wanted)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("oracle", [*STEPPING, "exact"])
def test_rounding_makes_no_mean_square_negative(oracle):
    for seed in range(5):
        angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, 60)
        curve = np.c_[np.cos(angle), np.cos((1 + seed % 2) * angle + 1 - seed % 2)]
        model = OAVI(1e-3, oracle=oracle, max_degree=4).fit(curve)
        assert len(model.generators_) and (model.mean_squares_ >= 0).all()


@pytest.mark.parametrize("backend", ["batched", "joblib"])
def test_every_class_has_its_own_steps(backend):
    Z, y = np.concatenate([surface(1), surface(2)]), np.repeat([0, 1], 40)
    model = OAVI(PSI, oracle="cg", start="vertex", max_degree=3)
    ideals = fit_class_ideals(Z, y, model, backend=backend)
    for label, ideal in ideals:
        alone = OAVI(PSI, oracle="cg", start="vertex", max_degree=3).fit(Z[y == label])
        assert ideal.steps_.tolist() == alone.steps_.tolist()
        assert ideal.nonzeros_.tolist() == alone.nonzeros_.tolist()
        assert ideal.report_.steps == alone.report_.steps > 0


def test_an_oracle_that_runs_out_of_steps_is_replaced_and_not_counted(monkeypatch):
    monkeypatch.setattr("vinets.ideals.ball.MAX_STEPS", 3)
    Z = surface(0)
    model = OAVI(PSI, oracle="cg", start="vertex", max_degree=3).fit(Z)
    exact = OAVI(PSI, oracle="exact", max_degree=3).fit(Z)
    assert (model.mean_squares_ <= PSI).all() and model.report_.oracle["kept"] == 0
    assert torch.equal(model.generators_.tail, exact.generators_.tail)
    assert (model.steps_ == 3).all()


def test_exact_is_the_optimum_where_the_ball_binds():
    Z, tau = surface(3), 2.5
    plain = plain_loop(Z, PSI, in_l1_ball(tau - 1), max_degree=3)
    model = OAVI(PSI, oracle="exact", tau=tau, max_degree=3).fit(Z)
    assert terms(model.leading_terms_) == plain.leading
    best = [value for _, _, value in plain.generators]
    np.testing.assert_allclose(model.mean_squares_, best, rtol=1e-6)
    norms = model.generators_.tail.abs().sum(1)
    assert float(norms.max()) == pytest.approx(tau - 1)


@pytest.mark.parametrize("psi", [0.0, PSI])
@pytest.mark.parametrize("oracle", ["exact", "bpcg", "agd"])
def test_without_a_ball_it_is_least_squares(oracle, psi):
    Z = surface(4) if psi else np.random.default_rng(0).integers(-2, 3, (12, 3)) / 2
    model = OAVI(psi, oracle=oracle, tau=math.inf, max_degree=4).fit(Z)
    wanted = ABM(psi, normalization="leading", max_degree=4).fit(Z)
    assert np.array_equal(model.order_ideal_, wanted.order_ideal_)
    assert torch.equal(model.generators_.tail, wanted.generators_.tail)
    assert model.report_.oracle == {} and not model.steps_.any()


def test_published_algorithms_have_no_corrections():
    for name in STEPPING:
        assert getattr(ORACLES[name]().as_published(), "corrections", 0) == 0
    assert ORACLES["bpcg"]().corrections > 0


@pytest.mark.parametrize("points", [80, 400])
def test_an_exact_ideal_of_many_points_of_a_curve_ends(points):
    """High powers nearly depend on each other, and the ball keeps most combinations out."""
    t = np.random.default_rng(0).uniform(0, 2 * np.pi, points)
    model = OAVI(psi=0, oracle="exact", max_degree=None, variable_order="descending")
    model.fit(np.c_[np.cos(3 * t), np.cos(2 * t)])
    assert model.report_.n_terms <= min(points, 150)
    assert (model.mean_squares_ < 1e-22).all()
    assert model.generators_.strings()[0] == "x1^3 - 0.5*x0^2 - 0.75*x1 + 0.25"
