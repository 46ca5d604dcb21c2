"""The orthonormal factor: what it can decide and a Gram matrix cannot."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vinets.algebra.orthogonal import OrthogonalFactor

every_rule = pytest.mark.parametrize("unit", [False, True], ids=["leading", "unit"])


def started(m, psi, unit, dtype=torch.float64, sets=1):
    return OrthogonalFactor(torch.full((sets, m), m**-0.5, dtype=dtype), psi=psi, unit=unit)


def decide(factor, rows, panel=4):
    values = torch.as_tensor(np.asarray(rows)).to(factor.rows.dtype)[None]
    every = torch.ones(values.shape[:2], dtype=torch.bool)
    return factor.decide(values, every, panel).accepted[0].tolist()


@every_rule
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_at_psi_zero_only_what_lies_in_the_span_vanishes(unit, scale, random):
    """Combinations of the rows before vanish; the same with 1e-11 of something new do not."""
    m = 50
    basis = random.normal(size=(6, m)) * scale / m**0.5
    factor = started(m, 0.0, unit)
    assert decide(factor, basis) == [True] * 6
    mixtures = random.normal(size=(8, 6)) @ basis
    assert decide(factor, mixtures) == [False] * 8
    new = mixtures + 1e-11 * scale * random.normal(size=mixtures.shape)
    assert decide(factor, new) == [True] * 8


@every_rule
def test_tiny_tolerances_are_kept_to(unit, random):
    """psi = 1e-18: residuals of 1e-10 and 1e-8 in size lie on the two sides of it."""
    m, psi = 64, 1e-18
    factor = started(m, psi, unit)
    basis = np.linalg.qr(random.normal(size=(m, 9)))[0].T
    basis[0] = m**-0.5
    basis = np.linalg.qr(basis.T)[0].T  # orthonormal, the constant first
    assert decide(factor, basis[1:4]) == [True] * 3
    inside = 0.5 * basis[1] + 0.2 * basis[3]
    near, far = inside + 1e-10 * basis[4], inside + 1e-8 * basis[5]
    assert decide(factor, [near, far, near]) == [False, True, False]


@every_rule
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_an_ill_conditioned_chain_stays_orthonormal(unit, dtype):
    """Powers of one variable: condition number 1e9 and more, where one projection is too few."""
    m = 60
    t = np.linspace(-1, 1, m)
    factor = started(m, 1e-16, unit, dtype)
    accepted = decide(factor, [t**d / m**0.5 for d in range(1, 22)], panel=7)
    o = factor.size
    assert sum(accepted) == o - 1 > 15
    Q, M = factor.basis[0, :o], factor.rows[0, :o].double()
    torch.testing.assert_close(Q @ Q.mT, torch.eye(o, dtype=torch.float64), atol=1e-13, rtol=0)
    torch.testing.assert_close(factor.lower[0, :o, :o] @ Q, M, atol=1e-13, rtol=0)
    diagonal = np.abs(np.diag(np.linalg.qr(M.numpy().T)[1]))
    np.testing.assert_allclose(factor.lower[0].diagonal()[:o], diagonal, rtol=1e-4)


def test_the_gap_of_the_unit_rule_is_its_formula(random):
    m, psi = 30, 0.01
    factor = started(m, psi, unit=True)
    decide(factor, random.normal(size=(5, m)) / m**0.5)
    u = random.normal(size=(3, m)) / m**0.5
    block = factor.screen(torch.from_numpy(u)[None], torch.ones(1, 3, dtype=torch.bool))
    M = factor.rows[0, : factor.size].numpy()
    gram = M @ M.T
    for j in range(3):
        c = np.linalg.lstsq(M.T, u[j], rcond=None)[0]
        rest = np.sum((u[j] - c @ M) ** 2)
        inverse = np.linalg.inv(gram - psi * np.eye(len(M)))
        gap = rest - psi * (1 + c @ c + psi * c @ inverse @ c)
        assert float(block.gap[0, j]) == pytest.approx(gap, rel=1e-9)
        np.testing.assert_allclose(block.residual[0, j], u[j] - c @ M, atol=1e-13)


@every_rule
def test_a_row_forced_from_inside_the_span_leaves_the_basis_alone(unit, random):
    m = 40
    factor = started(m, 0.01, unit)
    decide(factor, random.normal(size=(4, m)) / m**0.5)
    before, basis = factor.size, factor.basis.clone()
    factor.force(factor.rows[0, 1] - 2 * factor.rows[0, 3])
    assert factor.counts == [before + 1]
    assert factor.active[0, : before + 1].tolist() == [1] * before + [0]
    torch.testing.assert_close(factor.basis[0, : before + 1], basis[0, : before + 1])
    factor.truncate([before])
    assert (factor.active == 1).all() and not factor.rows[0, before:].any()
    assert not factor.norms[0, before:].any()
    eye = torch.eye(factor.shifted.shape[-1], dtype=torch.float64)
    assert torch.equal(factor.shifted[0, before:], eye[before:])


def test_a_row_is_forced_by_its_size_and_not_by_the_tolerance(random):
    m = 40
    factor = started(m, 0.5, unit=False)
    q = np.linalg.qr(np.column_stack([np.ones(m), random.normal(size=(m, 2))]))[0].T
    for size in (1e-11, 1e-3):
        factor.force(torch.from_numpy(q[1] + size * q[2] if size < 1e-6 else size * q[2]))
    assert factor.counts == [3] and (factor.active[0, :3] == 1).all()
    np.testing.assert_allclose(factor.lower[0, 2, 2], 1e-3)
