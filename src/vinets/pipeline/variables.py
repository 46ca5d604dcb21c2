"""What polynomials see of the latents: one vector of the whole map, or the values at a position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.latent.pca import PCA, Projection, fit_pca
from vinets.latent.rescale import Rescale
from vinets.nn.heads.local import local_variables
from vinets.pipeline.collect import Latents
from vinets.settings import Placing, Projecting

__all__ = ["Variables", "find_variables"]


@dataclass(frozen=True, eq=False)
class Variables:
    """Points in the variables of the polynomials, and the layers that make them."""

    rescale: Rescale  # z -> tanh((z - mean) / std)
    projection: Projection | None  # None where the channels themselves are the variables
    points: Tensor  # (m, n), one for every example
    labels: Tensor  # (m,), on the same device
    explained: float | None  # share of the variance that the components keep
    seconds: float  # of wall-clock time


def find_variables(
    latents: Latents, placing: Placing, projecting: Projecting, *, seed: int = 0
) -> Variables:
    """Rescale and project latents as the head of that placement will."""
    begin = time.perf_counter()
    find = _local if placing.placement == "local" else _global
    rescale, projection, points, explained = find(latents, projecting, seed)
    points = points.detach()
    labels = latents.store.labels.to(points.device)
    return Variables(rescale, projection, points, labels, explained, time.perf_counter() - begin)


def _global(
    latents: Latents, projecting: Projecting, seed: int
) -> tuple[Rescale, Projection, Tensor, float]:
    """The flattened map, rescaled and projected in one of the two orders."""
    channels, positions = latents.shape

    def flat() -> Iterator[Tensor]:
        for values, _ in latents.store.chunks():
            yield values.flatten(1)

    auto = projecting.components == "auto"
    n = 128 if auto else projecting.components or channels * positions
    if projecting.order == "tanh-pca":
        rescale = Rescale.fit(flat())
        pca = _pca(lambda: map(rescale, flat()), n, projecting, seed)
        projection = _projection(pca, projecting, projecting.scale)
        points = torch.cat([projection(rescale(z)) for z in flat()])
    else:
        pca = _pca(flat, n, projecting, seed)
        projection = _projection(pca, projecting, projecting.scale)
        n = len(projection.bias)
        rescale = Rescale(torch.zeros(n), torch.ones(n)).to(projection.weight.device)
        points = torch.cat([rescale(projection(z)) for z in flat()])
    return rescale, projection, points, float(pca.explained.sum())


def _local(
    latents: Latents, projecting: Projecting, seed: int
) -> tuple[Rescale, Projection | None, Tensor, float | None]:
    """The channels at one position of every example, drawn at random, perhaps projected."""
    store, (channels, positions) = latents.store, latents.shape
    rescale = Rescale.fit(store)
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randint(positions, (len(store),), generator=generator)
    parts, start = [], 0
    for values, _ in store.chunks():
        at = draws[start : start + len(values)].to(values.device)
        parts.append(rescale(values)[torch.arange(len(at), device=at.device), :, at])
        start += len(values)
    h = torch.cat(parts)  # (m, C)
    projection, explained = None, None
    n = None if projecting.components == "auto" else projecting.components
    if n is not None and int(n) < channels:
        pca = _pca(lambda: [h], n, projecting, seed)
        projection, explained = _projection(pca, projecting, "unit"), float(pca.explained.sum())
    return rescale, projection, local_variables(h, projection, channels=False), explained


def _pca(
    chunks: Callable[[], Iterator[Tensor] | list[Tensor]],
    n: int | str,
    projecting: Projecting,
    seed: int,
) -> PCA:
    return fit_pca(chunks, int(n), method=projecting.pca, seed=seed, at_most=True)


def _projection(pca: PCA, projecting: Projecting, scale: str) -> Projection:
    return Projection.from_pca(pca, scale, trainable=projecting.train_projection)
