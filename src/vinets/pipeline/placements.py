"""How polynomials see the latents: one vector of the whole map, or the descriptor of a position."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vinets.algebra.terms import TermSet
from vinets.ideals.base import VanishingIdeal
from vinets.latent.pca import PCA, Projection, fit_pca
from vinets.latent.rescale import Rescale
from vinets.nn.heads import LinearPath, LocalHead, VanishingHead
from vinets.nn.heads.local import local_variables
from vinets.nn.polynomial import PolynomialLayer
from vinets.pipeline.collect import Latents
from vinets.pipeline.vanish import Found, Pruning, find_polynomials

__all__ = [
    "Placed",
    "Projecting",
    "Variables",
    "fit_and_check",
    "global_variables",
    "place_global",
    "place_local",
]


@dataclass(frozen=True)
class Projecting:
    """From latents to variables.

    Parameters
    ----------
    n_components : int or None
        Variables of the polynomials; None (local placement only) takes the channels themselves.
    order : {"tanh-pca", "pca-tanh"}
        What comes first in the global placement.
    method : {"auto", "exact", "randomized", "streaming"}
        Of the principal component analysis.
    trainable : bool
        Fine-tuning changes the projection as well.
    scale : {"unit", "none"}
        Whether each component is divided by its standard deviation (global placement only).
    """

    n_components: int | None = 128
    order: str = "tanh-pca"
    method: str = "auto"
    trainable: bool = False
    scale: str = "unit"


@dataclass(frozen=True, eq=False)
class Placed:
    """A head and what it was made of."""

    head: VanishingHead | LocalHead
    found: Found
    points: Tensor
    labels: Tensor
    explained: float | None
    seconds: dict[str, float]


@dataclass(frozen=True, eq=False)
class Variables:
    """The points that polynomials of the global placement see, and the layers that make them.

    Parameters
    ----------
    rescale, projection : Module
        What the flattened latents pass through, in the order of :class:`Projecting`.
    points : Tensor of shape (m, n)
        One point per example.
    labels : Tensor of shape (m,)
        Their classes, on the same device.
    explained : float
        Share of the variance that the components keep.
    """

    rescale: Rescale
    projection: Projection
    points: Tensor
    labels: Tensor
    explained: float


def global_variables(latents: Latents, projecting: Projecting, *, seed: int = 0) -> Variables:
    """Rescale and project the flattened maps: one point per example."""
    store, (channels, positions) = latents.store, latents.shape

    def flat() -> Iterator[Tensor]:
        for values, _ in store.chunks():
            yield values.flatten(1)

    n = projecting.n_components or channels * positions
    if projecting.order == "tanh-pca":
        rescale = Rescale.fit(flat())
        pca = _pca(lambda: map(rescale, flat()), n, projecting, seed)
        projection = Projection.from_pca(pca, projecting.scale, trainable=projecting.trainable)
        points = torch.cat([projection(rescale(z)) for z in flat()])
    else:
        pca = _pca(flat, n, projecting, seed)
        projection = Projection.from_pca(pca, projecting.scale, trainable=projecting.trainable)
        n = len(projection.bias)
        rescale = Rescale(torch.zeros(n), torch.ones(n)).to(projection.weight.device)
        points = torch.cat([rescale(projection(z)) for z in flat()])
    points, labels = points.detach(), store.labels.to(points.device)
    return Variables(rescale, projection, points, labels, float(pca.explained.sum()))


def place_global(
    latents: Latents,
    ideal: VanishingIdeal,
    projecting: Projecting,
    pruning: Pruning,
    *,
    linear_path: int = 0,
    seed: int = 0,
) -> Placed:
    """The paper's head: the flattened map, rescaled and projected, is one point per example."""
    begin = time.perf_counter()
    made = global_variables(latents, projecting, seed=seed)
    projected = time.perf_counter()
    found = find_polynomials(*fit_and_check(made.points, made.labels, latents.fit), ideal, pruning)
    path = _path(latents, linear_path)
    head = VanishingHead(
        made.rescale,
        made.projection,
        found.layer,
        latents.n_classes,
        order=projecting.order,
        path=path,
    )
    seconds = {"projection": projected - begin, "polynomials": time.perf_counter() - projected}
    return Placed(head, found, made.points, made.labels, made.explained, seconds)


def place_local(
    latents: Latents,
    ideal: VanishingIdeal,
    projecting: Projecting,
    pruning: Pruning,
    *,
    linear_path: int = 0,
    seed: int = 0,
) -> Placed:
    """Ideals of the descriptors at the positions of the map, the same polynomials at each."""
    begin = time.perf_counter()
    store, (channels, positions) = latents.store, latents.shape
    rescale = Rescale.fit(store)
    draws = torch.randint(
        positions, (len(store),), generator=torch.Generator().manual_seed(seed)
    )  # one position of every example
    parts, start = [], 0
    for values, _ in store.chunks():
        at = draws[start : start + len(values)].to(values.device)
        parts.append(rescale(values)[torch.arange(len(at), device=at.device), :, at])
        start += len(values)
    h, labels = torch.cat(parts), store.labels.to(parts[0].device)  # (m, C)
    projection, explained = None, None
    if projecting.n_components is not None and projecting.n_components < channels:
        pca = _pca(lambda: [h], projecting.n_components, projecting, seed)
        projection = Projection.from_pca(pca, "unit", trainable=projecting.trainable)
        explained = float(pca.explained.sum())
    points = local_variables(h, projection, channels=False).detach()
    projected = time.perf_counter()
    fit, check = fit_and_check(points, labels, latents.fit)
    found = find_polynomials(fit, check, ideal, pruning, normalized=True, blocks=False)
    assert isinstance(found.layer, PolynomialLayer)
    layer = found.layer
    if projection is not None:
        layer = with_channels(layer, channels, seed)
    path = _path(latents, linear_path)
    head = LocalHead(rescale, projection, layer, latents.n_classes, positions=positions, path=path)
    seconds = {"projection": projected - begin, "polynomials": time.perf_counter() - projected}
    return Placed(head, found, points, labels, explained, seconds)


@torch.no_grad()
def with_channels(layer: PolynomialLayer, channels: int, seed: int) -> PolynomialLayer:
    """The same polynomials in variables behind ``channels`` new ones, plus a linear form in these.

    The linear forms start as random rows of unit norm; the new variables are standardised.
    """
    old = layer.monomials.terms
    first = np.concatenate([np.arange(channels)[:, None], old.blocks[1] + channels])
    blocks = [old.blocks[0], first, *(block + channels for block in old.blocks[2:])]
    terms = TermSet(old.n_variables + channels, tuple(blocks))
    wide = PolynomialLayer(
        terms, len(layer.bias), masked=layer.mask is not None, normalized=layer.norm is not None
    )
    wide.draw(torch.Generator().manual_seed(seed))
    linear = wide.weight[:, :channels]
    linear /= linear.norm(dim=1, keepdim=True)
    wide.weight[:, channels:] = layer.weight
    wide.bias.copy_(layer.bias)
    if layer.mask is not None and wide.mask is not None:
        wide.mask[:, channels:] = layer.mask
    if layer.shift is not None and layer.scale is not None:
        zeros = torch.zeros(channels)
        wide.set_moments(torch.cat([zeros, layer.shift]), torch.cat([zeros + 1, layer.scale]))
    return wide


def _path(latents: Latents, width: int) -> LinearPath | None:
    if width == 0:
        return None
    values, _ = next(latents.store.chunks(1024))
    channels, positions = latents.shape
    # the squared norm of what the last layer sees bounds its learning rate: 64 suits 0.05
    size = (min(width, channels) * positions / 64) ** 0.5
    scale = max(size, 1.0) * float(values.std().clamp_min(1e-12))
    return LinearPath(channels, positions, width, latents.n_classes, scale=scale)


def _pca(
    chunks: Callable[[], Iterator[Tensor] | list[Tensor]], n: int, projecting: Projecting, seed: int
) -> PCA:
    return fit_pca(chunks, n, method=projecting.method, seed=seed, at_most=True)


def fit_and_check(
    points: Tensor, labels: Tensor, fit: Tensor
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Points to fit ideals to, and points to score generators on."""
    mask = fit.to(points.device)
    every = set(labels.unique().tolist()) == set(labels[~mask].unique().tolist())
    other = ~mask if every else torch.ones_like(mask)
    return (points[mask], labels[mask]), (points[other], labels[other])
