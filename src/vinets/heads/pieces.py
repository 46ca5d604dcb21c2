"""The pieces that several heads are made of, and the maps as which theory reads a head."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vinets.heads.polynomial_layer import MonomialLayer, affine_of
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale

CACHED_VALUES = 1 << 19  # values that a CPU works on at a time
INTEGRAL_STEPS = 32  # steps of the sum that stands for an integral


def by_parts(run: Callable[[Tensor], Tensor], batch: Tensor, size: int) -> Tensor:
    """Run a function on a batch, a few images at a time where that is faster.

    On a CPU, ``size`` values an image cost more than the products that make them once those of all
    images no longer fit into the cache.
    """
    if traced() or not batch.is_cpu:  # a traced batch has no length to compare
        return run(batch)
    return torch.cat([run(part) for part in batch.split(max(1, CACHED_VALUES // size))])


def traced() -> bool:
    """Tell whether operations are recorded, to be compiled or exported."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def in_use() -> bool:
    """Tell whether a network only runs: no gradients are wanted, and nothing is exported.

    Exported files keep the plain operations, which runtimes and quantisation know.
    """
    # is_exporting() says yes to the compiler of torch 2.11, too; torch 2.6 does not tell the two.
    exporting = getattr(torch.compiler, "_is_exporting_flag", torch.compiler.is_compiling())
    return not (torch.is_grad_enabled() or torch.jit.is_tracing() or exporting)


class SpatialSum(nn.Module):
    """Sum over positions with one trained weight per feature and position: (B, P, N) to (B, N)."""

    def __init__(self, features: int, positions: int) -> None:
        super().__init__()
        start = torch.full((positions, features), 1 / positions)
        self.weight = nn.Parameter(start + 0.1 / positions * torch.randn(positions, features))

    def forward(self, y: Tensor) -> Tensor:
        return (y * self.weight).sum(1)


class LinearPath(nn.Module):
    """Logits that are linear in the latents: channels to ``width`` at every position, then out.

    With ``width`` no less than the channels the first map would add nothing and is left out. The
    scale divides the latents, so that their size does not decide how fast the path learns.
    """

    scale: Tensor

    def __init__(
        self, channels: int, positions: int, width: int, classes: int, *, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.shape = channels, positions, width, classes
        self.register_buffer("scale", torch.tensor(float(scale)))
        narrow = width < channels
        self.reduce = nn.Conv1d(channels, width, 1, bias=False) if narrow else None
        self.out = nn.Linear(min(width, channels) * positions, classes, bias=False)

    @torch.no_grad()
    def folded(self) -> LinearPath:
        """Return a path with the same outputs and without a scale."""
        plain = copy.deepcopy(self)
        plain.out.weight.div_(self.scale)
        plain.scale.fill_(1.0)
        return plain

    def matrix(self) -> Tensor:
        """Return the path as one matrix (K, C P)."""
        out = self.out.weight / self.scale
        if self.reduce is None:
            return out
        spread = out.unflatten(1, (-1, self.shape[1]))  # (K, width, P)
        return torch.einsum("kwp,wc->kcp", spread, self.reduce.weight[..., 0]).flatten(1)

    def forward(self, h: Tensor) -> Tensor:  # (B, C, P)
        if self.reduce is not None:
            h = self.reduce(h)
        return self.out(h.flatten(1) / self.scale)


def linear_of(weight: Tensor, bias: Tensor) -> nn.Linear:
    """Make a linear layer of a weight (K, D) and a bias (K,), without random numbers."""
    linear = nn.utils.skip_init(nn.Linear, *weight.mT.shape, device=weight.device)
    linear.weight, linear.bias = nn.Parameter(weight.contiguous()), nn.Parameter(bias)
    return linear


@torch.no_grad()
def folded_linear(norm: nn.BatchNorm1d, linear: nn.Linear) -> nn.Linear:
    """Return batch normalisation followed by a linear layer as one linear layer."""
    (gain, offset), weight = affine_of(norm), linear.weight.double()
    bias = weight @ offset
    if linear.bias is not None:
        bias = bias + linear.bias.double()
    return linear_of((weight * gain).to(linear.weight), bias.to(linear.weight))


def parameter_count(*modules: nn.Module | None) -> int:
    """Count the parameters that modules store, floating-point buffers included."""
    tensors = [t for m in modules if m is not None for t in (*m.parameters(), *m.buffers())]
    return sum(t.numel() for t in tensors if t.is_floating_point())


def inputs_config(rescale: Rescale, projection: Projection | None) -> dict[str, Any]:
    """Describe rescaling and projection in JSON values."""
    shape, trained = None, False
    if projection is not None:
        shape, trained = list(projection.weight.shape), projection.weight.requires_grad
    inputs = {"rescale": list(rescale.mean.shape), "squash": rescale.squash}
    return {**inputs, "projection": shape, "trained_projection": trained}


def inputs_from(config: Mapping[str, Any]) -> tuple[Rescale, Projection | None]:
    """Make rescaling and projection of the shapes in a description by :func:`inputs_config`."""
    shape = tuple(config["rescale"])
    rescale = Rescale(torch.zeros(shape), torch.ones(shape), squash=config["squash"])
    if config["projection"] is None:
        return rescale, None
    n, width = config["projection"]
    weight, bias = torch.zeros(n, width), torch.zeros(n)
    return rescale, Projection(weight, bias, trainable=config["trained_projection"])


# --- maps -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LinearMap:
    r"""One linear map, without the zeros and repetitions of its matrix.

    It acts at ``copies`` positions alike, :math:`I_P \otimes W`, or on means over ``averaged``
    positions, :math:`W \otimes (1, \dots, 1) / P`.
    """

    name: str  # name of the layer in tables
    matrix: Tensor  # W of shape (rows, columns), or (columns,) for the diagonal of one
    copies: int = 1
    averaged: int = 1
    lipschitz: float = 1.0  # Lipschitz constant of the activation behind it

    def dense(self) -> Tensor:
        """Return the whole matrix; for small ones, to check or to look at."""
        matrix = torch.diag(self.matrix) if self.matrix.ndim == 1 else self.matrix
        wide = (matrix / self.averaged).repeat_interleave(self.averaged, dim=1)
        return torch.block_diag(*[wide] * self.copies)


@dataclass(frozen=True, eq=False)
class PolynomialMap:
    """Absolute values of polynomials in what the maps before them return."""

    layer: MonomialLayer  # the N polynomials, folded
    weight: Tensor  # (K, N), the linear layer behind them, without a sum over positions
    reach: float  # bound on the absolute values of the variables, whatever the input
    positions: int = 1  # at which they are evaluated


@dataclass(frozen=True, eq=False)
class HeadMaps:
    r"""A folded head as theory reads it: linear maps with 1-Lipschitz activations between them.

    .. math:: h \mapsto W_F\,\sigma\bigl(\dots \sigma(W_2\,\sigma(W_1 h))\bigr) + S h

    for latents :math:`h` in :math:`\mathbb{R}^{CP}`; polynomials may stand before :math:`W_F`, and
    the path :math:`S` may be missing. Offsets do not matter to a Lipschitz constant and are left
    out.
    """

    before: tuple[LinearMap, ...]  # each with an activation, or none, behind it
    final: LinearMap  # to the K logits
    polynomials: PolynomialMap | None = None  # between those
    path: Tensor | None = None  # (K, C P): logits linear in the latents, added to the others

    def __post_init__(self) -> None:
        # Theory stacks a path below the first matrix and next to the last one.
        ends = (*self.before[:1], self.final)
        plain = all(each.copies == each.averaged == 1 for each in ends)
        if self.path is not None and not (self.before and plain):
            raise ValueError(
                "a path goes around two maps or more, the first and the last of them without "
                "copies and averages. Add the path to the matrix, or write the maps out."
            )


# --- gradients of a margin --------------------------------------------------------------------


def margin_gradient(
    network: Callable[[Tensor], Tensor], images: Tensor, answers: Tensor, nexts: Tensor
) -> Tensor:
    """Compute the gradient of the logit of the answer less that of the next class."""
    with torch.enable_grad():
        images = images.detach().requires_grad_()
        logits = network(images)
        margins = logits.gather(1, answers[:, None]) - logits.gather(1, nexts[:, None])
        (gradient,) = torch.autograd.grad(margins.sum(), images)
    return gradient


def integrated_gradients(
    network: Callable[[Tensor], Tensor],
    images: Tensor,
    answers: Tensor,
    nexts: Tensor,
    steps: int = INTEGRAL_STEPS,
) -> Tensor:
    r"""Compute integrated gradients, what every pixel adds to a margin, for any network.

    .. math:: x_i \int_0^1 \frac{\partial\,(\ell_a - \ell_r)}{\partial x_i}(t x)\,dt

    On the way from 0, the mean pixel of normalised images (B, C, H, W), to the image, they sum to
    the difference of the margins at both ends, up to the error of a sum that stands for the
    integral (Sundararajan, Taly and Yan, 2017). The result is summed over the channels, (B, H, W).

    Examples
    --------
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    >>> x, a, b = torch.ones(1, 1, 2, 2), torch.tensor([0]), torch.tensor([1])
    >>> gradients = integrated_gradients(network, x, a, b)
    >>> weight = network[1].weight
    >>> torch.allclose(gradients.flatten(), weight[0] - weight[1])
    True
    """
    total = torch.zeros_like(images)
    for i in range(steps):
        total += margin_gradient(network, images * ((i + 0.5) / steps), answers, nexts)
    return (total / steps * images).sum(1).detach()
