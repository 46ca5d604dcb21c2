r"""Smallest eigenvectors of bordered Gram matrices on a GPU, by rational Krylov spaces.

The problem is that of :mod:`vinets.algebra.eigen`, for many point sets together. Decompositions of
small matrices are slow on a GPU; this makes do with triangular solves. For a shift
:math:`s \le \psi` one Cholesky factor of :math:`G - sI` serves every prefix, and gives

.. math:: x_j(s) = \begin{pmatrix} -(G_{k_j} - sI)^{-1} b_j \\ 1 \end{pmatrix}
          \quad\text{for all } j, \text{ of which } x_j(\lambda_j) \text{ is the eigenvector.}

As a function of :math:`s` it is rational, with its poles beyond :math:`\psi`. So:

1. compute :math:`x_j` for eleven shifts that crowd towards :math:`\psi`, all generators together;
2. take the best vector of their span, by the small eigenvalue problem in it (Rayleigh-Ritz on a
   rational Krylov space);
3. repeat this from where it has not converged, with :math:`(\hat G_j - sI)^{-1}` of the vector
   found instead of :math:`x_j(s)`, and hand what is left to LAPACK (eigenvalues equal to many
   digits).

Shapes: ``K`` Gram matrices of size ``o``, ``g`` generators each (padded).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.algebra.growing import first_true, gather_rows

SHIFTS = (1 - 0.5 ** torch.arange(10)).tolist()  # shares of psi; psi itself is one more shift
MAX_ROUNDS = 3  # each starts from the best vectors so far that have not settled
DEPENDENT_NORM = 1e-14  # what is left of a unit vector outside the span of others is rounding
MAX_DENSE_NUMBERS = 1 << 23  # numbers in the matrices that LAPACK decomposes at once
MAX_EIGH_MATRICES = 8192  # the GPU solver refuses much larger batches of small matrices


@dataclass(frozen=True)
class _BorderedMatrices:
    """Bordered matrices: gram (K, o, o), border (K, g, o), square (K, g), mask (K, g, o)."""

    gram: Tensor
    border: Tensor
    square: Tensor
    mask: Tensor

    def rows(self, index: Tensor) -> _BorderedMatrices:
        square = self.square.gather(1, index)
        border, mask = gather_rows(self.border, index), gather_rows(self.mask, index)
        return _BorderedMatrices(self.gram, border, square, mask)

    def apply(self, vectors: Tensor) -> Tensor:
        """Multiply every bordered matrix by its vector (K, g, o + 1)."""
        head, last = vectors[..., :-1], vectors[..., -1:]
        top = (head @ self.gram + last * self.border) * self.mask
        bottom = (self.border * head).sum(-1, keepdim=True) + last * self.square[..., None]
        return torch.cat([top, bottom], dim=-1)


def batched_eigenvectors(
    lower: Tensor, coordinates: Tensor, square: Tensor, prefix: Tensor, valid: Tensor, psi: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the eigenvectors of :func:`~vinets.algebra.eigen.smallest_eigenvectors` for ``K`` sets.

    All arguments have a leading dimension ``K``; ``lower`` are Cholesky factors of
    ``G - psi * I``, and ``valid`` (K, g) tells padded candidates from real ones.
    """
    eye = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    mask = torch.arange(lower.shape[-1], device=lower.device) < prefix[..., None]
    border = (coordinates @ lower.mT) * mask
    gram = lower @ lower.mT + psi * eye
    problem = _BorderedMatrices(gram, border, square, mask)
    # the factor of G, because the residuals in it are those of least squares
    whole = torch.linalg.cholesky(gram)
    coordinates = _forward(whole, border, mask)
    residual = (square - coordinates.square().sum(-1)).clamp(min=0)
    least = -torch.linalg.solve_triangular(whole, coordinates, upper=False, left=False)
    vectors = _unit(torch.cat([least, torch.ones_like(residual)[..., None]], dim=-1))
    # the others are eigenvectors to working precision already
    open_ = valid & (residual * vectors[..., -1].square() > psi * 1e-13)
    for turn in range(MAX_ROUNDS):
        index, chosen = first_true(open_, open_.shape[1])
        if not bool(chosen.any()):
            break
        part, start = problem.rows(index), gather_rows(vectors, index) if turn else None
        found = _ritz(part, _factors(gram, lower, psi), start)
        sets, slots = chosen.nonzero(as_tuple=True)
        at = sets, index[sets, slots]
        # Vectors have settled by the residual of the matrix itself, not of its inverse: it bounds
        # the error of the value.
        image = part.apply(found)
        value = (image * found).sum(-1, keepdim=True)
        error = torch.linalg.vector_norm(image - value * found, dim=-1)
        top = gram.diagonal(dim1=1, dim2=2).sum(-1, keepdim=True)
        vectors[at], open_[at] = found[chosen], ~(error <= 1e-9 * psi + 1e-14 * top)[chosen]
    if bool(open_.any()):
        sets, positions = open_.nonzero(as_tuple=True)
        vectors[sets, positions] = _dense(problem, (sets, positions))
    vectors = vectors * torch.where(vectors[..., -1:] < 0, -1.0, 1.0)
    vectors[..., :-1] *= mask  # rounding may leave dust beyond the prefix
    head, last = vectors[..., :-1], vectors[..., -1]
    # through the factor, so that a small value is not the difference of large ones
    values = (head @ whole + last[..., None] * coordinates).square().sum(-1)
    return head, last, values + last.square() * residual


def _factors(gram: Tensor, lower: Tensor, psi: float) -> Iterator[tuple[float, Tensor]]:
    """Yield shifts with the Cholesky factors of ``G`` less them; that of ``psi`` is given."""
    yield psi, lower
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    for share in SHIFTS:
        factor, failed = torch.linalg.cholesky_ex(gram - share * psi * eye)
        if bool(failed.any()):  # shifts close to psi may lie within rounding of an eigenvalue of G
            return
        yield share * psi, factor


def _ritz(
    problem: _BorderedMatrices, factors: Iterable[tuple[float, Tensor]], start: Tensor | None
) -> Tensor:
    """Find the best vector in the span of shifted inverses of ``start`` or the last unit vector."""
    n_sets, g, o = problem.border.shape
    width = 1 + len(SHIFTS)
    basis = problem.border.new_zeros(n_sets, g, width, o + 1)
    # zeros in the places of vectors are not to be the best of them
    top = problem.gram.diagonal(dim1=1, dim2=2).sum(-1, keepdim=True) + problem.square
    small = torch.diag_embed(top[..., None].expand(-1, -1, width))
    for j, (shift, factor) in enumerate(factors):
        fresh, known = _unit(_shifted_inverse(problem, start, shift, factor)), basis[:, :, :j]
        for _ in range(2):  # twice is enough: once leaves what cancellation has hidden
            overlap = fresh[..., None, :] @ known.mT  # (K, g, 1, j)
            fresh = fresh - (overlap @ known)[..., 0, :]
            size = torch.linalg.vector_norm(fresh, dim=-1, keepdim=True)
            fresh = torch.where(size > DEPENDENT_NORM, fresh / size, 0.0)  # NaN is not larger
        basis[:, :, j] = fresh
        image = problem.apply(fresh)[..., None, :]
        small[:, :, j, : j + 1] = (image @ basis[:, :, : j + 1].mT)[..., 0, :]
        small[:, :, j, j] += torch.where(size[..., 0] > DEPENDENT_NORM, 0.0, top)
    flat = small.flatten(0, 1)  # eigh reads the lower triangles
    weights = torch.cat(
        [torch.linalg.eigh(part)[1][..., 0] for part in flat.split(MAX_EIGH_MATRICES)]
    )
    return _unit((weights.view(n_sets, g, 1, -1) @ basis)[..., 0, :])


def _shifted_inverse(
    problem: _BorderedMatrices, vectors: Tensor | None, shift: float, factor: Tensor
) -> Tensor:
    """Solve with the bordered, shifted matrices, up to a factor that may be 0; see the module.

    ``vectors`` (K, g, o + 1), None for the last unit vector; ``factor`` (K, o, o) is that of the
    leading blocks.
    """
    w = _forward(factor, problem.border, problem.mask)
    if vectors is None:
        head, last = -w, torch.ones_like(w[..., :1])
    else:
        half = _forward(factor, vectors[..., :-1], problem.mask)
        schur = (problem.square - shift - w.square().sum(-1))[..., None]
        last = vectors[..., -1:] - (half * w).sum(-1, keepdim=True)
        head = half * schur - last * w
    head = torch.linalg.solve_triangular(factor, head, upper=False, left=False)
    return torch.cat([head, last], dim=-1)


def _forward(factor: Tensor, rows: Tensor, mask: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(factor.mT, rows, upper=True, left=False) * mask


def _dense(problem: _BorderedMatrices, rest: tuple[Tensor, Tensor]) -> Tensor:
    """Leave the rest to LAPACK; entries outside the prefix go to the top of the spectrum."""
    size = problem.gram.shape[-1] + 1
    # at least some, because a call costs what many cost
    chunk = max(64, min(MAX_EIGH_MATRICES, MAX_DENSE_NUMBERS // size**2))
    found = []
    for k, j in zip(rest[0].split(chunk), rest[1].split(chunk), strict=True):
        gram, border, mask = problem.gram[k], problem.border[k, j], problem.mask[k, j]
        square = problem.square[k, j][:, None]
        top = 2 * (gram.diagonal(dim1=1, dim2=2).sum(-1, keepdim=True) + square)
        full = gram * (mask[:, :, None] & mask[:, None, :])
        # above the trace, so that the smallest eigenvector has no part outside the prefix
        full = full + torch.diag_embed(~mask * top)
        full = torch.cat([full, border[:, None]], dim=1)
        edge = torch.cat([border, square], dim=1)
        found.append(torch.linalg.eigh(torch.cat([full, edge[:, :, None]], dim=2))[1][..., 0])
    return torch.cat(found)


def _unit(vectors: Tensor) -> Tensor:
    return vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
