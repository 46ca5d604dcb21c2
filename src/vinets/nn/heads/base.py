"""What every head offers, and the pieces that several of them use.

A head takes latents of shape (B, C, P), ``C`` channels at ``P`` positions, to logits (B, K).
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale
from vinets.nn.blocks import BlockPolynomialLayer
from vinets.nn.monomials import Monomials
from vinets.nn.polynomial import PolynomialLayer, affine_of

__all__ = [
    "Head",
    "LinearPath",
    "SpatialSum",
    "folded_linear",
    "inputs_config",
    "inputs_from",
    "numbers",
    "polynomials_from",
]


class Head(nn.Module):
    """Base of all heads: latents (B, C, P) to logits (B, K)."""

    kind: ClassVar[str]
    label: ClassVar[str] = ""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """JSON-able description from which, with the state, the head is made again."""

    @classmethod
    @abstractmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """A head of the shapes that ``config`` and ``state`` tell; the state is not loaded yet."""

    @abstractmethod
    def parts(self) -> dict[str, int]:
        """How many numbers each part stores."""

    def folded(self) -> Head:
        """The head for inference: same outputs in eval mode, fewer numbers and operations."""
        return self

    def trained_parameters(self) -> list[nn.Parameter]:
        """The parameters that fine-tuning changes."""
        return [p for p in self.parameters() if p.requires_grad]


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

    Parameters
    ----------
    channels, positions, width, classes : int
        ``C``, ``P``, channels kept at every position, and ``K``. With ``width >= C`` the first map
        would add nothing and is left out.
    scale : float, default=1.0
        Divides the latents, so that their size does not decide how fast the path learns.
    """

    def __init__(
        self, channels: int, positions: int, width: int, classes: int, *, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.channels, self.width = channels, width
        self.scale: Tensor
        self.register_buffer("scale", torch.tensor(float(scale)))
        narrow = width < channels
        self.reduce = nn.Conv1d(channels, width, 1, bias=False) if narrow else None
        self.out = nn.Linear((width if narrow else channels) * positions, classes, bias=False)

    @classmethod
    def from_config(cls, shape: Sequence[int] | None, classes: int) -> LinearPath | None:
        """The path that :meth:`config` describes, or none."""
        if shape is None:
            return None
        channels, positions, width = shape
        return cls(channels, positions, width, classes)

    @classmethod
    def like(cls, path: LinearPath | None) -> LinearPath | None:
        """An untrained path of the same shape, or none."""
        if path is None:
            return None
        channels, positions, width = path.config()
        return cls(channels, positions, width, path.out.out_features, scale=float(path.scale)).to(
            path.out.weight.device
        )

    @torch.no_grad()
    def folded(self) -> LinearPath:
        """The same outputs without a scale."""
        plain = copy.deepcopy(self)
        plain.out.weight.div_(self.scale)
        plain.scale.fill_(1.0)
        return plain

    def config(self) -> list[int]:
        """Channels, positions and width."""
        if self.reduce is None:
            return [self.channels, self.out.in_features // self.channels, self.width]
        return [self.channels, self.out.in_features // self.width, self.width]

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


def numbers(*modules: nn.Module | None) -> int:
    """Numbers stored by modules: parameters and floating-point buffers."""
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
    """Rescaling and projection of the shapes that :func:`inputs_config` told."""
    shape = tuple(config["rescale"])
    rescale = Rescale(torch.zeros(shape), torch.ones(shape), squash=config["squash"])
    if config["projection"] is None:
        return rescale, None
    n, width = config["projection"]
    weight, bias = torch.zeros(n, width), torch.zeros(n)
    return rescale, Projection(weight, bias, trainable=config["trained_projection"])


def polynomials_from(
    config: Mapping[str, Any], state: Mapping[str, Tensor]
) -> PolynomialLayer | BlockPolynomialLayer:
    """The polynomial layer of the shapes that ``config`` and ``state`` tell."""
    options = dict(config)
    kind, n_variables = options.pop("kind"), options.pop("n_variables")
    terms = Monomials.terms_of(state, "polynomials.monomials.", n_variables)
    if kind == "shared":
        return PolynomialLayer(terms, options.pop("count"), **options)
    counts, sizes = options["counts"], options["sizes"]
    columns = [state[f"polynomials.columns_{k}"] for k in range(len(sizes))]
    leading = state["polynomials.leading"]
    for index in (*columns, leading):
        inside = index.dtype == torch.int64 and index.ndim == 1
        if not inside or ((index < 0) | (index >= len(terms))).any():
            raise ValueError(f"blocks must hold positions of the {len(terms)} terms.")
    return BlockPolynomialLayer(terms, columns, leading, counts)
