"""Bring latents to unit scale, and into the unit cube."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from vinets.checks import parameter_error
from vinets.latent.statistics import moments
from vinets.latent.store import LatentStore

__all__ = ["Rescale"]


class Rescale(nn.Module):
    """``z -> tanh((z - mean) / std)``, entry by entry.

    Parameters
    ----------
    mean, std : Tensor
        Of one shape that broadcasts over a batch of latents: ``(D,)`` for features of ``(B, D)``,
        ``(C, 1)`` for channels of ``(B, C, P)``. Kept as float32 buffers.
    squash : bool, default=True
        Whether to apply the tanh. Without it the latents are standardised only.

    Examples
    --------
    >>> rescale = Rescale(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 1.0]), squash=False)
    >>> rescale(torch.tensor([[5.0, 3.0]]))
    tensor([[2., 3.]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor, *, squash: bool = True) -> None:
        super().__init__()
        if mean.shape != std.shape:
            accepted = f"a tensor of the shape of the mean, {tuple(mean.shape)}"
            raise parameter_error("Rescale", "std", accepted, tuple(std.shape))
        self.register_buffer("mean", mean.detach().to(torch.float32))
        self.register_buffer("std", std.detach().to(torch.float32))
        self.squash = bool(squash)

    @classmethod
    def fit(
        cls, latents: LatentStore | Iterable[Tensor], per: str = "feature", *, squash: bool = True
    ) -> Rescale:
        """Mean and standard deviation from one pass over a store, or chunks ``(b, ...)``.

        There is one scale for every value of a latent, or with ``per="channel"`` one for every
        index of its first axis.
        """
        mean, std = moments(latents, per, keepdim=True)
        return cls(mean, std, squash=squash)

    def forward(self, z: Tensor) -> Tensor:
        """Rescaled latents, of the shape of ``z``."""
        scaled = (z - self.mean) / self.std
        return torch.tanh(scaled) if self.squash else scaled

    def extra_repr(self) -> str:
        return f"shape={tuple(self.mean.shape)}, squash={self.squash}"
