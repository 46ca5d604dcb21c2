r"""Norms of a layer as the linear operator that it is at a given input size, and R from them.

The spectral complexity of a network with layers :math:`\sigma_i \circ W_i`, where
:math:`\sigma_i` is :math:`\rho_i`-Lipschitz, is

.. math::

    R = \Bigl(\prod_i \rho_i \|W_i\|_2\Bigr)
        \Bigl(\sum_i \bigl(\|W_i^\top\|_{2,1} / \|W_i\|_2\bigr)^{2/3}\Bigr)^{3/2}

with the spectral norm :math:`\|W\|_2`, the largest singular value, and :math:`\|W^\top\|_{2,1}`,
the sum of the Euclidean norms of the rows of :math:`W`. A convolution is never written out as a
matrix: it and its transpose are applied. Biases play no part in the definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.core.checks import bounded_float, parameter_error
from vinets.core.plain import as_plain

LinearLayer = nn.Linear | nn.Conv2d

MIN_ITERATIONS = 60  # so that the upper bound lies within a few percent of the value
MAX_ITERATIONS = 300
FAILURE = 1e-6  # probability with which an upper bound from Lanczos steps may fail
EXHAUSTED = 1e-12  # relative size of a new direction that is rounding error only


@dataclass(frozen=True)
class LayerNorms:
    """The norms of one layer that the definition of spectral complexity needs."""

    name: str
    spectral: float  # norm of W
    two_one: float  # (2,1) norm of its transpose
    lipschitz: float = 1.0  # constant of the activation and all else that follows W
    kernel_bound: float | None = None  # bound on the spectral norm from the reshaped kernel
    upper: float | None = None  # bound on the spectral norm, but for a probability of 1e-6
    converged: bool = True
    role: str = "plain"  # place in a residual block: plain, fork, carry or join

    @property
    def ratio(self) -> float:
        """(2,1) norm over spectral norm; 0 for a layer of zeros, because R is 0 then."""
        return self.two_one / self.spectral if self.spectral > 0 else 0.0

    @property
    def term(self) -> float:
        """The layer's term in the sum."""
        return float(self.ratio ** (2 / 3))


@dataclass(frozen=True)
class Complexity:
    """Spectral complexity R and the layers that make it up."""

    layers: tuple[LayerNorms, ...]

    @property
    def factors(self) -> list[float]:
        """Lipschitz constant times spectral norm of every layer."""
        return [layer.lipschitz * layer.spectral for layer in self.layers]

    @property
    def log10_product(self) -> float:
        """Decimal logarithm of their product, finite where that overflows."""
        # fsum, so that the order of the layers does not show in the last digits.
        factors = self.factors
        return math.fsum(map(math.log10, factors)) if all(f > 0 for f in factors) else -math.inf

    @property
    def total(self) -> float:
        """The sum, before it is raised to the power 3/2."""
        return math.fsum(layer.term for layer in self.layers)

    @property
    def log10_R(self) -> float:
        """Decimal logarithm of R, finite where R itself overflows."""
        total = self.total
        return self.log10_product + 1.5 * math.log10(total) if total > 0 else -math.inf

    @property
    def R(self) -> float:
        """The spectral complexity, or infinity where it does not fit a float."""
        log = self.log10_R
        # Far inside of the range of floats, as the product alone may be larger or smaller than R.
        if abs(log) > 300:  # minus infinity where a layer is zero
            return math.inf if log > 0 else 0.0
        return math.prod(self.factors) * float(self.total**1.5)

    @property
    def shares(self) -> tuple[float, ...]:
        """Each layer's share of the sum; the shares add up to 1."""
        total = self.total or 1.0  # without a sum, every term is zero
        return tuple(layer.term / total for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and names, for JSON."""
        parts = zip(self.layers, self.shares, strict=True)
        facts = {"R": self.R, "log10_R": self.log10_R, "residual_rule": "stacked"}
        return dict(as_plain(facts | {"layers": [vars(one) | {"share": s} for one, s in parts]}))


@dataclass(frozen=True)
class SpectralNorm:
    """The largest singular value of an operator."""

    value: float  # a Rayleigh quotient and so, up to rounding, never above the norm
    upper: float  # a bound that fails with a probability of at most 1e-6 over the random start
    iterations: int  # applications of the operator and its transpose; 0 for a closed form
    converged: bool  # whether the residual reached the tolerance


def spectral_norm(
    layer: LinearLayer, input_shape: tuple[int, ...], tolerance: float = 1e-4, seed: int = 0
) -> SpectralNorm:
    """Find the largest singular value of a linear or convolutional layer.

    The layer has any stride, dilation and groups, and zero or circular padding; ``input_shape`` is
    that of one example: (channels, height, width), or (..., features).
    """
    forward, rows = linear_map(layer, input_shape), row_norms(layer, input_shape)
    if (
        isinstance(layer, nn.Conv2d)
        and layer.padding_mode == "circular"
        and layer.stride == (1, 1)
        and rows.shape[1:] == input_shape[1:]
    ):
        # The Fourier transform diagonalises it, with one channel matrix a frequency; half of the
        # frequencies are conjugates of the others.
        spectrum = torch.fft.rfft2(_kernel_on_torus(layer, input_shape))
        outputs, inputs = spectrum.shape[:2]
        matrices = spectrum.reshape(layer.groups, outputs // layer.groups, inputs, -1)
        value = largest_of(matrices.permute(0, 3, 1, 2))
        return SpectralNorm(value, value, 0, True)
    norm = largest_singular_value(forward, input_shape, tolerance, seed, layer.weight.device)
    # The Frobenius norm bounds it for certain, and is the smaller one for operators of low rank.
    frobenius = float(rows.square().sum().sqrt())
    return replace(norm, upper=max(norm.value, min(norm.upper, frobenius)))


def row_norms(layer: LinearLayer, input_shape: tuple[int, ...]) -> Tensor:
    r"""Compute the Euclidean norm of every row of the operator, in the shape of its output.

    They are exact up to rounding, and add up to :math:`\|W^\top\|_{2,1}`. A row of a zero-padded
    convolution holds the kernel entries that fall inside the image, so its squared norm is the
    convolution of an image of ones with the squared kernel. With circular padding a row holds the
    whole kernel, and entries that meet after a turn add up first.
    """
    forward = linear_map(layer, input_shape)
    ones = torch.ones(input_shape, dtype=torch.float64, device=layer.weight.device)
    if isinstance(layer, nn.Linear):
        return _weight(layer).square().sum(1).sqrt().expand(*input_shape[:-1], -1)
    if layer.padding_mode == "circular":
        norms = _kernel_on_torus(layer, input_shape).square().sum((1, 2, 3)).sqrt()
        return norms[:, None, None].expand_as(forward(ones))
    return layer._conv_forward(ones[None], _weight(layer).square(), None)[0].sqrt()


def kernel_bound(layer: LinearLayer) -> float:
    r"""Bound the spectral norm from above by the reshaped kernel alone.

    Let :math:`K` be the kernel as a matrix of output channels by patch entries. An output position
    is :math:`K` times the patch below it, and an input lies in at most :math:`r` patches, hence
    :math:`\|W\|_2 \le \sqrt r\,\|K\|_2`. With stride 1, :math:`r` is the number of kernel entries
    per channel; with zero padding and larger strides it is the product of
    :math:`\lceil k \gcd(s, d) / s \rceil` over both axes, for kernel size k, stride s and
    dilation d. For a linear layer, this is the spectral norm itself. With circular padding it holds
    if the output, times the stride, is no larger than the input.
    """
    weight = _weight(layer)
    if isinstance(layer, nn.Linear):
        return largest_of(weight[None])
    circular, patches = layer.padding_mode == "circular", 1
    for k, s, d in zip(layer.kernel_size, layer.stride, layer.dilation, strict=True):
        patches *= k if circular else math.ceil(k * math.gcd(s, d) / s)
    return math.sqrt(patches) * largest_of(weight.reshape(layer.groups, -1, weight[0].numel()))


def linear_map(layer: LinearLayer, input_shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
    """Return the layer without its bias, in float64, as a map of one example."""
    if isinstance(layer, nn.Linear):
        accepted, fits = f"(..., {layer.in_features})", input_shape[-1:] == (layer.in_features,)
    elif isinstance(layer, nn.Conv2d):
        if (mode := layer.padding_mode) not in ("zeros", "circular"):
            raise parameter_error("linear_map", "layer", "padded with zeros or circular", mode)
        accepted = f"({layer.in_channels}, height, width)"
        fits = len(input_shape) == 3 and input_shape[0] == layer.in_channels
    else:
        accepted = "an nn.Linear or an nn.Conv2d"
        raise parameter_error("linear_map", "layer", accepted, type(layer).__name__)
    if not fits:
        remedy = "Give the shape of one example, without the batch."
        raise parameter_error("linear_map", "input_shape", accepted, tuple(input_shape), remedy)
    weight = _weight(layer)
    if isinstance(layer, nn.Linear):
        return lambda x: F.linear(x, weight)
    # As the layer does itself, but in float64 without a bias; circular padding needs a batch.
    return lambda x: layer._conv_forward(x[None], weight, None)[0]


def largest_singular_value(
    forward: Callable[[Tensor], Tensor],
    input_shape: tuple[int, ...],
    tolerance: float = 1e-4,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> SpectralNorm:
    r"""Find the largest singular value of a linear map A, by Lanczos steps on :math:`A^\top A`.

    Steps end when, after 60 at least, the largest Ritz pair :math:`(\theta, v)` has
    :math:`\|A^\top A v - \theta v\| \le \mathrm{tolerance} \cdot \theta`. The upper bound is that
    of Kuczyński and Woźniakowski (1992, theorem 4.2): after k steps from a random start in n
    dimensions, :math:`\theta < (1 - \varepsilon) \|A\|_2^2` with a probability of at most
    :math:`1.648 \sqrt n \exp(-\sqrt\varepsilon (2k - 1))`.
    """
    tolerance = bounded_float("largest_singular_value", "tolerance", tolerance, 1e-12, 1.0)
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(input_shape, generator=generator, dtype=torch.float64).to(device)
    # The map is linear, so that its derivative at the start is its transpose everywhere.
    pull_back = torch.func.vjp(forward, start)[1]
    limit = min(start.numel(), MAX_ITERATIONS)
    basis = torch.empty(limit + 1, start.numel(), dtype=torch.float64, device=device)
    basis[0] = start.flatten() / start.norm()
    # Tridiagonal, and on the CPU: its eigenvalues are wanted after every step.
    small = torch.zeros(limit + 1, limit + 1, dtype=torch.float64)
    theta, converged, exhausted, k = 0.0, False, False, 0
    while k < limit and not exhausted and not (converged and k >= MIN_ITERATIONS):
        image = forward(basis[k].reshape(input_shape)).detach()
        w = pull_back(image)[0].detach().flatten()
        k += 1
        scale = float(w.norm())
        small[k - 1, k - 1] = float(basis[k - 1] @ w)
        # Against all directions, not the last two: rounding would bring back found eigenvectors as
        # copies. Twice is enough for full orthogonality.
        for _ in range(2):
            w = w - basis[:k].T @ (basis[:k] @ w)
        beta = float(w.norm())
        values, vectors = torch.linalg.eigh(small[:k, :k])
        theta = max(float(values[-1]), 0.0)
        # The residual of a Ritz pair is beta times the last entry of its small eigenvector. Where
        # no direction is left, the value is that of the whole space, and no bound is needed.
        exhausted = k == start.numel() or beta <= EXHAUSTED * scale
        converged = exhausted or beta * abs(float(vectors[-1, -1])) <= tolerance * theta
        small[k, k - 1] = small[k - 1, k] = beta
        basis[k] = w / beta if beta > 0 else w
    value = upper = math.sqrt(theta)
    if not exhausted:
        # The epsilon at which the probability is FAILURE; from 1 on it bounds nothing.
        epsilon = (math.log(1.648 * math.sqrt(start.numel()) / FAILURE) / (2 * k - 1)) ** 2
        upper = value * (1 / math.sqrt(1 - epsilon)) if epsilon < 1 else math.inf
    return SpectralNorm(value, upper, k, converged)


def stacked_norm(
    maps: Sequence[Callable[[Tensor], Tensor]], input_shape: tuple[int, ...], *how: Any
) -> SpectralNorm:
    """Find the norm of linear maps one above the other, as :func:`largest_singular_value` does."""
    return largest_singular_value(
        lambda x: torch.cat([one(x).flatten() for one in maps]), input_shape, *how
    )


def _weight(layer: LinearLayer) -> Tensor:
    return layer.weight.detach().double()


def _kernel_on_torus(layer: nn.Conv2d, input_shape: tuple[int, ...]) -> Tensor:
    """Spread the kernel over an image that wraps round, (outputs, inputs / groups, H, W)."""
    kernel = _weight(layer)
    for axis, size in ((2, input_shape[1]), (3, input_shape[2])):
        taps = torch.arange(kernel.shape[axis], device=kernel.device) * layer.dilation[axis - 2]
        shape = [*kernel.shape[:axis], size, *kernel.shape[axis + 1 :]]
        kernel = kernel.new_zeros(shape).index_add_(axis, taps % size, kernel)
    return kernel


def largest_of(matrices: Tensor) -> float:
    """Find the largest spectral norm in a stack of matrices, from their smaller Gram matrices."""
    if matrices.shape[-2] > matrices.shape[-1]:
        matrices = matrices.mH
    return math.sqrt(max(0.0, float(torch.linalg.eigvalsh(matrices @ matrices.mH).max())))


def matrix_norms(matrix: Tensor, name: str = "W", *, lipschitz: float = 1.0) -> LayerNorms:
    """Compute both norms of a dense matrix, or of a sparse one of few columns, in float64."""
    weight = matrix.detach().double().cpu()
    entries = weight.coalesce().values() if weight.is_sparse else weight
    if weight.ndim != 2 or not entries.isfinite().all():
        accepted, got = "a matrix of finite numbers", f"shape {tuple(weight.shape)}"
        raise parameter_error("matrix_norms", "matrix", accepted, got, "Look for nan and inf.")
    if not entries.any():  # the ratio of both norms is undefined
        raise parameter_error("matrix_norms", "matrix", "a matrix that is not zero", "zeros")
    if weight.is_sparse:
        index = tuple(weight.coalesce().indices().numpy())
        rows = csr_array((entries.numpy(), index), shape=tuple(weight.shape))
        # The Gram matrix is small, and W_M holds small integers, so that it is even exact. Squaring
        # costs the small singular values their digits, but not the largest.
        spectral = float(np.sqrt(np.linalg.eigvalsh((rows.T @ rows).toarray())[-1]))
        two_one = float(np.sqrt(rows.power(2).sum(axis=1)).sum())
    else:
        spectral, two_one = largest_of(weight[None]), float(weight.norm(dim=1).sum())
    return LayerNorms(name, spectral, two_one, lipschitz)
