"""Blocks put together, prefixes kept to, decisions undone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vinets.algebra.gram import GramFactor
from vinets.algebra.orthogonal import OrthogonalFactor
from vinets.ideals.ball import OracleLog
from vinets.ideals.coefficients import BallBinds, VanishingTerms, block_outcome
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


@every_kind
def test_a_refused_candidate_is_accepted_and_what_follows_undone(kind):
    """Candidates 2 c, a, 3 a, b of the constant c and two new rows: 2 c and 3 a need too much."""
    q = np.linalg.qr(np.column_stack([np.ones(12), np.random.default_rng(0).normal(size=(12, 2))]))[
        0
    ]
    c, a, b = np.sign(q[0, 0]) * q[:, 0], q[:, 1], q[:, 2]
    rows = np.stack([0.5 * c, a, 3 * a, b, 0.1 * b])
    rule = Rule(1e-6, unit=False, radius=1.0)

    def decided(sets):
        constant = torch.full((sets, 12), 12**-0.5, dtype=torch.float64)
        factor = kind(constant, psi=rule.psi, unit=False)
        values = torch.from_numpy(rows).repeat(sets, 1, 1)
        valid = torch.ones(values.shape[:2], dtype=torch.bool)
        return factor, factor.decide(values, valid, 3), valid, [1] * sets

    factor, block, valid, before = decided(1)
    (found,), (accepted,), refused = block_outcome(factor, block, valid, before, rule, OracleLog())
    assert refused == 2 and accepted.tolist() == [1, 2] and found.position.tolist() == [0]
    assert factor.counts == [3] and factor.active[0, :3].tolist() == [1, 1, 0]
    np.testing.assert_allclose(factor.rows[0, :3], np.stack([c, a, 3 * a]), atol=1e-15)
    with pytest.raises(BallBinds):
        block_outcome(*decided(2), rule, OracleLog())
