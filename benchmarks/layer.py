"""What the polynomial layer costs next to the backbone in front of it.

    python -m benchmarks.layer

The sizes are those of the paper's variants: 128 variables, 512 monomials of degrees 1 to 5, 128
polynomials for each of 10 classes. Time does not depend on the values, so weights are random.
Shares are seconds inside the layer over seconds inside the truncated backbone, in the same
forward passes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.record import keep
from vinets.algebra.terms import TermSet
from vinets.core.device import evaluating
from vinets.heads import LocalHead, ProductsHead, ProductsOptions, VanishingHead
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.heads.products import MAX_PRODUCTS
from vinets.heads.random import random_terms
from vinets.heads.units import fitting, rank_of
from vinets.latent import LatentReader, truncate
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale
from vinets.measure import flops
from vinets.models import PRESETS, create_model
from vinets.models.networks import SIZES
from vinets.networks import CutNetwork, Record
from vinets.networks.network import network_of

BATCH = 256
LOCAL = 510  # polynomials of the local heads


def network(name: str) -> CutNetwork:
    kind, cut = PRESETS[name]
    model = create_model(kind, 10)
    images = torch.randn(1, 3, 32, 32)
    backbone, reader = truncate(model, cut, images), LatentReader()
    with torch.no_grad():
        _, channels, positions = reader(backbone(images)).shape
    head = vanishing_head((channels, positions), 10, SIZES[kind])
    record = Record(cut, {"": {"shape": [3, 32, 32], "dtype": "float32"}})
    return network_of(backbone, reader, head, record).folded()


def vanishing_head(shape: tuple[int, int], classes: int, sizes: Mapping[str, Any]) -> VanishingHead:
    """The paper's head, with random monomials and coefficients."""
    features, n = shape[0] * shape[1], sizes["components"]
    like = TermSet(n, (np.zeros((0, 0), np.int64), np.zeros((sizes["monomials"], 1), np.int64)))
    layer = PolynomialLayer(random_terms(like), classes * sizes["keep"])
    return VanishingHead(
        Rescale(torch.zeros(features), torch.ones(features)),
        Projection(torch.randn(n, features) / features**0.5, torch.zeros(n)),
        layer,
        classes,
    )


def local_head(shape: tuple[int, int], classes: int) -> LocalHead:
    """The local head with linear forms of the channels."""
    channels, positions = shape
    terms = TermSet(channels, (np.zeros((0, 0), np.int64), np.arange(channels)[:, None]))
    return LocalHead(
        Rescale(torch.zeros(shape), torch.ones(shape)),
        None,
        PolynomialLayer(terms, LOCAL, normalized=True),
        classes,
        positions=positions,
    )


def products_head(
    shape: tuple[int, int], classes: int, parameters: int | None = None, factors: int = 2
) -> ProductsHead:
    """A product head of so many parameters, or of as many products as it has by default."""
    rank, count = rank_of(shape, ProductsOptions().spatial_rank), MAX_PRODUCTS
    if parameters is not None:
        count = fitting(shape, classes, rank, factors, parameters)
    return ProductsHead(*shape, classes, count=count, rank=rank, factors=factors)


def time_share(
    network: nn.Module,
    example: Tensor,
    part: nn.Module,
    reference: nn.Module,
    repeats: int = 20,
    warmup: int = 3,
) -> float:
    """Return the seconds in one part of a network over those in another, the median over passes.

    Both are timed inside complete forward passes: what the part finds in the caches is what it
    finds in use. Several calls in a pass are added up.
    """
    spent = {part: 0.0, reference: 0.0}
    begun: dict[nn.Module, float] = {}
    handles = []
    for module in spent:
        # The hooks return None: torch would take anything else for the input or the output.
        def begin(module: nn.Module, *_: object) -> None:
            begun[module] = time.perf_counter()

        def end(module: nn.Module, *_: object) -> None:
            spent[module] += time.perf_counter() - begun.pop(module)

        handles += [module.register_forward_pre_hook(begin), module.register_forward_hook(end)]
    shares = []
    with evaluating(network):
        for _ in range(warmup + repeats):
            network(example)
            shares.append(spent[part] / spent[reference])
            spent |= dict.fromkeys(spent, 0.0)
    for handle in handles:
        handle.remove()
    return median(shares[warmup:])


if __name__ == "__main__":
    rows = []
    for name in ("VI-Net18-Tiny", "VI-Net18-Small", "VI-Net18-Medium", "VI-Net18-Large"):
        net, example = network(name), torch.randn(BATCH, 3, 32, 32)
        layer, backbone = net.head.polynomials, net.backbone
        rows.append(
            {
                "network": name,
                "batch": BATCH,
                "layer_share": time_share(net, example, layer, backbone),
                "head_share": time_share(net, example, net.head, backbone),
                "mflops": flops(net, example[:1]) / 1e6,
                "mflops_backbone": flops(backbone, example[:1]) / 1e6,
            }
        )
    keep("layer", rows)
