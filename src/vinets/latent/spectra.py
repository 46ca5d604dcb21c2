"""The leading singular directions of rows that come in chunks: four ways to find them.

With the centred rows ``X`` ``(m, D)``, all of them look for the largest eigenvalues of ``X' X`` and
orthonormal eigenvectors, in float64 and on the device of the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = ["Centre", "Chunks", "Spectrum", "find_centre"]
__all__ += ["by_covariance", "by_gram", "by_iteration", "by_merging"]

Chunks: TypeAlias = Callable[[], Iterable[Tensor]]

Spectrum: TypeAlias = tuple[Tensor, Tensor, float]
"""Eigenvalues ``(k,)``, decreasing; eigenvectors ``(n, D)`` of the first; sum of them all."""

COLUMNS = 4096  # of a wide matrix, converted to float64 at a time


@dataclass(frozen=True, eq=False)
class Centre:
    """Number, mean ``(D,)`` in float64, and precision of the rows."""

    count: int
    mean: Tensor
    dtype: torch.dtype


def find_centre(chunks: Chunks) -> Centre:
    """Count the rows and average them, in one pass."""
    count, total, dtype = 0, torch.zeros((), dtype=torch.float64), torch.float32
    for chunk in _checked(chunks):
        total = total + chunk.sum(0, dtype=torch.float64)
        dtype = torch.promote_types(dtype, chunk.dtype)
        count += len(chunk)
    _check_finite(count, total)
    return Centre(count, total / count, dtype)


def by_covariance(chunks: Chunks, centre: Centre) -> Spectrum:
    """Eigenvectors of ``X' X``, summed up over the chunks; ``O(D**2)`` memory, one pass."""
    scatter = centre.mean.new_zeros(len(centre.mean), len(centre.mean))
    for values in _centred(chunks, centre):
        scatter.addmm_(values.T, values)
    squares, vectors = torch.linalg.eigh(scatter)
    return squares.flip(0), vectors.T.flip(0), float(scatter.trace())


def by_gram(chunks: Chunks, centre: Centre, n: int) -> Spectrum:
    """Eigenvectors ``u`` of ``X X'`` give those of ``X' X`` as ``X' u``; holds ``X``, one pass."""
    # In the precision of the data: the products alone are taken in float64, block by block.
    held = centre.mean.new_empty(centre.count, len(centre.mean), dtype=centre.dtype)
    start = 0
    for chunk in _checked(chunks):
        # Rows beyond the first count are dropped here, and complained of below.
        held[start : start + len(chunk)] = chunk[: max(0, centre.count - start)]
        start += len(chunk)
    _check_same(start, centre.count)
    blocks = list(zip(held.split(COLUMNS, 1), centre.mean.split(COLUMNS), strict=True))
    gram = centre.mean.new_zeros(centre.count, centre.count)
    for block, mean in blocks:
        values = block - mean
        gram.addmm_(values, values.T)
    squares, vectors = torch.linalg.eigh(gram)
    leading = vectors.flip(1)[:, :n]
    directions = torch.cat([(block - mean).T @ leading for block, mean in blocks])
    rows = torch.linalg.qr(directions).Q.T  # of length one, and orthogonal where rounding hurts
    return squares.flip(0), rows, float(gram.trace())


def by_iteration(chunks: Chunks, centre: Centre, width: int, n_iter: int, seed: int) -> Spectrum:
    """Randomised subspace iteration: ``Q <- qr(X' X Q)``, then the best directions within ``Q``.

    Every product is one pass over the chunks, so ``n_iter + 1`` passes in all.
    """
    generator = torch.Generator().manual_seed(seed)  # on the CPU: the same start on any device
    start = torch.randn(len(centre.mean), width, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(start.to(centre.mean.device)).Q
    for _ in range(n_iter):
        product = torch.zeros_like(basis)
        for values in _centred(chunks, centre):
            product.addmm_(values.T, values @ basis)
        basis = torch.linalg.qr(product).Q  # or all columns would turn to the first direction
    small, total = basis.new_zeros(width, width), basis.new_zeros(())
    for values in _centred(chunks, centre):
        inside = values @ basis
        small.addmm_(inside.T, inside)
        total += values.square().sum()
    squares, vectors = torch.linalg.eigh(small)
    return squares.flip(0), (basis @ vectors.flip(1)).T, float(total)


def by_merging(chunks: Chunks, width: int) -> tuple[Centre, Spectrum]:
    """Merge chunk after chunk into the leading ``width`` directions so far; a single pass.

    Chunks with means ``a`` and ``b`` and sizes ``n`` and ``k`` have the joint scatter of
    ``[S V; X_b - b; (a - b) sqrt(n k / (n + k))]``, whose thin SVD is the next ``S V``.
    """
    count, total, dtype = 0, 0.0, torch.float32
    mean = scaled = torch.zeros(())
    for chunk in _checked(chunks):
        dtype = torch.promote_types(dtype, chunk.dtype)
        for piece in chunk.split(max(256, 2 * width)):  # the SVD is quadratic in the rows
            values = piece.to(torch.float64)
            piece_mean = values.mean(0)
            values = values - piece_mean
            total += float(values.square().sum())
            if count == 0:
                mean, stacked = piece_mean, values
            else:
                share = len(piece) / (count + len(piece))
                apart = (mean - piece_mean) * (count * share) ** 0.5
                total += float(apart.square().sum())
                mean = mean + (piece_mean - mean) * share
                stacked = torch.cat([scaled, values, apart.unsqueeze(0)])
            count += len(piece)
            _check_finite(count, mean)  # the SVD of NaN raises in words of its own
            # The QR comes first, since the SVD of a wide matrix takes several times as long.
            basis, triangle = torch.linalg.qr(stacked.T)
            _, lengths, right = torch.linalg.svd(triangle.T, full_matrices=False)
            lengths, rows = lengths[:width], right[:width] @ basis.T
            scaled = lengths.unsqueeze(1) * rows
    _check_finite(count, mean)
    return Centre(count, mean, dtype), (lengths.square(), rows, total)


def _centred(chunks: Chunks, centre: Centre) -> Iterator[Tensor]:
    count = 0
    for chunk in _checked(chunks):
        count += len(chunk)
        yield chunk.to(torch.float64) - centre.mean
    _check_same(count, centre.count)


def _checked(chunks: Chunks) -> Iterator[Tensor]:
    """The chunks that hold rows, if they are float tensors of one width."""
    width: int | None = None
    for chunk in chunks():
        sound = isinstance(chunk, Tensor) and chunk.ndim == 2 and chunk.is_floating_point()
        if not sound or (width is not None and chunk.shape[1] != width):
            shape = tuple(chunk.shape) if isinstance(chunk, Tensor) else type(chunk).__name__
            raise ValueError(
                f"chunks() must yield float tensors of one shape (b, D). Got {shape} instead. "
                "For a store pass chunks=lambda: (z.flatten(1) for z, _ in store.chunks())."
            )
        width = chunk.shape[1]
        if len(chunk):
            yield chunk.detach()


def _check_finite(count: int, values: Tensor) -> None:
    if count == 0:
        raise ValueError("chunks() must yield latents. Got none; it has to start a new pass.")
    if not bool(torch.isfinite(values).all()):
        raise ValueError("The latents hold NaN or infinite values; look at the network first.")


def _check_same(count: int, expected: int) -> None:
    if count != expected:
        raise ValueError(
            f"chunks() must yield the same latents in every pass. Got {expected} rows at first and "
            f"{count} later; return a new iterator from each call."
        )
