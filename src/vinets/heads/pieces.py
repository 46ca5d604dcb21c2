"""Modules and functions that several heads share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from vinets.heads.polynomial_layer import affine_of
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale

CACHED = 1 << 19  # values at a time


def by_parts(run: Callable[[Tensor], Tensor], batch: Tensor, size: int) -> Tensor:
    """What ``run`` makes of a batch, a few images at a time where that is faster.

    On a CPU, ``size`` values an image cost more than the products that make them once those of all
    images no longer fit into the cache.
    """
    # a traced batch has no length to compare
    if traced() or not batch.is_cpu:
        return run(batch)
    return torch.cat([run(part) for part in batch.split(max(1, CACHED // size))])


def traced() -> bool:
    """Whether operations are recorded, to be compiled or exported."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()


def _is_exporting() -> bool:
    # is_exporting() says yes to the compiler of torch 2.11, too; torch 2.6 does not tell the two
    return getattr(torch.compiler, "_is_exporting_flag", torch.compiler.is_compiling())


def in_use() -> bool:
    """Whether a network only runs: no gradients are wanted, and nothing is exported.

    Exported files keep the plain operations, which runtimes and quantisation know.
    """
    exported = torch.jit.is_tracing() or _is_exporting()
    return not (torch.is_grad_enabled() or exported)


class SpatialSum(nn.Module):
    """Sum over positions with one trained weight per feature and position: (B, P, N) to (B, N)."""

    def __init__(self, features: int, positions: int) -> None:
        super().__init__()
        start = torch.full((positions, features), 1 / positions)
        self.weight = nn.Parameter(start + 0.1 / positions * torch.randn(positions, features))

    def forward(self, y: Tensor) -> Tensor:
        return (y * self.weight).sum(1)

    def of_forms(self, h: Tensor, weight: Tensor, bias: Tensor, slope: float) -> Tensor:
        """Sums of affine forms of ``h`` (B, P, S), those below zero times ``slope`` first.

        For training on a CPU; there are no gradients of its gradients.
        """
        images = max(1, CACHED // self.weight.numel())
        apply: Any = _SumsOfForms.apply  # untyped
        sums: Tensor = apply(h, weight, bias, self.weight, slope, images)
        return sums


class _SumsOfForms(torch.autograd.Function):
    """Spatial sums of forms on a CPU, where reading values takes as long as multiplying matrices.

    Of the values (B, P, N) only the forms are kept, and gradients of all parts are added in place.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        spatial: Tensor,
        slope: float,
        images: int,
    ) -> Tensor:
        forms, sums = [], []
        for part in h.split(images):
            y = F.linear(part, weight, bias)
            sums.append(F.leaky_relu(y, slope).mul_(spatial).sum(1))
            forms.append(y)
        ctx.save_for_backward(h, weight, spatial, *forms)
        ctx.slope, ctx.images = slope, images
        return torch.cat(sums)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        h, weight, spatial, *forms = ctx.saved_tensors
        to_h: list[Tensor] = []
        to_weight, to_spatial = torch.zeros_like(weight), torch.zeros_like(spatial)
        to_bias = torch.zeros_like(weight[:, 0])
        parts = zip(h.split(ctx.images), forms, grad[:, None].split(ctx.images), strict=True)
        for part, y, g in parts:
            # g times the slope at y; the slope times y is the value
            d = torch.ops.aten.leaky_relu_backward(g, y, ctx.slope, False)
            to_spatial += (d * y).sum(0)
            d = d.mul_(spatial).flatten(0, 1)
            to_bias += d.sum(0)
            to_weight.addmm_(d.mT, part.flatten(0, 1))
            if ctx.needs_input_grad[0]:
                to_h.append((d @ weight).view_as(part))
        return torch.cat(to_h) if to_h else None, to_weight, to_bias, to_spatial, None, None


class TrainedTail(nn.Module):
    """The trained part of a head behind frozen variables: see :meth:`vinets.heads.Head.split`.

    Polynomials, if it has any, normalisation and a linear layer. They belong to the head, so that
    training this trains the head.
    """

    def __init__(
        self, features: nn.Module | None, norm: nn.BatchNorm1d | None, linear: nn.Linear
    ) -> None:
        super().__init__()
        self.features, self.norm, self.linear = features, norm, linear

    def forward(self, z: Tensor) -> Tensor:
        y = z if self.features is None else self.features(z)
        logits: Tensor = self.linear(y if self.norm is None else self.norm(y))
        return logits


class LinearPath(nn.Module):
    """Logits that are linear in the latents: channels to ``width`` at every position, then out.

    With ``width`` no less than the channels the first map would add nothing and is left out. The
    scale divides the latents, so that their size does not decide how fast the path learns.
    """

    def __init__(
        self, channels: int, positions: int, width: int, classes: int, *, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.shape = channels, positions, width, classes
        self.scale: Tensor
        self.register_buffer("scale", torch.tensor(float(scale)))
        narrow = width < channels
        self.reduce = nn.Conv1d(channels, width, 1, bias=False) if narrow else None
        self.out = nn.Linear(min(width, channels) * positions, classes, bias=False)

    def like(self) -> LinearPath:
        """An untrained path of the same shape."""
        return LinearPath(*self.shape, scale=float(self.scale)).to(self.out.weight.device)

    @torch.no_grad()
    def folded(self) -> LinearPath:
        """The same outputs without a scale."""
        plain = copy.deepcopy(self)
        plain.out.weight.div_(self.scale)
        plain.scale.fill_(1.0)
        return plain

    def matrix(self) -> Tensor:
        """The path as one matrix (K, C P)."""
        out = self.out.weight / self.scale
        if self.reduce is None:
            return out
        spread = out.unflatten(1, (-1, self.shape[1]))  # (K, width, P)
        return torch.einsum("kwp,wc->kcp", spread, self.reduce.weight[..., 0]).flatten(1)

    def forward(self, h: Tensor) -> Tensor:  # (B, C, P)
        if self.reduce is not None:
            h = self.reduce(h)
        return self.out(h.flatten(1) / self.scale)


@torch.no_grad()
def folded_linear(norm: nn.BatchNorm1d, linear: nn.Linear) -> nn.Linear:
    """Batch normalisation followed by a linear layer, as one linear layer."""
    gain, offset = affine_of(norm)
    plain = copy.deepcopy(linear)
    weight = linear.weight.double()
    bias = weight @ offset
    if linear.bias is not None:
        bias = bias + linear.bias.double()
    plain.weight.copy_(weight * gain)
    plain.bias = nn.Parameter(bias.to(linear.weight))
    return plain


def parameter_count(*modules: nn.Module | None) -> int:
    """How many parameters modules store, floating-point buffers counted in."""
    total = 0
    for module in modules:
        if module is not None:
            total += sum(p.numel() for p in module.parameters())
            total += sum(b.numel() for b in module.buffers() if b.is_floating_point())
    return total


def inputs_config(rescale: Rescale, projection: Projection | None) -> dict[str, Any]:
    """JSON-able description of rescaling and projection."""
    return {
        "rescale": list(rescale.mean.shape),
        "squash": rescale.squash,
        "projection": None if projection is None else list(projection.weight.shape),
        "trained_projection": projection is not None and projection.weight.requires_grad,
    }


def inputs_from(config: Mapping[str, Any]) -> tuple[Rescale, Projection | None]:
    """Rescaling and projection of the shapes in a description by :func:`inputs_config`."""
    shape = tuple(config["rescale"])
    rescale = Rescale(torch.zeros(shape), torch.ones(shape), squash=config["squash"])
    if config["projection"] is None:
        return rescale, None
    n, width = config["projection"]
    weight, bias = torch.zeros(n, width), torch.zeros(n)
    return rescale, Projection(weight, bias, trainable=config["trained_projection"])
