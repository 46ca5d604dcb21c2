r"""Smallest eigenvectors of many bordered Gram matrices that share their leading blocks.

Generator :math:`j` of the unit rule is the eigenvector of the smallest eigenvalue
:math:`\lambda_j` of

.. math:: \hat G_j = \begin{pmatrix} G_{k_j} & b_j \\ b_j^\top & \beta_j \end{pmatrix},

with :math:`G_k` the leading block of one Gram matrix. It is known that
:math:`0 \le \lambda_j \le \psi < \lambda_{\min}(G_{k_j})`. For a shift :math:`s \le \psi` one
Cholesky factor of :math:`G - sI` serves every prefix, and the sign of the Schur complement
:math:`f_j(s) = \beta_j - s - b_j^\top(G_{k_j} - sI)^{-1}b_j` tells whether
:math:`\lambda_j > s`. So:

1. evaluate :math:`f_j` on the grid :math:`s_i = \psi(1 - 2^{-i})`, which brackets every
   :math:`\lambda_j` such that :math:`\lambda_j - s_i \le \tfrac12(\lambda_{2,j} - s_i)`;
2. run a few Lanczos steps on :math:`(\hat G_j - s_i I)^{-1}` for all generators of a bracket
   together; that separation makes them converge in about a dozen;
3. hand whatever has not converged (eigenvalues equal to many digits) to LAPACK.

Where many generators share their prefix, one decomposition solves them all
(:mod:`vinets.algebra.secular`); the scheme above takes the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.algebra.secular import secular_eigenvectors

__all__ = ["smallest_eigenvectors"]

GRID = 8
STEPS = 8
RESTARTS = 3


@dataclass(frozen=True)
class _Bordered:
    """Rows of bordered matrices of one Gram matrix: b (g, o), beta (g,), mask (g, o)."""

    gram: Tensor  # (o, o)
    border: Tensor  # (g, o)
    square: Tensor  # (g,)
    mask: Tensor  # (g, o)

    def rows(self, index: Tensor) -> _Bordered:
        return _Bordered(self.gram, self.border[index], self.square[index], self.mask[index])

    def apply(self, vectors: Tensor) -> Tensor:
        """Product of every bordered matrix with its vector (g, o + 1)."""
        head, last = vectors[:, :-1], vectors[:, -1:]
        top = (head @ self.gram + last * self.border) * self.mask
        bottom = (self.border * head).sum(1, keepdim=True) + last * self.square[:, None]
        return torch.cat([top, bottom], dim=1)


def smallest_eigenvectors(
    lower: Tensor,
    coordinates: Tensor,
    residual: Tensor,
    prefix: Tensor,
    psi: float,
    *,
    sequential: bool = False,
) -> tuple[Tensor, Tensor]:
    """Unit eigenvectors of the smallest eigenvalues of bordered Gram matrices.

    Parameters
    ----------
    lower : Tensor of shape (o, o)
        Cholesky factor of the Gram matrix of the accepted terms.
    coordinates : Tensor of shape (g, o)
        Coordinates of the candidates in that factor, ``b L^{-T}``.
    residual : Tensor of shape (g,)
        Least-squares residual of the candidate over its prefix, as mean square.
    prefix : Tensor of shape (g,)
        How many leading terms each candidate may use.
    psi : float
        Upper bound on all the eigenvalues, below those of the accepted prefixes.
    sequential : bool
        Decompose prefix by prefix whatever the group sizes: slower, and accurate for tiny ``psi``.

    Returns
    -------
    vectors : Tensor of shape (g, o + 1)
        Unit vectors, the coefficient of the candidate itself last and positive.
    values : Tensor of shape (g,)
        The eigenvalues.
    """
    size = lower.shape[0]
    coordinates = coordinates * (torch.arange(size, device=lower.device) < prefix[:, None])
    vectors = lower.new_zeros(len(residual), size + 1)
    values = torch.zeros_like(residual)
    scattered = torch.ones_like(prefix, dtype=torch.bool)
    for k, group in _groups(prefix, sequential or lower.device.type == "cpu", sequential):
        block = secular_eigenvectors(lower[:k, :k], coordinates[group, :k], residual[group], psi)
        vectors[group, :k], vectors[group, -1] = block[0][:, :k], block[0][:, k]
        values[group] = block[1]
        scattered[group] = False
    rest = scattered.nonzero()[:, 0]
    if len(rest):
        block = _scattered(lower, coordinates[rest], residual[rest], prefix[rest], psi)
        vectors[rest], values[rest] = block
    return vectors, values


def _groups(prefix: Tensor, allowed: bool, every: bool) -> list[tuple[int, Tensor]]:
    """Prefixes shared by enough generators to pay for a decomposition of their own."""
    if not allowed:
        return []
    sizes, inverse, counts = torch.unique(prefix, return_inverse=True, return_counts=True)
    order = torch.argsort(inverse, stable=True)
    members = order.split(counts.tolist())
    return [
        (k, rows)
        for k, rows in zip(sizes.tolist(), members, strict=True)
        if every or 4 * len(rows) >= k
    ]


def _scattered(
    lower: Tensor, coordinates: Tensor, residual: Tensor, prefix: Tensor, psi: float
) -> tuple[Tensor, Tensor]:
    """Brackets and Lanczos for generators with prefixes of their own."""
    mask = torch.arange(lower.shape[0], device=lower.device) < prefix[:, None]
    least = -torch.linalg.solve_triangular(lower, coordinates, upper=False, left=False)
    vectors = _unit(torch.cat([least, torch.ones_like(residual)[:, None]], dim=1))
    problem = _Bordered(
        lower @ lower.mT,
        (coordinates @ lower.mT) * mask,
        coordinates.square().sum(1) + residual,
        mask,
    )
    # the others are eigenvectors to working precision already
    open_ = residual * vectors[:, -1].square() > psi * 1e-13
    for shift, factor, members in _brackets(problem, residual, psi, open_):
        found, settled = _lanczos(problem.rows(members), factor, shift, psi)
        vectors[members] = found
        if not bool(settled.all()):
            rest = members[~settled]
            vectors[rest] = _dense(problem.rows(rest))
    vectors = vectors * torch.where(vectors[:, -1:] < 0, -1.0, 1.0)
    head, last = vectors[:, :-1], vectors[:, -1:]
    # through the factor, so that a small value is not the difference of large ones
    values = (head @ lower + last * coordinates).square().sum(1) + last[:, 0].square() * residual
    return vectors, values


def _brackets(
    problem: _Bordered, residual: Tensor, psi: float, open_: Tensor
) -> list[tuple[float, Tensor, Tensor]]:
    """Shift, factor and member rows of every non-empty bracket of the grid."""
    eye = torch.eye(len(problem.gram), dtype=problem.gram.dtype, device=problem.gram.device)
    bracket = torch.zeros_like(residual, dtype=torch.long)
    shifts, factors = [], []
    for i in range(GRID):
        shift = psi * (1 - 2.0**-i)
        factor, failed = torch.linalg.cholesky_ex(problem.gram - shift * eye)
        if bool(failed.any()):
            break
        shifts.append(shift)
        factors.append(factor)
        if i > 0:
            w = _forward(factor, problem.border, problem.mask)
            bracket[problem.square - shift - w.square().sum(1) > 0] = i
    return [
        (shifts[i], factors[i], members)
        for i in range(len(shifts))
        if len(members := ((bracket == i) & open_).nonzero()[:, 0])
    ]


def _lanczos(
    problem: _Bordered, factor: Tensor, shift: float, psi: float
) -> tuple[Tensor, Tensor]:
    """Ritz vectors of the shifted inverse, and which of them are eigenvectors."""
    w = _forward(factor, problem.border, problem.mask)
    schur = problem.square - shift - w.square().sum(1)
    start = torch.zeros(len(w), w.shape[1] + 1, dtype=w.dtype, device=w.device)
    start[:, -1] = 1.0
    settled = torch.zeros(len(w), dtype=torch.bool, device=w.device)
    tolerance = 1e-10 * psi + 1e-14 * float(problem.gram.diagonal().sum())
    for _ in range(RESTARTS):
        rows = (~settled).nonzero()[:, 0]
        part = problem.rows(rows)
        ritz = _krylov(start[rows], factor, w[rows], schur[rows], part.mask)
        image = part.apply(ritz)
        value = (image * ritz).sum(1, keepdim=True)
        error = torch.linalg.vector_norm(image - value * ritz, dim=1)
        start[rows] = ritz
        settled[rows] = error <= tolerance
        if bool(settled.all()):
            break
    return start, settled


def _krylov(start: Tensor, factor: Tensor, w: Tensor, schur: Tensor, mask: Tensor) -> Tensor:
    """Best vector of the Krylov space of the shifted inverse, fully reorthogonalised."""
    basis = start[:, None]  # (g, steps, o + 1)
    images: list[Tensor] = []
    for _ in range(STEPS):
        image = _shifted_inverse(basis[:, -1], factor, w, schur, mask)
        images.append(image)
        fresh = _unit(image)
        for _ in range(2):
            overlap = torch.bmm(basis, fresh[:, :, None])
            fresh = _unit(fresh - torch.bmm(overlap.mT, basis)[:, 0])
        basis = torch.cat([basis, fresh[:, None]], dim=1)
    span, mapped = basis[:, :-1], torch.stack(images, dim=1)
    small = torch.bmm(span, mapped.mT)
    small = torch.nan_to_num(0.5 * (small + small.mT))
    weights = torch.linalg.eigh(small)[1][:, :, -1]
    return _unit(torch.bmm(weights[:, None], span)[:, 0])


def _shifted_inverse(
    vectors: Tensor, factor: Tensor, w: Tensor, schur: Tensor, mask: Tensor
) -> Tensor:
    """Solve with the bordered, shifted matrices through the factor of the leading block."""
    half = _forward(factor, vectors[:, :-1], mask)
    last = (vectors[:, -1] - (half * w).sum(1)) / schur
    head = torch.linalg.solve_triangular(factor, half - last[:, None] * w, upper=False, left=False)
    return torch.cat([head, last[:, None]], dim=1)


def _forward(factor: Tensor, rows: Tensor, mask: Tensor) -> Tensor:
    solved = torch.linalg.solve_triangular(factor.mT, rows, upper=True, left=False)
    return solved * mask


def _dense(problem: _Bordered, chunk: int = 64) -> Tensor:
    """LAPACK for the rest; entries outside the prefix are pushed to the top of the spectrum."""
    top = 2 * float(problem.gram.diagonal().sum() + problem.square.max())
    found = []
    for part in torch.arange(len(problem.square), device=problem.square.device).split(chunk):
        rows = problem.rows(part)
        inside = (rows.mask[:, :, None] & rows.mask[:, None, :]).to(rows.gram.dtype)
        full = torch.diag_embed((~rows.mask).to(rows.gram.dtype) * top) + inside * rows.gram
        border = torch.cat([rows.border, rows.square[:, None]], dim=1)
        full = torch.cat([full, rows.border[:, None]], dim=1)
        full = torch.cat([full, border[:, :, None]], dim=2)
        found.append(torch.linalg.eigh(full)[1][:, :, 0])
    return torch.cat(found)


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1, eps=0.0)
