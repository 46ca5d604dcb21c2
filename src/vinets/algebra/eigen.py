r"""Smallest eigenvectors of many bordered Gram matrices that share their leading blocks.

Generator :math:`j` of the unit rule is the eigenvector of the smallest eigenvalue
:math:`\lambda_j` of

.. math:: \hat G_j = \begin{pmatrix} G_{k_j} & b_j \\ b_j^\top & \beta_j \end{pmatrix},

with :math:`G_k` the leading block of one Gram matrix. It is known that
:math:`0 \le \lambda_j \le \psi < \lambda_{\min}(G_{k_j})`. Once a leading block is decomposed, the
eigenvectors of all that met its terms, and perhaps a few more, are roots of secular equations
(:mod:`vinets.algebra.secular`). This decides which blocks to decompose.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vinets.algebra.secular import (
    LeadingBlocks,
    Spectrum,
    further_eigenvectors,
    secular_eigenvectors,
    stacked_eigenvectors,
)

MAX_FURTHER_TERMS = 12  # terms that candidates may have met besides those of a decomposed block
CANDIDATES_PER_SIZE = 2  # a block of size k is decomposed for as many times k candidates
MAX_STACKED_SIZE = 64  # blocks of at most this size are decomposed together
MAX_STACKED_CANDIDATES = 128  # a block that more candidates share is decomposed alone


def smallest_eigenvectors(
    lower: Tensor,
    coordinates: Tensor,
    square: Tensor,
    prefix: Tensor,
    psi: float,
    *,
    residual: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the unit eigenvectors for one point set, generators in the order found.

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
    tail, lead, values = coordinates, torch.empty_like(square), torch.empty_like(square)
    groups = _groups(prefix)
    if residual is not None:
        for size, rows in groups:
            spectrum = Spectrum.of_factor(lower[:size, :size])
            lead[rows], values[rows] = secular_eigenvectors(
                spectrum, tail[rows, :size], square[rows], residual[rows], psi
            )
        return tail, lead, values
    blocks = LeadingBlocks.of(lower, psi)
    stacked = [rows for size, rows in groups if _tiny(size, rows)]
    if stacked:
        at = torch.cat([torch.arange(r.start, r.stop, device=lower.device) for r in stacked])
        tail[at], lead[at], values[at] = stacked_eigenvectors(
            blocks, tail[at], square[at], prefix[at], psi
        )
    for size, rows, beyond in _plan([group for group in groups if not _tiny(*group)]):
        spectrum = blocks.spectrum(size)
        lead[rows], values[rows] = secular_eigenvectors(
            spectrum, tail[rows, :size], square[rows], None, psi
        )
        lead[beyond], values[beyond] = further_eigenvectors(
            blocks, spectrum, tail[beyond], square[beyond], prefix[beyond], psi
        )
    return tail, lead, values


def _groups(prefix: Tensor) -> list[tuple[int, slice]]:
    """List the sizes of prefixes, and where they stand."""
    sizes, counts = torch.unique_consecutive(prefix, return_counts=True)
    ends = counts.cumsum(0)
    starts = (ends - counts).tolist()
    return list(zip(sizes.tolist(), map(slice, starts, ends.tolist()), strict=True))


def _tiny(size: int, rows: slice) -> bool:
    return size <= MAX_STACKED_SIZE and rows.stop - rows.start <= MAX_STACKED_CANDIDATES


def _plan(groups: list[tuple[int, slice]]) -> list[tuple[int, slice, slice]]:
    """List blocks to decompose, who met just their terms, and who met a few more."""
    plan: list[tuple[int, slice, slice]] = []
    for size, rows in groups:
        if plan:
            block, own, beyond = plan[-1]
            few = rows.stop - rows.start < CANDIDATES_PER_SIZE * block
            if few and size <= block + MAX_FURTHER_TERMS:
                start = beyond.start if beyond.stop else rows.start
                plan[-1] = block, own, slice(start, rows.stop)
                continue
        plan.append((size, rows, slice(0, 0)))
    return plan
