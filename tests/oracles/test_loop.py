"""How the loop starts, stops and reports."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from vinets.oracles import ORACLES, LeastSquaresBatch, PairwiseFrankWolfe, Status, loop, solve
from vinets.oracles.loop import finish


@pytest.mark.parametrize("name", ["pcg", "bpcg", "agd"])
def test_any_start_leads_to_the_same_value(make_instance, name):
    p = make_instance(21, radius=0.6, random_prefix=True).problem
    start = torch.randn(p.linear.shape, generator=torch.Generator().manual_seed(1)) * 10
    warm, cold = solve(p, ORACLES[name](), start=start), solve(p, ORACLES[name]())
    torch.testing.assert_close(warm.value, cold.value, rtol=0, atol=2e-7)


def test_rows_that_end_early_keep_the_point_they_ended_at(make_instance):
    """Compaction: an easy row's result does not depend on the hard rows beside it."""
    p = make_instance(22, rows=12, width=20, points=25, radius=5.0).problem
    target = torch.full_like(p.constant, -1.0)
    target[::2] = 0.9 * p.constant[::2]
    mixed = solve(p, ORACLES["bpcg"](), target=target)
    easy = solve(p.select(torch.arange(0, 12, 2)), ORACLES["bpcg"](), target=target[::2])
    torch.testing.assert_close(mixed.coefficients[::2], easy.coefficients)
    assert torch.equal(mixed.steps[::2], easy.steps)
    assert (mixed.steps[1::2] > mixed.steps[::2].max()).all()


def test_steps_are_counted_up_to_the_limit(make_instance):
    p = make_instance(23, radius=0.5).problem
    solution = solve(p, ORACLES["cg"](), max_steps=13, check_every=5, tolerance=1e-14)
    limited = solution.status == Status.STEP_LIMIT
    assert limited.any()
    assert (solution.steps[limited] == 13).all()
    assert (solution.steps[~limited] % 5 == 0).all()
    assert (solve(p, ORACLES["cg"](), max_steps=0).steps == 0).all()


def test_an_unreachable_target_is_not_reported_unless_asked(make_instance):
    p = make_instance(24).problem
    solution = solve(p, ORACLES["pcg"](), target=-1.0)
    assert (solution.status == Status.CONVERGED).all()
    hopeless = solve(p, ORACLES["pcg"](), target=-1.0, stop_when_hopeless=True)
    assert (hopeless.status == Status.INFEASIBLE_TARGET).all()


@pytest.mark.parametrize("name", ORACLES)
def test_what_rounding_forbids_ends_as_stalled(make_instance, name):
    """A negative tolerance cannot be met; the row ends when progress does, not at the limit."""
    p = make_instance(25, rows=3, width=3, radius=30.0, dtype=torch.float32).problem
    solution = solve(p, ORACLES[name](), tolerance=-1.0, max_steps=50_000)
    assert (solution.status == Status.STALLED).all()


def test_rows_without_progress_end_after_so_many_steps_and_no_later():
    solution = solve(one_number(3), ORACLES["agd"](), start=torch.ones(3, 1), tolerance=-1.0)
    assert (solution.status == Status.STALLED).all()
    assert (solution.steps == loop.STALL_STEPS).all()


def test_bad_numbers_in_the_problem_end_as_stalled(make_instance):
    p = make_instance(26).problem
    p = replace(p, linear=p.linear.index_fill(0, torch.tensor([1]), torch.nan))
    solution = solve(p, ORACLES["bpcg"]())
    assert solution.status[1] == Status.STALLED
    assert (solution.status[[0, 2, 3, 4, 5]] == Status.CONVERGED).all()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("start", {"start": torch.zeros(2, 2)}),
        ("target", {"target": torch.zeros(2)}),
        ("max_steps", {"max_steps": -1}),
        ("check_every", {"check_every": 0}),
    ],
)
def test_errors_name_the_argument(make_instance, name, options):
    with pytest.raises(ValueError, match=f"'{name}'"):
        solve(make_instance(27).problem, ORACLES["agd"](), **options)


def one_number(count, radius=10.0):
    """min c² - 2 c + 1.5, which is 0.5 at c = 1; at c the gap is 2 c (c - 1) + 20 |c - 1|."""
    ones = torch.ones(count, dtype=torch.float64)
    zeros = torch.zeros(count, dtype=torch.int64)
    return LeastSquaresBatch(
        torch.ones(1, 1, 1).double(), -ones[:, None], 1.5 * ones, zeros + 1, zeros, radius
    )


CERTIFIED = [  # point, status claimed, target, status borne out
    (1.0, Status.CONVERGED, 0.0, Status.CONVERGED),
    (1.0, Status.CONVERGED, 2.0, Status.CONVERGED),  # also where a target would be met
    (0.9, Status.CONVERGED, 0.0, Status.STALLED),
    (0.9, Status.CONVERGED, 2.0, Status.TARGET),
    (0.9, Status.TARGET, 2.0, Status.TARGET),
    (0.9, Status.TARGET, 0.505, Status.STALLED),  # the value is 0.51
    (1.0, Status.INFEASIBLE_TARGET, 0.25, Status.INFEASIBLE_TARGET),
    (0.9, Status.INFEASIBLE_TARGET, 0.25, Status.STALLED),  # the gap is 1.82
    (0.9, Status.STEP_LIMIT, 2.0, Status.TARGET),
    (0.9, Status.STEP_LIMIT, 0.25, Status.STEP_LIMIT),
    (0.9, Status.STALLED, 2.0, Status.TARGET),
    (0.9, Status.STALLED, 0.25, Status.STALLED),
]


def test_only_what_values_and_gaps_bear_out_is_certified():
    points, claimed, targets, borne_out = zip(*CERTIFIED, strict=True)
    p = one_number(len(points))
    c, target = (torch.tensor(x, dtype=torch.float64) for x in (points, targets))
    steps = torch.arange(len(points))
    status = torch.tensor(claimed)
    solution = finish(p, c[:, None], steps, status, target=target, tolerance=1e-7)
    assert [Status(s) for s in solution.status.tolist()] == list(borne_out)
    torch.testing.assert_close(solution.value, c**2 - 2 * c + 1.5)
    torch.testing.assert_close(solution.gap, 2 * c * (c - 1) + 20 * (c - 1).abs())
    assert torch.equal(solution.steps, steps)
    free = finish(p, c[:, None], steps, status, target=None, tolerance=1e-7)
    wrong = (status == Status.CONVERGED) & (c < 1)
    assert torch.equal(free.status, torch.where(wrong, int(Status.STALLED), status))


@pytest.mark.parametrize("check_every", [1, 3])
def test_every_number_of_steps_between_tests_will_do(make_instance, check_every):
    p = make_instance(28, radius=0.5).problem
    solution = solve(p, PairwiseFrankWolfe(), check_every=check_every)
    assert (solution.status == Status.CONVERGED).all()
    assert (solution.steps % check_every == 0).all() and (solution.steps > 0).any()


def test_blocks_that_a_cache_holds_solve_the_same_problems(make_instance, monkeypatch):
    p = make_instance(29, radius=0.5).problem
    options = {"target": 0.2, "tolerance": 1e-9, "check_every": 2}
    whole = solve(p, PairwiseFrankWolfe(), **options)
    monkeypatch.setattr(loop, "MAX_BLOCK_NUMBERS", 3 * p.width)
    blocks = solve(p, PairwiseFrankWolfe(), **options)
    torch.testing.assert_close(blocks.coefficients, whole.coefficients, rtol=1e-6, atol=1e-9)
    assert torch.equal(blocks.status, whole.status) and torch.equal(blocks.steps, whole.steps)
