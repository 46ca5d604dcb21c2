"""Made-up point sets: manifolds with known equations, and points that look like latents."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


def circle(m: int = 200, noise: float = 0.02, radius: float = 0.9, seed: int = 0) -> Points:
    """Noisy points (m, 2) of the circle ``x0^2 + x1^2 = radius^2``."""
    return _sphere(m, 2, noise, radius, seed)


def sphere(m: int = 400, noise: float = 0.02, radius: float = 0.9, seed: int = 0) -> Points:
    """Noisy points (m, 3) of the sphere ``x0^2 + x1^2 + x2^2 = radius^2``."""
    return _sphere(m, 3, noise, radius, seed)


def latent_like(
    m: int = 512, n: int = 128, rank: int = 8, noise: float = 0.05, gain: float = 1.0, seed: int = 0
) -> Points:
    r"""Points (m, n) like one class in a latent space: tanh of a noisy low-rank mixture.

    .. math:: z = \tanh(\gamma A(\mu_c + h) + \sigma\epsilon),

    with ``A`` (n, rank), four component means ``mu``, standard normal ``h`` and ``epsilon``, and
    :math:`\gamma` the gain, :math:`\sigma` the noise.
    """
    random = np.random.default_rng(seed)
    means = 0.5 * random.normal(size=(4, rank))
    hidden = means[random.integers(4, size=m)] + random.normal(size=(m, rank))
    mixing = random.normal(size=(rank, n)) / np.sqrt(rank)
    values: Points = np.tanh(gain * (hidden @ mixing) + noise * random.normal(size=(m, n)))
    return values


def latent_like_classes(
    n_classes: int,
    m: int = 512,
    n: int = 128,
    rank: int = 8,
    noise: float = 0.05,
    gain: float = 1.0,
    seed: int = 0,
) -> tuple[Points, NDArray[np.int64]]:
    """Points (n_classes * m, n) and labels, every class drawn by :func:`latent_like`."""
    parts = [latent_like(m, n, rank, noise, gain, seed=seed + k) for k in range(n_classes)]
    return np.concatenate(parts), np.repeat(np.arange(n_classes), m)


def _sphere(m: int, n: int, noise: float, radius: float, seed: int) -> Points:
    random = np.random.default_rng(seed)
    direction = random.normal(size=(m, n))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    points: Points = radius * direction + noise * random.normal(size=(m, n))
    return points
