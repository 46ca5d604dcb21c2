"""Blocks put together, prefixes kept to, decisions undone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vinets.algebra.gram import GramFactor
from vinets.algebra.orthogonal import OrthogonalFactor
from vinets.ideals.ball import OracleLog
from vinets.ideals.coefficients import (
    BallBinds,
    VanishingTerms,
    _padded,
    block_outcome,
    unit_coefficients,
)
from vinets.ideals.fit import Rule

every_kind = pytest.mark.parametrize("kind", [GramFactor, OrthogonalFactor])


def test_blocks_are_put_under_each_other_and_let_go():
    def block(rows, width, start):
        table = torch.arange(float(rows * width)).view(rows, width) + start
        numbers = (torch.full((rows,), x) for x in (float(start), width, start + 1))
        return VanishingTerms(np.arange(rows), table, *numbers)

    found = [block(2, 1, 10), block(0, 2, 0), block(3, 4, 20)]
    tables = [f.table.clone() for f in found]
    whole = VanishingTerms.joined(found, 5)
    assert found == []  # so that both need not fit into memory
    assert whole.table.shape == (5, 5)
    assert torch.equal(whole.table[:2, :1], tables[0]) and not whole.table[:2, 1:].any()
    assert torch.equal(whole.table[2:, :4], tables[2]) and not whole.table[2:, 4:].any()
    assert replace(whole) != whole  # tables are compared by what they are, not entry by entry
    assert whole.value.tolist() == [10, 10, 20, 20, 20] and whole.prefix.tolist() == [1, 1, 4, 4, 4]
    assert whole.steps.tolist() == [11, 11, 21, 21, 21]


def test_padding_says_what_exists():
    exists, stacked = _padded([torch.ones(2, 3), torch.ones(0, 1), 2 * torch.ones(1, 2)], 4)
    assert stacked.shape == (3, 2, 4)
    assert exists.tolist() == [[True, True], [False, False], [True, False]]
    assert stacked[0].tolist() == [[1, 1, 1, 0]] * 2 and stacked[2].tolist() == [
        [2, 2, 0, 0],
        [0] * 4,
    ]


def decided(kind, unit, psi, rows, sets=1):
    m = rows.shape[-1]
    constant = torch.full((sets, m), m**-0.5, dtype=torch.float64)
    factor = kind(constant, psi=psi, unit=unit)
    values = torch.from_numpy(np.broadcast_to(rows, (sets, *rows.shape)).copy())
    valid = torch.ones(values.shape[:2], dtype=torch.bool)
    before = list(factor.counts)
    return factor, factor.decide(values, valid, 3), valid, before


def mixed_rows(seed, count=14, m=30, rank=5, noise=0.02):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(count, rank)) @ random.normal(size=(rank, m)) / rank**0.5
    return (rows + noise * random.normal(size=rows.shape)) / m**0.5


@every_kind
@pytest.mark.parametrize("seed", range(3))
def test_coefficients_are_least_squares_over_what_each_candidate_met(kind, seed):
    rows, psi = mixed_rows(seed), 5e-3
    factor, block, valid, before = decided(kind, False, psi, rows)
    rule = Rule(psi, unit=False)
    (found,), (accepted,), refused = block_outcome(factor, block, valid, before, rule, OracleLog())
    assert refused is None and len(accepted) and len(found.position)
    assert sorted([*accepted, *found.position]) == list(range(14))
    M = factor.rows[0].numpy()
    for j, c, value, prefix in zip(
        found.position, found.table, found.value, found.prefix, strict=True
    ):
        assert int(prefix) == 1 + int((accepted < j).sum())  # the constant, and those before it
        wanted = np.linalg.lstsq(M[:prefix].T, -rows[j], rcond=None)[0]
        np.testing.assert_allclose(c[:prefix], wanted, atol=1e-9)
        assert not c[prefix:].any()
        rest = rows[j] + wanted @ M[:prefix]
        assert float(value) == pytest.approx(rest @ rest, abs=1e-12)


@every_kind
@pytest.mark.parametrize("seed", range(3))
def test_eigenvectors_are_those_of_what_each_candidate_met(kind, seed):
    rows, psi = mixed_rows(seed), 1e-3
    factor, block, valid, before = decided(kind, True, psi, rows)
    rule = Rule(psi, unit=True)
    (vanished,), *_ = block_outcome(factor, block, valid, before, rule, OracleLog())
    positions, prefix = vanished.position, vanished.prefix.tolist()
    gathered = VanishingTerms.joined([vanished], factor.counts[0])
    (found,) = unit_coefficients(factor, [gathered], psi, 1 << 20)
    assert len(positions) and found.tail.shape == (len(positions), factor.counts[0])
    for row, (j, k) in enumerate(zip(positions, prefix, strict=True)):
        full = np.vstack([factor.rows[0, :k].numpy(), rows[j]])
        values, vectors = np.linalg.eigh(full @ full.T)
        x = vectors[:, 0] * np.sign(vectors[-1, 0])
        assert float(found.value[row]) == pytest.approx(values[0], rel=1e-6, abs=1e-13)
        np.testing.assert_allclose(found.tail[row, :k], x[:-1], atol=1e-6)
        assert not found.tail[row, k:].any()
        assert float(found.lead[row]) == pytest.approx(x[-1], abs=1e-6)


@every_kind
def test_a_refused_candidate_is_accepted_and_what_follows_undone(kind):
    """Candidates 2 c, a, 3 a, b of the constant c and two new rows: 2 c and 3 a need too much."""
    q = np.linalg.qr(np.column_stack([np.ones(12), np.random.default_rng(0).normal(size=(12, 2))]))[
        0
    ]
    c, a, b = np.sign(q[0, 0]) * q[:, 0], q[:, 1], q[:, 2]
    rows = np.stack([0.5 * c, a, 3 * a, b, 0.1 * b])
    psi, rule = 1e-6, Rule(1e-6, unit=False, radius=1.0)
    factor, block, valid, before = decided(kind, False, psi, rows)
    (found,), (accepted,), refused = block_outcome(factor, block, valid, before, rule, OracleLog())
    assert refused == 2 and accepted.tolist() == [1, 2] and found.position.tolist() == [0]
    assert factor.counts == [3] and factor.active[0, :3].tolist() == [1, 1, 0]
    np.testing.assert_allclose(factor.rows[0, :3], np.stack([c, a, 3 * a]), atol=1e-15)
    factor, block, valid, before = decided(kind, False, psi, rows, sets=2)
    with pytest.raises(BallBinds):
        block_outcome(factor, block, valid, before, rule, OracleLog())
