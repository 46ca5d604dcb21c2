"""The Cholesky factor of a growing Gram matrix: its own algorithms, and its precisions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference import decide_in_turn

import vinets.algebra.gram as gram
from vinets.algebra.gram import GramFactor
from vinets.algebra.growing import inner

EPS = {torch.float64: 1e-14, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


@pytest.mark.parametrize("dtype", EPS)
def test_inner_products_are_accumulated_in_float32_at_least(dtype, random):
    left = torch.from_numpy(random.normal(size=(2, 5, 4000))).to(dtype)
    right = torch.from_numpy(random.normal(size=(2, 3, 4000))).to(dtype)
    found = inner(left, right)
    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    wanted = np.einsum("kim,kjm->kij", left.double().numpy(), right.double().numpy())
    rough = 1e-13 if dtype == torch.float64 else 1e-6  # half sums would be off by 1e-3 and more
    np.testing.assert_allclose(found, wanted, atol=rough * 4000)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("unit", [False, True], ids=["leading", "unit"])
def test_rows_stored_in_any_precision_are_decided_as_the_rows_they_round_to(dtype, unit, random):
    psi, m = 5e-3, 40
    rows = random.normal(size=(25, 8)) @ random.normal(size=(8, m)) / (8 * m) ** 0.5
    rows += random.choice([0, 0.05], size=(25, 1)) * random.normal(size=rows.shape) / m**0.5
    constant = torch.full((1, m), m**-0.5, dtype=dtype)
    stored = torch.from_numpy(rows).to(dtype)
    factor = GramFactor(constant, psi=psi, unit=unit)
    assert factor.rows.dtype == dtype and factor.lower.dtype == torch.float64
    block = factor.decide(stored[None], torch.ones(1, 25, dtype=torch.bool), 6)
    wanted, accepted = decide_in_turn(
        constant[0].double().numpy(), stored.double().numpy(), psi, unit
    )
    assert block.accepted[0].tolist() == wanted and 2 < sum(wanted) < 25
    o = factor.size
    L, G = factor.lower[0, :o, :o], torch.from_numpy(accepted @ accepted.T)
    shift = psi * torch.eye(o, dtype=torch.float64) if unit else 0.0
    exact = 1e-13 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(L @ L.mT, G - shift, atol=10 * exact, rtol=0)


def plain_skip_pivot(matrix, threshold):
    """One matrix, one pivot after the other; a pivot at or below the threshold is left out."""
    schur, order, columns = matrix.copy(), [], []
    for i in range(len(matrix)):
        if schur[i, i] > threshold:
            column = schur[:, i] / schur[i, i] ** 0.5
            schur -= np.outer(column, column)
            order.append(i)
            columns.append(column)
    return order, np.array(columns).reshape(len(order), len(matrix)).T


@pytest.mark.parametrize("threshold", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_elimination_skips_small_pivots_and_no_others(seed, threshold):
    random = np.random.default_rng(seed)
    factors = random.normal(size=(4, 7, 7)) * random.choice([0.05, 1.0], size=(4, 7, 1))
    factors[1, 3:] = factors[1, :4]  # a matrix of low rank
    matrices = factors @ factors.transpose(0, 2, 1) / 7
    matrices[2] = 0
    if threshold == 0.0:
        matrices += 1e-9 * np.eye(7)  # else rounding decides on the pivots that are zero
    order, columns = gram._skip_pivot_cholesky(torch.from_numpy(matrices.copy()), threshold)
    for k in range(4):
        wanted, table = plain_skip_pivot(matrices[k], threshold)
        steps = len(wanted)
        assert order[k, :steps].tolist() == wanted and (order[k, steps:] == -1).all()
        # columns after the last step of a set are zero; entries above a pivot belong to nobody
        for t, pivot in enumerate(wanted):
            np.testing.assert_allclose(columns[k, pivot:, t], table[pivot:, t], atol=1e-7)
        assert not columns[k, :, steps:].any()


def test_nothing_to_eliminate():
    order, columns = gram._skip_pivot_cholesky(-torch.eye(3).double().repeat(2, 1, 1), 0.0)
    assert order.shape == (2, 0) and columns.shape == (2, 3, 0)


@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_a_panel_accepted_whole_is_the_plain_factorisation(threshold, random):
    """The shortcut and the elimination agree, also where only one of the sets passes whole."""
    rows = random.normal(size=(2, 5, 9))
    schur = torch.from_numpy(rows @ rows.transpose(0, 2, 1) / 9) + threshold * torch.eye(5)
    every = torch.ones(2, 5, dtype=torch.bool)
    order, lower = gram._eliminate(schur.clone(), every, threshold)
    assert order.tolist() == [list(range(5))] * 2
    torch.testing.assert_close(lower.tril(), torch.linalg.cholesky(schur))
    slow_order, slow = gram._skip_pivot_cholesky(schur.clone(), threshold)
    assert torch.equal(order, slow_order)
    torch.testing.assert_close(slow.tril(), lower.tril())
    schur[1, 2] = schur[1, 1]
    schur[1, :, 2] = schur[1, :, 1]
    schur[1, 2, 2] = schur[1, 1, 1]  # the third is the second again
    order, _ = gram._eliminate(schur.clone(), every, max(threshold, 1e-9))
    assert order.tolist() == [[0, 1, 2, 3, 4], [0, 1, 3, 4, -1]]


def test_candidates_that_were_not_chosen_are_not_eliminated(random):
    rows = random.normal(size=(1, 4, 9))
    schur = torch.from_numpy(rows @ rows.transpose(0, 2, 1))
    chosen = torch.tensor([[True, False, True, False]])
    order, columns = gram._eliminate(schur.clone(), chosen, 0.0)
    assert order.tolist() == [[0, 2]]
    small = torch.linalg.cholesky(schur[:, [0, 2]][:, :, [0, 2]])
    torch.testing.assert_close(columns[:, [0, 2]].tril(), small)
    assert not columns[:, [1, 3]].any()


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_a_forced_term_is_dependent_by_its_own_size(scale, random):
    """What rounding leaves of a term in the span is none, whether the term is small or large."""
    m = 60
    factor = GramFactor(torch.full((1, m), m**-0.5, dtype=torch.float64), psi=0.1, unit=False)
    first = torch.from_numpy(random.normal(size=m)) * scale / m**0.5
    factor.force(first)
    factor.force(0.3 * first - 0.7 * scale * factor.rows[0, 0])
    assert factor.counts == [3] and factor.active[0, :3].tolist() == [1, 1, 0]
    off = first + 1e-3 * scale * torch.from_numpy(random.normal(size=m)) / m**0.5
    factor.force(off)
    assert factor.counts == [4] and factor.active[0, 3] == 1
    assert factor.lower[0, 3, 2] == 0  # nothing along the dependent term
    kept = factor.rows[0, [0, 1, 3]]
    L = factor.lower[0][[0, 1, 3]][:, [0, 1, 3]]
    torch.testing.assert_close(L @ L.mT, kept @ kept.mT, rtol=1e-9, atol=1e-9 * scale**2)
