"""Draw synthetic data: manifolds with known equations, points like latents, images of no class."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FloatArray: TypeAlias = NDArray[np.float64]


def circle(m: int = 200, noise: float = 0.02, radius: float = 0.9, seed: int = 0) -> FloatArray:
    """Draw noisy points (m, 2) of the circle ``x0^2 + x1^2 = radius^2``."""
    return sphere(m, noise, radius, seed, n=2)


def sphere(
    m: int = 400, noise: float = 0.02, radius: float = 0.9, seed: int = 0, *, n: int = 3
) -> FloatArray:
    """Draw noisy points (m, n) of the sphere ``x0^2 + x1^2 + x2^2 = radius^2``."""
    random = np.random.default_rng(seed)
    direction = random.normal(size=(m, n))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    points: FloatArray = radius * direction + noise * random.normal(size=(m, n))
    return points


def latent_like(
    m: int = 512, n: int = 128, rank: int = 8, noise: float = 0.05, gain: float = 1.0, seed: int = 0
) -> FloatArray:
    r"""Draw points (m, n) like one class of latents: tanh of a noisy low-rank mixture.

    .. math:: z = \tanh(\gamma A(\mu_c + h) + \sigma\epsilon),

    with ``A`` (n, rank), four component means ``mu``, standard normal ``h`` and ``epsilon``, and
    :math:`\gamma` the gain, :math:`\sigma` the noise.
    """
    random = np.random.default_rng(seed)
    means = 0.5 * random.normal(size=(4, rank))
    hidden = means[random.integers(4, size=m)] + random.normal(size=(m, rank))
    mixing = random.normal(size=(rank, n)) / np.sqrt(rank)
    values: FloatArray = np.tanh(gain * (hidden @ mixing) + noise * random.normal(size=(m, n)))
    return values


def latent_like_classes(
    n_classes: int, m: int = 512, n: int = 128, rank: int = 8, seed: int = 0, **more: float
) -> tuple[FloatArray, NDArray[np.int64]]:
    """Draw points (n_classes * m, n) and labels, every class by :func:`latent_like`."""
    parts = [latent_like(m, n, rank, seed=seed + k, **more) for k in range(n_classes)]
    return np.concatenate(parts), np.repeat(np.arange(n_classes), m)


def noise(count: int, shape: tuple[int, int, int] = (3, 32, 32), seed: int = 0) -> Tensor:
    """Draw images of independent pixels, uint8 (count, C, H, W): half uniform, half Gaussian."""
    draw = torch.Generator().manual_seed(seed)
    uniform = torch.rand(count - count // 2, *shape, generator=draw) * 255
    gaussian = torch.randn(count // 2, *shape, generator=draw) * 64 + 128
    return torch.cat([uniform, gaussian]).clamp(0, 255).round().to(torch.uint8)


def textures(count: int, shape: tuple[int, int, int] = (3, 32, 32), seed: int = 0) -> Tensor:
    """Draw gratings, boards, rings and sums of two waves in two colours, uint8 (count, C, H, W)."""
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
