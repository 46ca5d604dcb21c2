"""The l1 ball of OAVI: what is counted, and who is refused first."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vinets.algebra.gram import GramFactor
from vinets.algebra.orthogonal import OrthogonalFactor
from vinets.ideals.ball import BlockSolutions, OracleLog, oracle_solutions, outside_ball
from vinets.ideals.fit import Rule
from vinets.oracles import Solution, Status


def solution(statuses, steps, gaps):
    n = len(statuses)
    numbers = (torch.tensor(x, dtype=torch.int64) for x in (steps, [int(s) for s in statuses]))
    return Solution(torch.zeros(n, 2), torch.zeros(n), torch.tensor(gaps), *numbers)


def test_a_log_adds_up_over_blocks():
    log = OracleLog()
    log.add(solution([Status.TARGET, Status.STALLED], [3, 9], [0.5, 0.25]), kept=1)
    log.add(solution([Status.TARGET], [4], [0.1]), kept=1)
    log.add(solution([], [], []), kept=0)
    assert (log.rows, log.kept, log.steps, log.max_steps) == (3, 2, 16, 9)
    assert log.worst_gap == 0.5 and log.status == {"target": 2, "stalled": 1}


@pytest.fixture(params=[GramFactor, OrthogonalFactor])
def decided(request):
    """A factor with two rows, q0 and q1, orthonormal, and candidates in their span or near it."""
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 4)))[0].T
    factor = request.param(torch.from_numpy(q[:1]), psi=1e-4, unit=False)
    every = torch.ones(1, 1, dtype=torch.bool)
    factor.decide(torch.from_numpy(q[None, 1:2]), every, 1)
    rows = np.stack([3 * q[0] + q[1], 0.2 * q[0], 5 * q[1], q[0] - q[1] + 1e-3 * q[2]])
    values = torch.from_numpy(rows)[None]
    block = factor.decide(values, torch.ones(1, 4, dtype=torch.bool), 4)
    assert factor.counts == [2] and not block.accepted.any()
    tail = -torch.from_numpy(rows @ q[:2].T)[None]
    value = torch.from_numpy((rows**2).sum(1) - (rows @ q[:2].T ** 1**2).sum(1))[None]
    return factor, block, torch.full((1, 4), 2), tail, value, torch.zeros(1, 4, dtype=torch.int64)


def test_candidates_that_need_too_much_are_refused_from_the_first_on(decided):
    """By the norms 4, 0.2, 5 and 2 of their coefficients."""
    factor, block, prefix, tail, value, steps = decided
    norms = tail.abs().sum(-1)
    for radius, first in ((10.0, None), (4.5, 2), (3.0, 0), (0.1, 0)):
        rule = Rule(1e-4, unit=False, radius=radius)
        found = tail.clone(), value.clone()
        doubtful = norms > radius
        if not bool(doubtful.any()):
            assert first is None
            continue
        refused = outside_ball(BlockSolutions(factor, block, prefix, *found, steps), doubtful, rule)
        assert refused == (0, first)


@pytest.mark.parametrize("oracle", ["cg", "pcg", "bpcg", "agd"])
def test_oracles_replace_what_still_vanishes_and_leave_the_rest(decided, oracle):
    factor, block, prefix, tail, value, steps = decided
    rule = Rule(1e-4, unit=False, radius=4.5, oracle=oracle)
    before, log = (tail.clone(), value.clone()), OracleLog()
    vanished = torch.tensor([[True, True, False, True]])
    whole = BlockSolutions(factor, block, prefix, tail, value, steps)
    oracle_solutions(whole, vanished, rule, log)
    assert log.rows == 3 and log.kept == 3 and sum(log.status.values()) == 3
    assert torch.equal(tail[0, 2], before[0][0, 2]) and value[0, 2] == before[1][0, 2]
    for j in (0, 1, 3):
        rest = block.values[0, j] + tail[0, j] @ factor.rows[0, :2]
        assert float(rest.square().sum()) <= 1e-4 * (1 + 1e-9)
        assert float(value[0, j]) == pytest.approx(float(rest.square().sum()), abs=1e-12)
        assert value[0, j] >= 0
    none = torch.zeros_like(vanished)
    oracle_solutions(whole, none, rule, log)
    assert log.rows == 3


def test_at_psi_zero_what_is_zero_vanishes(decided):
    factor = decided[0]
    block = factor.screen(torch.zeros(1, 1, 20).double(), torch.ones(1, 1, dtype=torch.bool))
    width, every = torch.full((1, 1), 2), torch.ones(1, 1, dtype=torch.bool)
    tail, value = torch.zeros(1, 1, 2).double(), torch.zeros(1, 1).double()
    rule, log = Rule(0.0, unit=False, radius=1.0, oracle="bpcg"), OracleLog()
    whole = BlockSolutions(factor, block, width, tail, value, torch.zeros_like(width))
    assert outside_ball(whole, every, rule) is None
    oracle_solutions(whole, every, rule, log)
    assert (log.rows, log.kept) == (1, 1)
