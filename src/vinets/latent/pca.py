"""Principal components of latents that need not fit into memory, and the layer they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.core.checks import one_of, parameter_error
from vinets.core.options import check_value, whole

Chunks: TypeAlias = Callable[[], Iterable[Tensor]]

Eigenpairs: TypeAlias = tuple[Tensor, Tensor, float]
"""Eigenvalues ``(k,)``, decreasing; eigenvectors ``(n, D)`` of the first; sum of them all."""

METHODS = ("auto", "exact", "randomized", "streaming")
SCALES = ("none", "unit")
MAX_EXACT_SIDE = 2048  # a matrix of 32 MiB in float64
BLOCK_COLUMNS = 4096  # converted to float64 at once


@dataclass(frozen=True, eq=False)
class PCA:
    """The directions in which latents vary most."""

    mean: Tensor  # (D,)
    components: Tensor  # orthonormal rows (n, D); the largest absolute entry of each is positive
    variances: Tensor  # (n,), decreasing, with the divisor m - 1
    total_variance: float  # the sum in all D directions

    @property
    def explained(self) -> Tensor:
        """Share of the total variance in each direction, ``(n,)``."""
        return self.variances / self.total_variance

    def transform(self, z: Tensor) -> Tensor:
        """Return coordinates ``(z - mean) @ components.T`` of latents ``(b, D)``, ``(b, n)``."""
        return (z.to(self.mean.dtype) - self.mean) @ self.components.T


def fit_pca(
    chunks: Chunks,
    n_components: int,
    *,
    method: str = "auto",
    seed: int = 0,
    n_iter: int = 4,
    oversample: int = 16,
    at_most: bool = False,
) -> PCA:
    """Find the principal components of latents that come in chunks.

    ``chunks`` starts a new pass over the latents: float tensors ``(b, D)``, the same in every pass.
    There are ``n_components``, n, at most the rank of the centred latents; more are refused, or
    fewer taken with ``at_most``. All arithmetic is in float64, on the device of the chunks; the
    result is in their dtype, and at least in float32. The methods:

    - ``"exact"``: eigenvectors of the smaller of the covariance ``(D, D)``, summed up over the
      chunks, and the Gram matrix ``(m, m)``, for which the latents are held in memory.
    - ``"randomized"``: subspace iteration from a random start. Takes ``n_iter + 2`` passes and
      ``O(D * (n + oversample))`` memory besides a chunk; iterations separate close variances.
    - ``"streaming"``: one pass; each chunk is merged into the leading ``n + oversample``
      directions so far. What they do not catch is lost, so this is the least accurate.
    - ``"auto"``: exact if ``min(m, D) <= 2048``, randomised otherwise.

    Examples
    --------
    >>> points = torch.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    >>> pca = fit_pca(lambda: [points], 1)
    >>> pca.components, pca.explained
    (tensor([[0.6000, 0.8000]]), tensor([1.]))
    """
    one_of("fit_pca", "method", method, METHODS)
    counts = {"n_components": n_components, "n_iter": n_iter, "oversample": oversample}
    for name, value in counts.items():
        check_value("fit_pca", name, whole(int(name == "n_components")), value)
    if not callable(chunks):
        accepted = "a function that starts a new pass over tensors (b, D)"
        remedy = "For a tensor pass chunks=lambda: [values]."
        raise parameter_error("fit_pca", "chunks", accepted, type(chunks).__name__, remedy)
    if method == "streaming":
        n = n_components
        centre, (squares, rows, total) = _by_merging(chunks, n + oversample)
    else:
        centre = _find_centre(chunks)
        n = _within(n_components, min(centre.rows - 1, len(centre.mean)), at_most)
        side = min(centre.rows, len(centre.mean))
        if method == "randomized" or (method == "auto" and side > MAX_EXACT_SIDE):
            width = min(n + oversample, side)
            squares, rows, total = _by_iteration(chunks, centre, width, n_iter, seed)
        elif len(centre.mean) <= centre.rows:
            squares, rows, total = _by_covariance(chunks, centre)
        else:
            squares, rows, total = _by_gram(chunks, centre, n)
    # Up to this size an eigenvalue is rounding: of the data, of the products or of the mean.
    data, working = torch.finfo(centre.dtype).eps, torch.finfo(torch.float64).eps
    products = max(data**2, max(centre.rows, len(centre.mean)) * working) * float(squares[0])
    shift = 64 * working * float(centre.mean.norm())  # a few roundings of every entry
    noise = max(products, centre.rows * shift**2)
    n = _within(n, int((squares > noise).sum()), at_most)
    rows = rows[:n]
    peaks = rows.gather(1, rows.abs().argmax(1, keepdim=True))  # eigenvectors have no sign
    freedom = centre.rows - 1
    return PCA(
        centre.mean.to(centre.dtype),
        (rows * peaks.sign()).to(centre.dtype),
        (squares[:n] / freedom).to(centre.dtype),
        total / freedom,
    )


def _within(n: int, rank: int, at_most: bool) -> int:
    if n > rank and (not at_most or rank == 0):
        accepted = f"at most {rank}, the rank of the centred latents"
        raise parameter_error("fit_pca", "n_components", accepted, n, "Ask for fewer components.")
    return min(n, rank)


class Projection(nn.Module):
    """``z -> z @ weight.T + bias``: a linear layer that starts as principal components.

    The weight is ``(n, D)``, the bias ``(n,)``; they receive gradients where ``trainable``.
    """

    def __init__(self, weight: Tensor, bias: Tensor, *, trainable: bool = False) -> None:
        super().__init__()
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            got = f"{tuple(weight.shape)} and {tuple(bias.shape)}"
            raise parameter_error("Projection", "weight", "(n, D) beside a bias (n,)", got)
        self.weight = nn.Parameter(weight.detach().clone(), requires_grad=trainable)
        self.bias = nn.Parameter(bias.detach().clone(), requires_grad=trainable)

    @classmethod
    def from_pca(cls, pca: PCA, scale: str = "none", *, trainable: bool = False) -> Projection:
        """Take the coordinates of ``pca``, in its dtype.

        The scale ``"unit"`` divides each coordinate by its standard deviation.
        """
        one_of("Projection.from_pca", "scale", scale, SCALES)
        # In float64, because the bias is the difference of large numbers if the mean is large.
        weight = pca.components.to(torch.float64)
        if scale == "unit":
            weight = weight / pca.variances.to(torch.float64).sqrt().unsqueeze(1)
        bias = -(weight @ pca.mean.to(torch.float64))
        dtype = pca.components.dtype
        return cls(weight.to(dtype), bias.to(dtype), trainable=trainable)

    def forward(self, z: Tensor) -> Tensor:
        return F.linear(z, self.weight, self.bias)

    def extra_repr(self) -> str:
        return "out_features={}, in_features={}".format(*self.weight.shape)


# --- four ways to find the directions ---------------------------------------------------------
#
# With the centred rows X (m, D), all of them look for the largest eigenvalues of X' X and
# orthonormal eigenvectors, in float64 and on the device of the chunks.


class Centre(NamedTuple):
    """Number, mean ``(D,)`` in float64, and precision of the rows."""

    rows: int
    mean: Tensor
    dtype: torch.dtype


def _find_centre(chunks: Chunks) -> Centre:
    """Count the rows and average them, in one pass."""
    count, total, dtype = 0, torch.zeros((), dtype=torch.float64), torch.float32
    for chunk in _checked(chunks):
        total = total + chunk.sum(0, dtype=torch.float64)
        dtype = torch.promote_types(dtype, chunk.dtype)
        count += len(chunk)
    _check_finite(count, total)
    return Centre(count, total / count, dtype)


def _by_covariance(chunks: Chunks, centre: Centre) -> Eigenpairs:
    """Sum ``X' X`` up over the chunks, and take its eigenvectors; ``O(D**2)`` memory, one pass."""
    scatter = centre.mean.new_zeros(len(centre.mean), len(centre.mean))
    for values in _centred(chunks, centre):
        scatter.addmm_(values.T, values)
    squares, vectors = torch.linalg.eigh(scatter)
    return squares.flip(0), vectors.T.flip(0), float(scatter.trace())


def _by_gram(chunks: Chunks, centre: Centre, n: int) -> Eigenpairs:
    """Take eigenvectors ``u`` of ``X X'``, which give those of ``X' X`` as ``X' u``; one pass."""
    # In the precision of the data: the products alone are taken in float64, block by block.
    held = centre.mean.new_empty(centre.rows, len(centre.mean), dtype=centre.dtype)
    start = 0
    for chunk in _checked(chunks, centre.rows):
        # Rows beyond the first count are dropped here, and complained of behind the last chunk.
        held[start : start + len(chunk)] = chunk[: max(0, centre.rows - start)]
        start += len(chunk)
    blocks = list(zip(held.split(BLOCK_COLUMNS, 1), centre.mean.split(BLOCK_COLUMNS), strict=True))
    gram = centre.mean.new_zeros(centre.rows, centre.rows)
    for block, mean in blocks:
        values = block - mean
        gram.addmm_(values, values.T)
    squares, vectors = torch.linalg.eigh(gram)
    leading = vectors.flip(1)[:, :n]
    directions = torch.cat([(block - mean).T @ leading for block, mean in blocks])
    rows = torch.linalg.qr(directions).Q.T  # orthonormal in spite of rounding
    return squares.flip(0), rows, float(gram.trace())


def _by_iteration(chunks: Chunks, centre: Centre, width: int, n_iter: int, seed: int) -> Eigenpairs:
    """Randomised subspace iteration: ``Q <- qr(X' X Q)``, then the best directions within ``Q``.

    Every product is one pass over the chunks, so ``n_iter + 1`` passes in all.
    """
    generator = torch.Generator().manual_seed(seed)  # a CPU start is the same on any device
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


def _by_merging(chunks: Chunks, width: int) -> tuple[Centre, Eigenpairs]:
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
    for chunk in _checked(chunks, centre.rows):
        # In place, because a second copy of a chunk costs more than the subtraction.
        yield chunk.to(torch.float64, copy=True).sub_(centre.mean)


def _checked(chunks: Chunks, rows: int | None = None) -> Iterator[Tensor]:
    """Give the chunks that hold rows, if they are float tensors of one width, ``rows`` in all."""
    width, count = None, 0
    for chunk in chunks():
        sound = isinstance(chunk, Tensor) and chunk.ndim == 2 and chunk.is_floating_point()
        if not sound or (width is not None and chunk.shape[1] != width):
            shape = tuple(chunk.shape) if isinstance(chunk, Tensor) else type(chunk).__name__
            raise ValueError(
                f"chunks() must yield float tensors of one shape (b, D). Got {shape} instead. "
                "For a store pass chunks=lambda: (z.flatten(1) for z, _ in store.chunks())."
            )
        width, count = chunk.shape[1], count + len(chunk)
        if len(chunk):
            yield chunk.detach()
    if rows not in (None, count):
        raise ValueError(
            f"chunks() must yield the same latents in every pass. Got {rows} rows at first and "
            f"{count} later; return a new iterator from each call."
        )


def _check_finite(count: int, values: Tensor) -> None:
    if count == 0:
        raise ValueError("chunks() must yield latents. Got none; it has to start a new pass.")
    if not bool(torch.isfinite(values).all()):
        raise ValueError("The latents hold NaN or infinite values; look at the network first.")
