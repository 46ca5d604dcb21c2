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
(:mod:`vinets.algebra.secular`); on a CPU that is cheaper, small prefixes are decomposed together,
and the scheme above takes the rest. On a GPU, where small decompositions are slow, it takes
everything.

Shapes: ``K`` Gram matrices of size ``o``, ``g`` generators each (padded).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.algebra.growing import first_true, gather_rows
from vinets.algebra.secular import Spectrum, secular_eigenvectors, stacked_eigenvectors

GRID = 8  # shifts, the last at psi (1 - 2^-7)
STEPS = 10  # of Lanczos, fully reorthogonalised
RESTARTS = 3  # each from the best vector so far, of those that have not settled
PAYS = 6  # decompose a prefix of size k if at least k / PAYS generators share it
FEW = 128  # so few generators of a small prefix are solved together with those of others
SMALL = 64  # a decomposition of this size is cheaper than starting the iteration
DENSE_NUMBERS = 1 << 23  # in matrices that LAPACK decomposes at once
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
    square: Tensor,
    prefix: Tensor,
    psi: float,
    *,
    residual: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Unit eigenvectors for one point set, generators in the order found.

    ``lower`` (o, o) is the Cholesky factor of ``G - psi * I``, and ``coordinates`` (g, o) are those
    of the candidates in it, ``b L^{-T}``, zero beyond the prefix: they are overwritten by the
    coefficients. ``square`` (g,) holds the squared norms of the candidates, ``prefix`` (g,) how
    many leading terms each may use, non-decreasing. ``psi`` bounds all the eigenvalues from above,
    and lies below those of the accepted prefixes.

    Where the least-squares residuals over the prefix are known without cancellation, as
    ``residual`` (g,), ``lower`` is the factor of ``G`` itself. Every prefix is then decomposed by
    singular values, which is slower, and accurate for tiny ``psi``.

    Returns the coefficients over the terms (g, o), those of the candidates themselves (g,), which
    are positive, and the eigenvalues (g,).
    """
    # In place: every row of coordinates is read for the last time just before its coefficients
    # are written there, and a second table of that size might not fit.
    tail, lead, values = coordinates, torch.zeros_like(square), square.clone()
    scattered: list[Tensor] = []
    stacked: list[Tensor] = []
    gram = lower @ lower.mT
    gram.diagonal().add_(psi)  # unused where residuals are given: the factor is that of G then
    sizes, counts = torch.unique_consecutive(prefix, return_counts=True)
    start = 0
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        rows = slice(start, start + count)
        start += count
        # Alone, a prefix costs one decomposition however few share it. Tiny ones are decomposed in
        # one batch with others; large ones that few share are cheaper by iteration.
        with_others = count <= FEW if size <= SMALL else PAYS * count < size
        if residual is None and with_others:
            group = stacked if size <= SMALL else scattered
            group.append(torch.arange(rows.start, rows.stop, device=lower.device))
            continue
        block = lower[:size, :size]
        if residual is None:
            spectrum, known = Spectrum.of_gram(gram[:size, :size], block), None
        else:
            spectrum, known = Spectrum.of_factor(block), residual[rows]
        tail[rows, :size], lead[rows], values[rows] = secular_eigenvectors(
            spectrum, coordinates[rows, :size], square[rows], known, psi
        )
    if stacked:
        at = torch.cat(stacked)
        o = int(prefix[at[-1]])  # the largest, for prefixes do not decrease
        tail[at, :o], lead[at], values[at] = stacked_eigenvectors(
            gram[:o, :o], lower[:o, :o], coordinates[at, :o], square[at], prefix[at], psi
        )
    if scattered:
        at = torch.cat(scattered)
        every = torch.ones(1, len(at), dtype=torch.bool, device=lower.device)
        found = batched_eigenvectors(
            lower[None], coordinates[None, at], square[None, at], prefix[None, at], every, psi
        )
        tail[at], lead[at], values[at] = (part[0] for part in found)
    return tail, lead, values


def batched_eigenvectors(
    lower: Tensor, coordinates: Tensor, square: Tensor, prefix: Tensor, valid: Tensor, psi: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for ``K`` point sets at once, by brackets and Lanczos: what suits a GPU.

    All arguments have a leading dimension ``K``; ``lower`` are Cholesky factors of
    ``G - psi * I``, and ``valid`` (K, g) tells padded candidates from real ones.
    """
    eye = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    mask = torch.arange(lower.shape[-1], device=lower.device) < prefix[..., None]
    border = (coordinates @ lower.mT) * mask
    gram = lower @ lower.mT + psi * eye
    problem = _Bordered(gram, border, square, mask)
    # from the factor of G - psi I to that of G, in which residuals are those of least squares
    whole = torch.linalg.cholesky(gram)
    coordinates = _forward(whole, border, mask)
    residual = (square - coordinates.square().sum(-1)).clamp(min=0)
    least = -torch.linalg.solve_triangular(whole, coordinates, upper=False, left=False)
    vectors = _unit(torch.cat([least, torch.ones_like(residual)[..., None]], dim=-1))
    # the others are eigenvectors to working precision already
    open_ = valid & (residual * vectors[..., -1].square() > psi * 1e-13)
    for shift, factor, members in _brackets(problem, psi, open_):
        index, chosen = first_true(members, members.shape[1])
        found, settled = _lanczos(problem.rows(index), factor, chosen, shift, psi)
        vectors[_where(index, chosen)] = found[chosen]
        if not bool((settled | ~chosen).all()):
            rest = _where(index, chosen & ~settled)
            vectors[rest] = _dense(problem, rest)
    vectors = vectors * torch.where(vectors[..., -1:] < 0, -1.0, 1.0)
    vectors[..., :-1] *= mask  # rounding may leave dust beyond the prefix
    head, last = vectors[..., :-1], vectors[..., -1]
    # through the factor, so that a small value is not the difference of large ones
    values = (head @ whole + last[..., None] * coordinates).square().sum(-1)
    return head, last, values + last.square() * residual


def _brackets(problem: _Bordered, psi: float, open_: Tensor) -> list[tuple[float, Tensor, Tensor]]:
    """Shift, factor and member mask of every non-empty bracket of the grid."""
    eye = torch.eye(problem.gram.shape[-1], dtype=problem.gram.dtype, device=problem.gram.device)
    bracket = torch.zeros_like(problem.square, dtype=torch.long)
    shifts, factors = [], []
    for i in range(GRID):
        shift = psi * (1 - 2.0**-i)
        factor, failed = torch.linalg.cholesky_ex(problem.gram - shift * eye)
        if bool(failed.any()):  # shifts close to psi may lie within rounding of an eigenvalue of G
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
    # padding repeats candidate 0, which may belong to another bracket and have no inverse here
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
        # the residual of the matrix itself, not of its inverse: it bounds the error of the value
        image = part.apply(ritz)
        value = (image * ritz).sum(-1, keepdim=True)
        error = torch.linalg.vector_norm(image - value * ritz, dim=-1)
        vectors[_where(index, active)] = ritz[active]
        done = error <= 1e-9 * psi + 1e-14 * top
        settled[_where(index, active & done)] = True
        if bool(settled.all()):
            break
    return vectors, settled


def _krylov(start: Tensor, factor: Tensor, w: Tensor, schur: Tensor, mask: Tensor) -> Tensor:
    """Best vector of the Krylov space of the shifted inverse, fully reorthogonalised."""
    n_sets, g, size = start.shape
    basis = start.new_empty(n_sets, g, STEPS, size)
    images = torch.empty_like(basis)
    fresh = start
    for j in range(STEPS):
        basis[:, :, j] = fresh
        images[:, :, j] = _shifted_inverse(fresh, factor, w, schur, mask)
        if j + 1 == STEPS:
            break
        known, fresh = basis[:, :, : j + 1], _unit(images[:, :, j])
        for _ in range(2):  # twice is enough: once leaves what cancellation has hidden
            overlap = known @ fresh[..., None]  # (K, g, j + 1, 1)
            fresh = _unit(fresh - (overlap.mT @ known)[..., 0, :])
    small = basis @ images.mT
    # A Krylov space that is exhausted gives 0/0, which eigh would not survive. Its vector comes
    # out as NaN, fails the test of the caller, and is left to LAPACK.
    small = torch.nan_to_num(0.5 * (small + small.mT)).flatten(0, 1)
    weights = torch.cat([torch.linalg.eigh(s)[1][..., -1] for s in small.split(EIGH_BATCH)])
    return _unit((weights.view(n_sets, g, 1, STEPS) @ basis)[..., 0, :])


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


def _dense(problem: _Bordered, rest: tuple[Tensor, Tensor]) -> Tensor:
    """LAPACK for the rest; entries outside the prefix are pushed to the top of the spectrum."""
    size = problem.gram.shape[-1] + 1
    chunk = max(64, min(EIGH_BATCH, DENSE_NUMBERS // size**2))  # a call costs what many cost
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


def _where(index: Tensor, flags: Tensor) -> tuple[Tensor, Tensor]:
    """Set and position of every flagged entry of ``index`` (K, q)."""
    sets, slots = flags.nonzero(as_tuple=True)
    return sets, index[sets, slots]


def _unit(vectors: Tensor) -> Tensor:
    return vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
