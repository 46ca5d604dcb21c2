"""Both factorisations decide what one LAPACK call a candidate decides, and stay factorisations."""

from __future__ import annotations

import numpy as np
import pytest
import sympy
import torch
from reference import decide_in_turn

from vinets.algebra.gram import GramFactor
from vinets.algebra.growing import first_true, gather_rows, scatter_mask
from vinets.algebra.orthogonal import OrthogonalFactor

FACTORS = {"gram": GramFactor, "orthogonal": OrthogonalFactor}
every_kind = pytest.mark.parametrize("kind", FACTORS)
every_rule = pytest.mark.parametrize("unit", [False, True], ids=["leading", "unit"])


def factor_of(kind, constant, psi, unit):
    return FACTORS[kind](torch.as_tensor(constant), psi=psi, unit=unit)


def candidates(seed, count, points=50, rank=12, noise=0.05):
    """A constant row (m,) and rows (count, m), many of them close to the span of the others."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(count, rank)) @ random.normal(size=(rank, points)) / rank**0.5
    rows += random.choice([0.0, noise, 4 * noise], size=(count, 1)) * random.normal(size=rows.shape)
    return np.ones(points) / points**0.5, rows / points**0.5


def accepted_rows(factor, k=0):
    return factor.rows[k, : factor.counts[k]].double()


def assert_factorises(factor, kind, psi, unit):
    """L L^T = M M^T - shift I for every set, and what else the path keeps fits to it."""
    shift = psi if unit else 0.0
    for k, o in enumerate(factor.counts):
        M, L = accepted_rows(factor, k), factor.lower[k, :o, :o]
        gram, eye = M @ M.mT, torch.eye(o, dtype=torch.float64)
        if kind == "gram":
            torch.testing.assert_close(L @ L.mT, gram - shift * eye, atol=1e-10, rtol=0)
        else:
            Q, S = factor.basis[k, :o], factor.shifted[k, :o, :o]
            torch.testing.assert_close(Q @ Q.mT, eye, atol=1e-12, rtol=0)
            torch.testing.assert_close(L @ Q, M, atol=1e-12, rtol=0)
            torch.testing.assert_close(S @ S.mT, gram - shift * eye, atol=1e-10, rtol=0)
            torch.testing.assert_close(factor.norms[k, :o, 0], M.norm(dim=1))
        assert not L.triu(1).any()


@every_kind
@every_rule
@pytest.mark.parametrize("panel", [1, 3, 64])
@pytest.mark.parametrize("seed", range(3))
def test_a_block_is_decided_as_one_after_the_other(kind, unit, panel, seed):
    """With more accepted than the first allocation holds (32), in blocks of uneven size."""
    psi = 3e-4
    constant, rows = candidates(seed, 70, rank=30)
    wanted, accepted = decide_in_turn(constant, rows, psi, unit)
    assert 33 < sum(wanted) < 65
    factor = factor_of(kind, constant[None], psi, unit)
    taken = []
    for start, stop in ((0, 5), (5, 41), (41, 70)):
        values = torch.from_numpy(rows[None, start:stop])
        block = factor.decide(values, torch.ones(1, stop - start, dtype=torch.bool), panel)
        assert not block.undecided.any()
        taken += block.accepted[0].tolist()
    assert taken == wanted and factor.counts == [len(accepted)] and factor.size == len(accepted)
    np.testing.assert_allclose(accepted_rows(factor), accepted)
    assert_factorises(factor, kind, psi, unit)


@every_kind
@every_rule
def test_sets_of_a_batch_do_not_know_each_other(kind, unit):
    """Sets of different sizes, padded by zeros, and candidates that do not count."""
    psi, sizes = 1e-3, (40, 25, 6)
    constant, values = np.zeros((3, 40)), np.zeros((3, 30, 40))
    for k, m in enumerate(sizes):
        constant[k, :m], values[k, :, :m] = candidates(k, 30, points=m, rank=8)
    valid = torch.from_numpy(np.random.default_rng(0).random((3, 30)) < 0.7)
    factor = factor_of(kind, constant, psi, unit)
    block = factor.decide(torch.from_numpy(values), valid, 4)
    assert not (block.accepted & ~valid).any()
    for k in range(3):
        keep = valid[k].numpy()
        wanted, accepted = decide_in_turn(constant[k], values[k, keep], psi, unit)
        assert block.accepted[k][valid[k]].tolist() == wanted
        np.testing.assert_allclose(accepted_rows(factor, k), accepted)
    assert_factorises(factor, kind, psi, unit)


@every_kind
@every_rule
def test_coordinates_and_gaps_are_those_of_all_that_was_accepted(kind, unit):
    """L w = M u, and the gap is the Schur complement: a ratio of determinants."""
    psi = 1e-3
    constant, rows = candidates(7, 20, rank=6)
    factor = factor_of(kind, constant[None], psi, unit)
    block = factor.decide(torch.from_numpy(rows[None]), torch.ones(1, 20, dtype=torch.bool), 3)
    M, L = accepted_rows(factor), factor.lower[0, : factor.size, : factor.size]
    shift = psi if unit else 0.0
    gram = (M @ M.mT).numpy() - shift * np.eye(len(M))
    for j in np.flatnonzero(~block.accepted[0].numpy()):
        b, beta = M.numpy() @ rows[j], rows[j] @ rows[j]
        np.testing.assert_allclose(L @ block.coordinates[0, j], b, atol=1e-12)
        np.testing.assert_allclose(block.square[0, j], beta)
        bordered = np.block([[gram, b[:, None]], [b[None], np.array([[beta - shift]])]])
        schur = np.linalg.slogdet(bordered), np.linalg.slogdet(gram)
        ratio = schur[0][0] * np.exp(schur[0][1] - schur[1][1])
        assert float(block.gap[0, j]) == pytest.approx(ratio, rel=1e-6, abs=1e-12)


@every_kind
@every_rule
def test_gaps_of_whole_numbers_are_the_exact_rationals(kind, unit):
    psi = sympy.Rational(1, 256)
    points = [[1, 1, 1, 1], [0, 1, 2, 3], [0, 1, 4, 9], [1, 0, 2, -1]]  # 4 points: sqrt(m) = 2
    rows = [[sympy.Rational(x, 2) for x in row] for row in points]
    gram = [[sum(a * b for a, b in zip(u, v, strict=True)) for v in rows] for u in rows]
    shift = psi if unit else sympy.Rational(0)
    tight = [[g - shift * int(i == j) for j, g in enumerate(row)] for i, row in enumerate(gram)]
    table = torch.tensor([[float(x) for x in row] for row in rows], dtype=torch.float64)
    factor = factor_of(kind, table[:1], float(psi), unit)
    for o in range(1, 4):
        block = factor.screen(table[None, o : o + 1], torch.ones(1, 1, dtype=torch.bool))
        sizes = [sympy.Matrix([row[:n] for row in tight[:n]]).det() for n in (o, o + 1)]
        assert float(block.gap) == pytest.approx(float(sizes[1] / sizes[0]), rel=1e-12)
        factor.decide(block.values, torch.ones(1, 1, dtype=torch.bool), 1)
        assert factor.size == o + 1  # all gaps are far above their thresholds


@every_kind
@every_rule
def test_truncating_forgets_as_if_it_had_never_been(kind, unit):
    psi = 1e-3
    data = [candidates(seed, 24, rank=9) for seed in (3, 4)]
    constant = np.stack([c for c, _ in data])
    values = torch.from_numpy(np.stack([r for _, r in data]))
    every = torch.ones(2, 12, dtype=torch.bool)
    factor, other = (factor_of(kind, constant, psi, unit) for _ in range(2))
    factor.decide(values[:, :12], every, 5)
    kept = [3, factor.counts[1]]
    factor.truncate(kept)
    few = torch.zeros_like(every)
    for k in range(2):
        wanted, _ = decide_in_turn(constant[k], values[k, :12].numpy(), psi, unit)
        few[k, np.flatnonzero(wanted)[: kept[k] - 1]] = True
    other.decide(values[:, :12], few, 5)
    assert factor.counts == other.counts == kept
    again, fresh = (f.decide(values[:, 12:], every, 5) for f in (factor, other))
    assert torch.equal(again.accepted, fresh.accepted)
    torch.testing.assert_close(factor.rows, other.rows)
    assert_factorises(factor, kind, psi, unit)


@every_kind
@pytest.mark.parametrize("share", [1.0, 0.0])
def test_a_forced_term_joins_whatever_its_gap(kind, share):
    """In the span it stays out of the factor, and later decisions are those without it."""
    psi = 1e-3
    constant, rows = candidates(5, 20, rank=6)
    values = torch.from_numpy(rows[None])
    every = torch.ones(1, 10, dtype=torch.bool)
    factor, plain = (factor_of(kind, constant[None], psi, unit=False) for _ in range(2))
    for f in (factor, plain):
        f.decide(values[:, :10], every, 4)
    before = factor.counts[0]
    inside = share * accepted_rows(factor).mean(0)
    factor.force(inside)
    assert factor.counts == [before + 1] and factor.active[0, before] == 0
    assert (factor.active[0, :before] == 1).all()
    torch.testing.assert_close(accepted_rows(factor)[before], inside)
    blocks = [f.decide(values[:, 10:], every, 4) for f in (factor, plain)]
    assert torch.equal(blocks[0].accepted, blocks[1].accepted)
    torch.testing.assert_close(blocks[0].gap, blocks[1].gap, atol=1e-12, rtol=1e-9)


@every_kind
@every_rule
def test_nothing_to_decide(kind, unit):
    constant, rows = candidates(0, 3)
    factor = factor_of(kind, constant[None], 0.01, unit)
    none = factor.decide(torch.zeros(1, 0, 50).double(), torch.zeros(1, 0, dtype=torch.bool), 4)
    assert none.accepted.shape == (1, 0)
    invalid = factor.decide(torch.from_numpy(rows[None]), torch.zeros(1, 3, dtype=torch.bool), 4)
    zeros = factor.decide(torch.zeros(1, 2, 50).double(), torch.ones(1, 2, dtype=torch.bool), 4)
    assert not invalid.accepted.any() and not zeros.accepted.any() and factor.counts == [1]


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_first_true_is_what_a_loop_over_the_rows_finds(count):
    mask = torch.from_numpy(np.random.default_rng(count).random((5, 8)) < 0.4)
    mask[2] = False
    index, chosen = first_true(mask, count)
    for k in range(5):
        wanted = np.flatnonzero(mask[k].numpy())[:count].tolist()
        assert index[k][chosen[k]].tolist() == wanted
        assert not index[k][~chosen[k]].any()
    assert index.shape[1] == min(count, int(mask.sum(1).max()))
    for none in (mask[:, :0], mask[2:3]):
        index, chosen = first_true(none, count)
        assert index.shape == chosen.shape == (len(none), 0)


def test_rows_are_gathered_and_masks_scattered_set_by_set(random):
    table = torch.from_numpy(random.normal(size=(3, 6, 4)))
    index = torch.tensor([[5, 0, 0], [1, 1, 2], [3, 4, 0]])
    flags = torch.tensor([[True, False, True], [True, False, False], [False, False, False]])
    rows, mask = gather_rows(table, index), scatter_mask(index, flags, 6)
    for k in range(3):
        assert torch.equal(rows[k], table[k][index[k]])
        hit = {int(i) for i, yes in zip(index[k], flags[k], strict=True) if yes}
        assert set(mask[k].nonzero()[:, 0].tolist()) == hit
    assert mask.dtype == torch.bool and mask.shape == (3, 6)
