"""Principal components of latents that need not fit into memory, and the layer they make."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.checks import one_of, parameter_error
from vinets.latent import spectra
from vinets.latent.spectra import Centre, Chunks, Spectrum
from vinets.options import check_value, whole

__all__ = ["PCA", "Projection", "fit_pca"]

METHODS = ("auto", "exact", "randomized", "streaming")
SCALES = ("none", "unit", "bound")
EXACT_SIDE = 2048  # a matrix of 32 MiB in float64
QUANTILE = 3.29  # 99.9 % of a normal distribution lie within so many standard deviations


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
        """Coordinates ``(z - mean) @ components.T`` of latents ``(b, D)``, as ``(b, n)``."""
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
    """Principal components of latents that come in chunks.

    All arithmetic is in float64, on the device of the chunks.

    Parameters
    ----------
    chunks : callable
        Starts a new pass over the latents: float tensors ``(b, D)``, the same in every pass.
    n_components : int
        Number of directions ``n``, at most the rank of the centred latents.
    method : {"auto", "exact", "randomized", "streaming"}, default="auto"
        - ``"exact"``: eigenvectors of the smaller of the covariance ``(D, D)``, summed up over the
          chunks, and the Gram matrix ``(m, m)``, for which the latents are held in memory.
        - ``"randomized"``: subspace iteration from a random start. Takes ``n_iter + 2`` passes and
          ``O(D * (n + oversample))`` memory beside a chunk.
        - ``"streaming"``: one pass; each chunk is merged into the leading ``n + oversample``
          directions so far. What they do not catch is lost, so this is the least accurate.
        - ``"auto"``: exact if ``min(m, D) <= 2048``, randomised otherwise.
    n_iter : int, default=4
        Iterations of ``"randomized"``. More of them separate close variances better.
    oversample : int, default=16
        Directions beyond ``n`` that ``"randomized"`` and ``"streaming"`` carry along.
    at_most : bool, default=False
        Take as many directions as there are where that is fewer than ``n``, rather than refuse.

    Returns
    -------
    PCA
        In the dtype of the chunks, and at least in float32.

    Examples
    --------
    >>> points = torch.tensor([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]])
    >>> pca = fit_pca(lambda: [points], 1)
    >>> pca.components, pca.explained
    (tensor([[0.6000, 0.8000]]), tensor([1.]))
    """
    one_of("fit_pca", "method", method, METHODS)
    check_value("fit_pca", "n_components", whole(1), n_components)
    check_value("fit_pca", "n_iter", whole(0), n_iter)
    check_value("fit_pca", "oversample", whole(0), oversample)
    if not callable(chunks):
        accepted = "a function that starts a new pass over tensors (b, D)"
        remedy = "For a tensor pass chunks=lambda: [values]."
        raise parameter_error("fit_pca", "chunks", accepted, type(chunks).__name__, remedy)
    if method == "streaming":
        centre, spectrum = spectra.by_merging(chunks, n_components + oversample)
        return _components(centre, spectrum, n_components, at_most)
    centre = spectra.find_centre(chunks)
    n = _within(n_components, min(centre.count - 1, len(centre.mean)), at_most)
    side = min(centre.count, len(centre.mean))
    if method == "randomized" or (method == "auto" and side > EXACT_SIDE):
        spectrum = spectra.by_iteration(chunks, centre, min(n + oversample, side), n_iter, seed)
    elif len(centre.mean) <= centre.count:
        spectrum = spectra.by_covariance(chunks, centre)
    else:
        spectrum = spectra.by_gram(chunks, centre, n)
    return _components(centre, spectrum, n, at_most)


def _components(centre: Centre, spectrum: Spectrum, n: int, at_most: bool) -> PCA:
    """Check the rank, fix the signs, scale to variances, and round to the precision of the data."""
    squares, rows, total = spectrum
    # Up to this size an eigenvalue is rounding: of the data, of the products or of the mean.
    data, working = torch.finfo(centre.dtype).eps, torch.finfo(torch.float64).eps
    products = max(data**2, max(centre.count, len(centre.mean)) * working) * float(squares[0])
    shift = 64 * working * float(centre.mean.norm())  # a few roundings of every entry
    noise = max(products, centre.count * shift**2)
    n = _within(n, int((squares > noise).sum()), at_most)
    rows = rows[:n]
    peaks = rows.gather(1, rows.abs().argmax(1, keepdim=True))  # eigenvectors have no sign
    freedom = centre.count - 1
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
        """The coordinates of ``pca``, in its dtype, scaled.

        The scale ``"unit"`` divides each coordinate by its standard deviation; ``"bound"`` divides
        all of them by 3.29 times the largest one, so that 99.9 % of normal values lie in [-1, 1].

        Examples
        --------
        >>> pca = fit_pca(lambda: [torch.tensor([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])], 1)
        >>> Projection.from_pca(pca, "unit")(torch.tensor([[4.0, 1.0]]))
        tensor([[1.]])
        """
        one_of("Projection.from_pca", "scale", scale, SCALES)
        # In float64, for the bias takes the difference of large numbers where the mean is large.
        weight = pca.components.to(torch.float64)
        deviations = pca.variances.to(torch.float64).sqrt()
        if scale == "unit":
            weight = weight / deviations.unsqueeze(1)
        elif scale == "bound":
            weight = weight / (QUANTILE * deviations.max())
        bias = -(weight @ pca.mean.to(torch.float64))
        dtype = pca.components.dtype
        return cls(weight.to(dtype), bias.to(dtype), trainable=trainable)

    def forward(self, z: Tensor) -> Tensor:
        """Latents ``(B, D)`` as ``(B, n)``."""
        return F.linear(z, self.weight, self.bias)

    def extra_repr(self) -> str:
        n, width = self.weight.shape
        return f"in_features={width}, out_features={n}"
