"""Factors over batches decide and factorise as those over all points at once."""

from __future__ import annotations

import pytest
import torch

from vinets.algebra.gram import GramFactor
from vinets.algebra.moments import MomentFactor, TriangleFactor
from vinets.algebra.orthogonal import OrthogonalFactor

CPU = torch.device("cpu")
PSI = 3e-3


def rows_of_terms(count, m=90, rank=2):
    """The constant and ``count`` rows (count + 1, m), which depend on each other or nearly so."""
    g = torch.Generator().manual_seed(0)
    low = torch.randn(count, rank, generator=g) @ torch.randn(rank, m, generator=g)
    rows = low / rank**0.5 + 0.1 * (torch.arange(count) % 3)[:, None] * torch.randn(
        count, m, generator=g
    )
    return torch.cat([torch.ones(1, m), rows]).double()


def through_batches(factor, accepted, candidates, sizes):
    """Decide candidates (b, m) after one pass over the accepted terms (o, m) and them."""
    values = torch.cat([accepted, candidates])
    factor.begin(len(values))
    for part in values.split(sizes, dim=1):
        factor.add(part)
    rows = factor.finish(values.shape[1])[None]
    return factor.decide(rows, torch.ones(rows.shape[:2], dtype=torch.bool), 4)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(
    ("kind", "in_memory"), [(MomentFactor, GramFactor), (TriangleFactor, OrthogonalFactor)]
)
@pytest.mark.parametrize("sizes", [[90], [40, 3, 47]])
def test_two_passes_decide_as_two_blocks_in_memory(kind, in_memory, unit, sizes, monkeypatch):
    monkeypatch.setattr("vinets.algebra.moments.PANEL_ROWS", 5)  # several panels in a pass
    values = rows_of_terms(24)
    whole = in_memory(values[:1] / 90**0.5, psi=PSI, unit=unit)
    factor = kind(psi=PSI, unit=unit, device=CPU)
    accepted = values[:1]
    for block in values[1:].split(12):
        wanted = whole.decide(block[None] / 90**0.5, torch.ones(1, len(block), dtype=torch.bool), 4)
        found = through_batches(factor, accepted, block, sizes)
        assert torch.equal(found.accepted, wanted.accepted)
        assert found.accepted.any() and not found.accepted.all()
        torch.testing.assert_close(found.square, wanted.square)
        torch.testing.assert_close(found.gap, wanted.gap, rtol=1e-7, atol=1e-12)
        accepted = torch.cat([accepted, block[found.accepted[0]]])
    assert factor.counts == whole.counts == [len(accepted)]
    o = len(accepted)
    torch.testing.assert_close(factor.lower[:, :o, :o], whole.lower[:, :o, :o])
    own = factor.inner(factor.rows[:, :o], factor.rows[:, :o])
    torch.testing.assert_close(own[0], accepted @ accepted.mT / 90)


@pytest.mark.parametrize("kind", [MomentFactor, TriangleFactor])
def test_a_rotation_keeps_inner_products(kind):
    values = rows_of_terms(8)
    factor = kind(psi=PSI, unit=False, device=CPU)
    block = through_batches(factor, values[:1], values[1:], [50, 40])
    o = factor.counts[0]
    columns, turn = factor.rotation(0, o)
    accepted = torch.cat([values[:1], values[1:][block.accepted[0]]]) / 90**0.5
    torch.testing.assert_close(columns.mT @ columns, accepted @ accepted.mT)
    for row, turned in zip(values[1:] / 90**0.5, map(turn, block.values[0]), strict=True):
        torch.testing.assert_close(turned @ turned, row @ row)
        torch.testing.assert_close(turned[:-1] @ columns, accepted @ row)
