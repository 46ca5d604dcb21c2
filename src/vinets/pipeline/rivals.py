"""The networks that a VI-Net is compared with, on the same backbone and of like size."""

from __future__ import annotations

import torch
from torch import Tensor

from vinets.nn.heads import (
    Head,
    LinearHead,
    LocalHead,
    LocalReLUHead,
    MLPHead,
    RandomMonomials,
    VanishingHead,
)
from vinets.nn.network import CutNetwork, VINet, network_of

__all__ = ["rivals"]


def rivals(
    network: VINet, points: Tensor, shape: tuple[int, int], *, seed: int = 0
) -> dict[str, CutNetwork]:
    """Networks with other heads behind the same cut.

    Parameters
    ----------
    network : VINet
        The network to compare with; its backbone is shared.
    points : Tensor of shape (m, n)
        Variables of its polynomials on training data, to standardise random monomials.
    shape : pair of int
        Channels and positions of the latents.
    seed : int, default=0
        Of random monomials and initial weights.

    Returns
    -------
    dict
        Name to network: linear heads on the flat and on the pooled map, an MLP that stores about as
        many numbers as the VI head, random monomials (global placement), or the ReLU head of the
        same shape (local placement).
    """
    head = network.head
    classes = int(head.config()["classes"])
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    numbers = sum(head.folded().parts().values())
    heads: dict[str, Head] = {
        "linear, flat": LinearHead(*shape, classes),
        "linear, pooled": LinearHead(*shape, classes, pooling="pooled"),
        "MLP": MLPHead.matched(*shape, classes, numbers=numbers),
    }
    if isinstance(head, VanishingHead):
        heads["random monomials"] = RandomMonomials.like(head, points, seed=seed)
    elif isinstance(head, LocalHead):
        heads["local ReLU"] = LocalReLUHead.like(head, seed=seed)
    torch.random.set_rng_state(torch_state)
    place = next(head.parameters()).device
    return {
        name: network_of(network.backbone, network.reader, rival, network.record).to(place)
        for name, rival in heads.items()
    }
