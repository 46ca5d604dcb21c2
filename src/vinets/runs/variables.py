"""What polynomials see of the latents: one vector of the whole map, or the values at a position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.core.settings import Placing, Projecting
from vinets.heads.local import local_variables
from vinets.latent.collect import Latents
from vinets.latent.pca import Projection, fit_pca
from vinets.latent.rescale import Rescale


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
    points = points.detach()  # a projection that will be trained keeps a graph
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
        projection, explained = project(
            lambda: map(rescale, flat()), n, projecting, projecting.scale, seed
        )
        points = torch.cat([projection(rescale(z)) for z in flat()])
    else:
        projection, explained = project(flat, n, projecting, projecting.scale, seed)
        n = len(projection.bias)
        # the components have mean zero and, by default, unit variance already
        rescale = Rescale(torch.zeros(n), torch.ones(n)).to(projection.weight.device)
        points = torch.cat([rescale(projection(z)) for z in flat()])
    return rescale, projection, points, explained


def _local(
    latents: Latents, projecting: Projecting, seed: int
) -> tuple[Rescale, Projection | None, Tensor, float | None]:
    """The channels at one position of every example, drawn at random, perhaps projected."""
    rescale = Rescale.fit(latents.store)
    h = descriptors(latents, rescale, seed)
    projection, explained = None, None
    n = None if projecting.components == "auto" else projecting.components
    if n is not None and int(n) < h.shape[1]:
        projection, explained = project(lambda: [h], n, projecting, "unit", seed)
    return rescale, projection, local_variables(h, projection, channels=False), explained


def descriptors(latents: Latents, rescale: Rescale, seed: int) -> Tensor:
    """The channels at one position of every example, drawn at random and rescaled: (m, C)."""
    store, positions = latents.store, latents.shape[1]
    generator = torch.Generator().manual_seed(seed)  # of the CPU: the same draws on any device
    draws = torch.randint(positions, (len(store),), generator=generator)
    parts, start = [], 0
    for values, _ in store.chunks():
        at = draws[start : start + len(values)].to(values.device)
        parts.append(rescale(values)[torch.arange(len(at), device=at.device), :, at])
        start += len(values)
    return torch.cat(parts)


def project(
    chunks: Callable[[], Iterable[Tensor]],
    n: int | str,
    projecting: Projecting,
    scale: str,
    seed: int,
) -> tuple[Projection, float]:
    """Principal components, and the share of the variance that they keep."""
    pca = fit_pca(chunks, int(n), method=projecting.pca, seed=seed, at_most=True)
    projection = Projection.from_pca(pca, scale, trainable=projecting.train_projection)
    return projection, float(pca.explained.sum())
