"""Generated images of no class, to try out-of-distribution scores on: noise and textures."""

from __future__ import annotations

import torch
from torch import Tensor


def noise(count: int, shape: tuple[int, int, int] = (3, 32, 32), seed: int = 0) -> Tensor:
    """Images of independent pixels, uint8 (count, C, H, W): half uniform, half Gaussian.

    Examples
    --------
    >>> noise(4, (1, 8, 8)).shape
    torch.Size([4, 1, 8, 8])
    """
    draw = torch.Generator().manual_seed(seed)
    uniform = torch.rand(count - count // 2, *shape, generator=draw) * 255
    gaussian = torch.randn(count // 2, *shape, generator=draw) * 64 + 128
    return torch.cat([uniform, gaussian]).clamp(0, 255).round().to(torch.uint8)


def textures(count: int, shape: tuple[int, int, int] = (3, 32, 32), seed: int = 0) -> Tensor:
    """Gratings, boards, rings and sums of two waves in two random colours, uint8 (count, C, H, W).

    Examples
    --------
    >>> textures(4, (1, 8, 8)).dtype
    torch.uint8
    """
    channels, height, width = shape
    draw = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *more: int) -> Tensor:
        return low + (high - low) * torch.rand(count, *more, 1, 1, generator=draw)

    rows, columns = torch.linspace(-1, 1, height), torch.linspace(-1, 1, width)
    y, x = torch.meshgrid(rows, columns, indexing="ij")
    angle, other = uniform(0, torch.pi), uniform(0, torch.pi)
    rate, phase = uniform(4, 30), uniform(0, 2 * torch.pi)
    u = torch.cos(angle) * x + torch.sin(angle) * y
    v = -torch.sin(angle) * x + torch.cos(angle) * y
    w = torch.cos(other) * x + torch.sin(other) * y
    waves = [
        torch.sin(rate * u + phase),
        torch.sign(torch.sin(rate * u + phase) * torch.sin(rate * v)),
        torch.sin(rate * ((x - uniform(-1, 1)) ** 2 + (y - uniform(-1, 1)) ** 2).sqrt() + phase),
        (torch.sin(rate * u + phase) + torch.sin(0.6 * rate * w)) / 2,
    ]
    kind = torch.randint(len(waves), (count,), generator=draw)
    wave = torch.stack(waves)[kind, torch.arange(count)].unsqueeze(1)
    first, second = uniform(0, 255, channels), uniform(0, 255, channels)
    return ((first + second + wave * (first - second)) / 2).round().to(torch.uint8)
