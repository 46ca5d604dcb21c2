"""The networks that a VI-Net is compared with, on the same backbone and of like size."""

from __future__ import annotations

import torch
from torch import Tensor

from vinets.nn.heads import (
    ComponentsHead,
    Head,
    LinearHead,
    LocalHead,
    MLPHead,
    VanishingHead,
    random_like,
    relu_like,
)
from vinets.nn.network import CutNetwork, VINet, network_of
from vinets.pipeline.collect import Latents

__all__ = ["baselines"]

POINTS = 20_000  # enough to standardise monomials


def baselines(
    network: VINet, latents: Latents, *, max_degree: int = 5, seed: int = 0
) -> dict[str, CutNetwork]:
    """Networks with other heads behind the same cut, untrained.

    Parameters
    ----------
    network : VINet
        The network to compare with; its backbone is shared.
    latents : Latents
        What it was built on.
    max_degree : int, default=5
        Of the random monomials.
    seed : int, default=0
        Of random monomials and initial weights.

    Returns
    -------
    dict
        Name to network: linear heads on the flat and on the pooled map, and for the global
        placement on the components that the polynomials see; an MLP that stores about as
        many numbers as the VI head; the same head with random monomials, of any degree up to
        ``max_degree`` and of the same degrees; for the local placement also with ReLU.
    """
    head = network.head
    if not isinstance(head, VanishingHead | LocalHead):
        raise ValueError(
            f"baselines are made for a VI-Net. Got a head of kind {head.kind!r} instead."
        )
    classes, (channels, positions) = latents.n_classes, latents.shape
    numbers = sum(head.folded().parts().values())
    points = _variables(head, latents, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        heads: dict[str, Head] = {
            "linear, flat": LinearHead(channels, positions, classes),
            "linear, pooled": LinearHead(channels, positions, classes, pooling="pooled"),
            "MLP": MLPHead.matched(channels, positions, classes, numbers=numbers),
            "random monomials": random_like(head, points, max_degree=max_degree, seed=seed),
            "random, same degrees": random_like(head, points, max_degree=None, seed=seed),
        }
        if isinstance(head, VanishingHead):
            heads["linear, components"] = ComponentsHead.of(head)
        else:
            heads["local ReLU"] = relu_like(head, seed=seed)
    return {
        name: network_of(network.backbone, network.reader, one, network.record).to(latents.device)
        for name, one in heads.items()
    }


@torch.no_grad()
def _variables(head: VanishingHead | LocalHead, latents: Latents, seed: int) -> Tensor:
    """Points (m, n) that the polynomials of ``head`` are evaluated at."""
    device = head.linear.weight.device
    parts = [head.variables(z.to(device)).flatten(0, -2) for z, _ in latents.store.chunks(256)]
    points = torch.cat(parts)
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))
    return points[order[:POINTS].to(points.device)]
