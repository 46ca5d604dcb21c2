"""The leading singular directions of rows that come in chunks: four ways to find them.

With the centred rows ``X`` ``(m, D)``, all of them look for the largest eigenvalues of ``X' X`` and
orthonormal eigenvectors, in float64 and on the device of the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Centre", "Chunks", "PrincipalSpectrum", "find_centre"]
__all__ += ["by_covariance", "by_gram", "by_iteration", "by_merging"]

Chunks = Callable[[], Iterable[Tensor]]

COLUMNS = 4096  # of a wide matrix, converted to float64 at a time


@dataclass(frozen=True, eq=False)
class Centre:
    """Number, mean ``(D,)`` in float64, and precision of the rows."""

    count: int
    mean: Tensor
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class PrincipalSpectrum:
    """Eigenvalues ``(k,)``, decreasing; eigenvectors ``(n, D)`` of the first; sum of them all."""

    squares: Tensor
    rows: Tensor
    total: float


def find_centre(chunks: Chunks) -> Centre:
    """Count the rows and average them, in one pass."""
    count, total, dtype = 0, torch.zeros(()), torch.float32
    for chunk in _checked(chunks):
        part = chunk.sum(0, dtype=torch.float64)
        total = part if count == 0 else total + part
        dtype = torch.promote_types(dtype, chunk.dtype)
        count += len(chunk)
    _check_finite(count, total)
    return Centre(count, total / count, dtype)


def by_covariance(chunks: Chunks, centre: Centre) -> PrincipalSpectrum:
    """Eigenvectors of ``X' X``, summed up over the chunks; ``O(D**2)`` memory, one pass."""
    width = len(centre.mean)
    scatter = torch.zeros(width, width, dtype=torch.float64, device=centre.mean.device)
    for values in _centred(chunks, centre):
        scatter.addmm_(values.T, values)
    squares, vectors = torch.linalg.eigh(scatter)
    return PrincipalSpectrum(squares.flip(0), vectors.T.flip(0), float(scatter.trace()))


def by_gram(chunks: Chunks, centre: Centre, n: int) -> PrincipalSpectrum:
    """Eigenvectors ``u`` of ``X X'`` give those of ``X' X`` as ``X' u``; holds ``X``, one pass."""
    device = centre.mean.device
    held = torch.empty(centre.count, len(centre.mean), dtype=centre.dtype, device=device)
    start = 0
    for chunk in _checked(chunks):
        held[start : start + len(chunk)] = chunk[: max(0, centre.count - start)]
        start += len(chunk)
    _check_same(start, centre.count)
    blocks = list(zip(held.split(COLUMNS, 1), centre.mean.split(COLUMNS), strict=True))
    gram = torch.zeros(centre.count, centre.count, dtype=torch.float64, device=device)
    for block, mean in blocks:
        values = block - mean
        gram.addmm_(values, values.T)
    squares, vectors = torch.linalg.eigh(gram)
    leading = vectors.flip(1)[:, :n]
    directions = torch.cat([(block - mean).T @ leading for block, mean in blocks])
    rows = torch.linalg.qr(directions).Q.T  # of length one, and orthogonal where rounding hurts
    return PrincipalSpectrum(squares.flip(0), rows, float(gram.trace()))


def by_iteration(
    chunks: Chunks, centre: Centre, width: int, n_iter: int, seed: int
) -> PrincipalSpectrum:
    """Randomised subspace iteration: ``Q <- qr(X' X Q)``, then the best directions within ``Q``.

    Every product is one pass over the chunks, so ``n_iter + 1`` passes in all.
    """
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(len(centre.mean), width, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(start.to(centre.mean.device)).Q
    for _ in range(n_iter):
        product = torch.zeros_like(basis)
        for values in _centred(chunks, centre):
            product.addmm_(values.T, values @ basis)
        basis = torch.linalg.qr(product).Q
    small = torch.zeros(width, width, dtype=torch.float64, device=basis.device)
    total = torch.zeros((), dtype=torch.float64, device=basis.device)
    for values in _centred(chunks, centre):
        inside = values @ basis
        small.addmm_(inside.T, inside)
        total += values.square().sum()
    squares, vectors = torch.linalg.eigh(small)
    return PrincipalSpectrum(squares.flip(0), (basis @ vectors.flip(1)).T, float(total))


def by_merging(chunks: Chunks, width: int) -> tuple[Centre, PrincipalSpectrum]:
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
            _check_finite(count, mean)
            # The QR comes first, since the SVD of a wide matrix takes several times as long.
            basis, triangle = torch.linalg.qr(stacked.T)
            _, lengths, right = torch.linalg.svd(triangle.T, full_matrices=False)
            lengths, rows = lengths[:width], right[:width] @ basis.T
            scaled = lengths.unsqueeze(1) * rows
    _check_finite(count, mean)
    return Centre(count, mean, dtype), PrincipalSpectrum(lengths.square(), rows, total)


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
