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
(:mod:`vinets.algebra.secular`); on a CPU that is cheaper, and the scheme above takes the rest.

Shapes: ``K`` Gram matrices of size ``o``, ``g`` generators each (padded).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.algebra.growing import first_true, gather_rows
from vinets.algebra.secular import secular_eigenvectors

__all__ = ["smallest_eigenvectors"]

GRID = 8
STEPS = 8
RESTARTS = 3
SMALL = 64  # a decomposition of this size is cheaper than starting the iteration
EIGH_BATCH = 8192  # the GPU solver refuses much larger batches of small matrices


@dataclass(frozen=True)
class _Bordered:
    """Bordered matrices: gram (K, o, o), border (K, g, o), square (K, g), mask (K, g, o)."""

    gram: Tensor
    border: Tensor
    square: Tensor
    mask: Tensor

    def rows(self, index: Tensor) -> _Bordered:
        square = self.square.gather(1, index)
        border, mask = gather_rows(self.border, index), gather_rows(self.mask, index)
        return _Bordered(self.gram, border, square, mask)

    def apply(self, vectors: Tensor) -> Tensor:
        """Product of every bordered matrix with its vector (K, g, o + 1)."""
        head, last = vectors[..., :-1], vectors[..., -1:]
        top = (head @ self.gram + last * self.border) * self.mask
        bottom = (self.border * head).sum(-1, keepdim=True) + last * self.square[..., None]
        return torch.cat([top, bottom], dim=-1)


def smallest_eigenvectors(
    lower: Tensor,
    coordinates: Tensor,
    residual: Tensor,
    prefix: Tensor,
    valid: Tensor,
    psi: float,
    *,
    by_prefix: bool = False,
) -> tuple[Tensor, Tensor]:
    """Unit eigenvectors of the smallest eigenvalues of bordered Gram matrices.

    Parameters
    ----------
    lower : Tensor of shape (K, o, o)
        Cholesky factors of the Gram matrices of the accepted terms.
    coordinates : Tensor of shape (K, g, o)
        Coordinates of the candidates in that factor, ``b L^{-T}``, zero beyond the prefix.
    residual : Tensor of shape (K, g)
        Least-squares residual of the candidate over its prefix, as mean square.
    prefix : Tensor of shape (K, g)
        How many leading terms each candidate may use.
    valid : Tensor of shape (K, g)
        Which of the padded candidates are generators.
    psi : float
        Upper bound on all the eigenvalues, below those of the accepted prefixes.
    by_prefix : bool
        Decompose prefix by prefix whatever the group sizes: slower, and accurate for tiny ``psi``.

    Returns
    -------
    vectors : Tensor of shape (K, g, o + 1)
        Unit vectors, the coefficient of the candidate itself last and positive.
    values : Tensor of shape (K, g)
        The eigenvalues.
    """
    vectors = lower.new_zeros(*residual.shape, lower.shape[-1] + 1)
    values = torch.zeros_like(residual)
    open_ = valid.clone()
    if by_prefix or lower.device.type == "cpu":
        for k in range(len(lower)):
            for size, group in _shared_prefixes(prefix[k], valid[k], by_prefix):
                found, value = secular_eigenvectors(
                    lower[k, :size, :size], coordinates[k, group, :size], residual[k, group], psi
                )
                vectors[k, group, :size], vectors[k, group, -1] = found[:, :size], found[:, size]
                values[k, group] = value
                open_[k, group] = False
    index, chosen = first_true(open_, open_.shape[1])
    if index.shape[1]:
        found, value = _scattered(
            lower,
            gather_rows(coordinates, index),
            residual.gather(1, index),
            prefix.gather(1, index),
            chosen,
            psi,
        )
        _put(vectors, index, chosen, found)
        values[_where(index, chosen)] = value[chosen]
    return vectors, values


def _shared_prefixes(prefix: Tensor, valid: Tensor, every: bool) -> list[tuple[int, Tensor]]:
    """Prefixes shared by enough generators to pay for a decomposition of their own."""
    rows = valid.nonzero()[:, 0]
    sizes, inverse, counts = torch.unique(prefix[rows], return_inverse=True, return_counts=True)
    members = rows[torch.argsort(inverse, stable=True)].split(counts.tolist())
    return [
        (size, group)
        for size, group in zip(sizes.tolist(), members, strict=True)
        if every or size <= SMALL or 4 * len(group) >= size
    ]


def _scattered(
    lower: Tensor, coordinates: Tensor, residual: Tensor, prefix: Tensor, valid: Tensor, psi: float
) -> tuple[Tensor, Tensor]:
    """Brackets and Lanczos for generators with prefixes of their own."""
    mask = torch.arange(lower.shape[-1], device=lower.device) < prefix[..., None]
    least = -torch.linalg.solve_triangular(lower, coordinates, upper=False, left=False)
    vectors = _unit(torch.cat([least, torch.ones_like(residual)[..., None]], dim=-1))
    problem = _Bordered(
        lower @ lower.mT,
        (coordinates @ lower.mT) * mask,
        coordinates.square().sum(-1) + residual,
        mask,
    )
    # the others are eigenvectors to working precision already
    open_ = valid & (residual * vectors[..., -1].square() > psi * 1e-13)
    for shift, factor, members in _brackets(problem, psi, open_):
        index, chosen = first_true(members, members.shape[1])
        found, settled = _lanczos(problem.rows(index), factor, chosen, shift, psi)
        _put(vectors, index, chosen, found)
        if not bool((settled | ~chosen).all()):
            rest = _where(index, chosen & ~settled)
            vectors[rest] = _dense(problem, rest)
    vectors = vectors * torch.where(vectors[..., -1:] < 0, -1.0, 1.0)
    vectors[..., :-1] *= mask  # rounding may leave dust beyond the prefix
    head, last = vectors[..., :-1], vectors[..., -1:]
    # through the factor, so that a small value is not the difference of large ones
    values = (head @ lower + last * coordinates).square().sum(-1)
    return vectors, values + last[..., 0].square() * residual


def _brackets(problem: _Bordered, psi: float, open_: Tensor) -> list[tuple[float, Tensor, Tensor]]:
    """Shift, factor and member mask of every non-empty bracket of the grid."""
    eye = torch.eye(problem.gram.shape[-1], dtype=problem.gram.dtype, device=problem.gram.device)
    bracket = torch.zeros_like(problem.square, dtype=torch.long)
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
            bracket[problem.square - shift - w.square().sum(-1) > 0] = i
    return [
        (shifts[i], factors[i], members)
        for i in range(len(shifts))
        if bool((members := (bracket == i) & open_).any())
    ]


def _lanczos(
    problem: _Bordered, factor: Tensor, chosen: Tensor, shift: float, psi: float
) -> tuple[Tensor, Tensor]:
    """Ritz vectors of the shifted inverse, and which of them are eigenvectors."""
    w = _forward(factor, problem.border, problem.mask)
    schur = problem.square - shift - w.square().sum(-1)
    schur = torch.where(chosen, schur, 1.0)
    vectors = w.new_zeros(*w.shape[:-1], w.shape[-1] + 1)
    vectors[..., -1] = 1.0
    settled = ~chosen
    top = problem.gram.diagonal(dim1=1, dim2=2).sum(-1, keepdim=True)
    for _ in range(RESTARTS):
        index, active = first_true(~settled, settled.shape[1])
        part = problem.rows(index)
        start = gather_rows(vectors, index)
        ritz = _krylov(start, factor, gather_rows(w, index), schur.gather(1, index), part.mask)
        image = part.apply(ritz)
        value = (image * ritz).sum(-1, keepdim=True)
        error = torch.linalg.vector_norm(image - value * ritz, dim=-1)
        _put(vectors, index, active, ritz)
        done = error <= 1e-10 * psi + 1e-14 * top
        settled[_where(index, active & done)] = True
        if bool(settled.all()):
            break
    return vectors, settled


def _krylov(start: Tensor, factor: Tensor, w: Tensor, schur: Tensor, mask: Tensor) -> Tensor:
    """Best vector of the Krylov space of the shifted inverse, fully reorthogonalised."""
    basis, images = [start], []  # each (K, g, o + 1)
    for _ in range(STEPS):
        images.append(_shifted_inverse(basis[-1], factor, w, schur, mask))
        fresh = _unit(images[-1])
        for _ in range(2):
            for known in basis:
                fresh = fresh - (known * fresh).sum(-1, keepdim=True) * known
            fresh = _unit(fresh)
        basis.append(fresh)
    span = torch.stack(basis[:-1], dim=-2)  # (K, g, steps, o + 1)
    small = span @ torch.stack(images, dim=-2).mT
    small = torch.nan_to_num(0.5 * (small + small.mT)).flatten(0, 1)
    weights = torch.cat([torch.linalg.eigh(s)[1][..., -1] for s in small.split(EIGH_BATCH)])
    return _unit((weights.view(*span.shape[:2], 1, -1) @ span)[..., 0, :])


def _shifted_inverse(
    vectors: Tensor, factor: Tensor, w: Tensor, schur: Tensor, mask: Tensor
) -> Tensor:
    """Solve with the bordered, shifted matrices through the factor of the leading block."""
    half = _forward(factor, vectors[..., :-1], mask)
    last = ((vectors[..., -1] - (half * w).sum(-1)) / schur)[..., None]
    head = torch.linalg.solve_triangular(factor, half - last * w, upper=False, left=False)
    return torch.cat([head, last], dim=-1)


def _forward(factor: Tensor, rows: Tensor, mask: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(factor.mT, rows, upper=True, left=False) * mask


def _dense(problem: _Bordered, rest: tuple[Tensor, Tensor], chunk: int = 64) -> Tensor:
    """LAPACK for the rest; entries outside the prefix are pushed to the top of the spectrum."""
    found = []
    for k, j in zip(rest[0].split(chunk), rest[1].split(chunk), strict=True):
        gram, border, mask = problem.gram[k], problem.border[k, j], problem.mask[k, j]
        square = problem.square[k, j][:, None]
        top = 2 * (gram.diagonal(dim1=1, dim2=2).sum(-1, keepdim=True) + square)
        full = gram * (mask[:, :, None] & mask[:, None, :])
        full = full + torch.diag_embed(~mask * top)
        full = torch.cat([full, border[:, None]], dim=1)
        edge = torch.cat([border, square], dim=1)
        found.append(torch.linalg.eigh(torch.cat([full, edge[:, :, None]], dim=2))[1][..., 0])
    return torch.cat(found)


def _where(index: Tensor, flags: Tensor) -> tuple[Tensor, Tensor]:
    """Set and position of every flagged entry of ``index`` (K, q)."""
    sets, slots = flags.nonzero(as_tuple=True)
    return sets, index[sets, slots]


def _put(target: Tensor, index: Tensor, flags: Tensor, rows: Tensor) -> None:
    """Write the flagged ``rows`` (K, q, ·) to their places in ``target``."""
    target[_where(index, flags)] = rows[flags]


def _unit(vectors: Tensor) -> Tensor:
    return torch.nn.functional.normalize(vectors, dim=-1, eps=0.0)
