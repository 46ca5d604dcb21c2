"""Bring latents to unit scale, and into the unit cube; the moments that this takes."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from vinets.core.checks import one_of, parameter_error
from vinets.latent.collect import LatentStore

MIN_DEVIATION = 1e-12  # as a share of the mean; what is smaller is the rounding of a constant


class Rescale(nn.Module):
    """``z -> tanh((z - mean) / std)``, entry by entry; without ``squash``, the tanh is left out.

    Mean and deviation have one shape that broadcasts over a batch of latents: ``(D,)`` for features
    of ``(B, D)``, ``(C, 1)`` for channels of ``(B, C, P)``. They are kept as float32 buffers.
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
        """Take mean and standard deviation from a pass over the latents; see :func:`moments`."""
        return cls(*moments(latents, per), squash=squash)

    def forward(self, z: Tensor) -> Tensor:
        scaled = (z - self.mean).div_(self.std)
        return scaled.tanh_() if self.squash else scaled

    def extra_repr(self) -> str:
        return f"shape={tuple(self.mean.shape)}, squash={self.squash}"


def moments(latents: LatentStore | Iterable[Tensor], per: str = "feature") -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of latents ``(m, ...)``, by chunks in float64.

    Chunks of sizes ``n`` and ``b`` merge by Chan's formulas, which do not cancel:

    ``mean = mean_n + d * b / (n + b)``,  ``S = S_n + S_b + d**2 * n * b / (n + b)``,

    where ``d = mean_b - mean_n`` and ``S`` sums the squared deviations. The standard deviation
    divides by the count, and is 1 where the latents are constant, so that one may divide by it.

    There is one result for every value of a latent, or with ``per="channel"`` one for every index
    of its first axis, pooled over the others, which are kept with length 1. Both are in float64.
    """
    one_of("moments", "per", per, ("feature", "channel"))
    shape: torch.Size | None = None
    count = 0
    mean = squares = torch.zeros((), dtype=torch.float64)
    chunks = (z for z, _ in latents.chunks()) if isinstance(latents, LatentStore) else latents
    for chunk in chunks:
        if chunk.ndim < 2 or (shape is not None and chunk.shape[1:] != shape):
            expected = "(b, ...)" if shape is None else f"(b, {', '.join(map(str, shape))})"
            raise ValueError(
                f"Chunks of latents must have one shape, {expected}. "
                f"Got {tuple(chunk.shape)} instead."
            )
        shape = chunk.shape[1:]
        if not chunk.numel():
            continue
        values = chunk.to(torch.float64)  # float32 sums lose digits over millions of latents
        axes = [0] if per == "feature" else [0, *range(2, values.ndim)]
        chunk_mean = values.mean(axes, keepdim=True)
        size = values.numel() // chunk_mean.numel()
        share, apart = size / (count + size), chunk_mean - mean
        # With the first chunk, the mean is 0, the share 1 and the count 0: it is taken as it is.
        mean = mean + apart * share
        squares = squares + (values - chunk_mean).square().sum(axes, keepdim=True)
        squares = squares + apart.square() * (count * share)
        count += size
    if count == 0:
        raise ValueError("The moments of no latents are not defined: pass at least one.")
    if not bool(torch.isfinite(squares).all()):
        raise ValueError("The latents hold NaN or infinite values; look at the network first.")
    std = (squares / count).sqrt()
    # A mean of zero needs a floor: the smallest normal number in the float32 of Rescale.
    smallest = (MIN_DEVIATION * mean.abs()).clamp_min(torch.finfo(torch.float32).tiny)
    return mean[0], torch.where(std > smallest, std, 1.0)[0]
