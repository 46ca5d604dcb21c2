from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from vinets import ABM, fit_class_ideals
from vinets.algebra.common_terms import SharedPolynomials, term_moments
from vinets.data.synthetic import latent_like_classes
from vinets.heads import (
    ComponentsHead,
    Head,
    LinearHead,
    LinearPath,
    LocalHead,
    LocalRandomMonomials,
    LocalReLUHead,
    MLPHead,
    PooledHead,
    SameDegrees,
    VanishingHead,
)
from vinets.heads.block_layer import BlockPolynomialLayer
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.ideals.classwise import ClassIdeals
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale
from vinets.testing.heads import small_latents

CHANNELS, POSITIONS, VARIABLES, CLASSES = 6, 4, 5, 3
POINTS, LABELS = latent_like_classes(CLASSES, m=60, n=VARIABLES, rank=2)
Z = torch.from_numpy(POINTS)


@pytest.fixture(scope="session")
def points() -> torch.Tensor:
    return Z


@pytest.fixture(scope="session")
def ideals() -> ClassIdeals:
    return fit_class_ideals(Z, LABELS, ABM(0.02, max_degree=3))


@pytest.fixture(scope="session")
def shared(ideals) -> SharedPolynomials:
    return SharedPolynomials.of([ideal.generators_ for _, ideal in ideals])


def next_to(kind: type[Head], head: Head, seed: int = 1, **options) -> Head:
    """A baseline of a given head, which is not built again."""
    latents, chosen = small_latents((CHANNELS, POSITIONS), CLASSES), kind.Options(**options)
    latents.once("like", (chosen.like, seed), lambda: head)
    return kind.build(latents, chosen, seed)


@pytest.fixture(scope="session")
def heads(ideals, shared) -> dict[str, Callable[[], Head]]:
    """Every kind of head, made anew by a call; latents are (B, 6, 4)."""
    moments = term_moments(shared.terms, Z)
    flat = CHANNELS * POSITIONS

    def draw(*shape: int) -> torch.Tensor:
        return torch.from_numpy(np.random.default_rng(sum(shape)).normal(size=shape)).float()

    def layer(**options) -> PolynomialLayer:
        return PolynomialLayer.from_polynomials(shared, moments, **options)

    def vanishing(order="pca-tanh", polynomials=None, trainable=False, path=None):
        width = VARIABLES if order == "pca-tanh" else flat
        return VanishingHead(
            Rescale(draw(width), draw(width).abs() + 0.5),
            Projection(draw(VARIABLES, flat) / flat**0.5, draw(VARIABLES), trainable=trainable),
            layer() if polynomials is None else polynomials,
            CLASSES,
            order=order,
            path=path,
        )

    def local(path=None, **options):
        spread = draw(CHANNELS, POSITIONS).abs() + 0.5
        return LocalHead(
            Rescale(draw(CHANNELS, POSITIONS), spread, squash=False),
            Projection(draw(VARIABLES, CHANNELS) / 3, draw(VARIABLES), trainable=True),
            layer(normalized=True, **options),
            CLASSES,
            positions=POSITIONS,
            channels=False,
            path=path,
        )

    def narrow():
        return LinearPath(CHANNELS, POSITIONS, 2, CLASSES, scale=3.0)

    def blocks():
        return BlockPolynomialLayer.from_polynomials([i.generators_ for _, i in ideals], Z)

    return {
        "vanishing": vanishing,
        "tanh first": lambda: vanishing("tanh-pca"),
        "blocks": lambda: vanishing(polynomials=blocks()),
        "sparse": lambda: vanishing(polynomials=layer(sparse=True)),
        "trained projection": lambda: vanishing(trainable=True),
        "narrow path": lambda: vanishing(path=narrow()),
        "wide path": lambda: vanishing(path=LinearPath(CHANNELS, POSITIONS, 9, CLASSES)),
        "random": lambda: next_to(SameDegrees, vanishing()),
        "local": local,
        "local path": lambda: local(path=narrow()),
        "local sparse": lambda: local(sparse=True),
        "relu": lambda: next_to(LocalReLUHead, local()),
        "local random": lambda: next_to(LocalRandomMonomials, local(), degree=4),
        "linear": lambda: LinearHead(flat, CLASSES),
        "pooled": lambda: PooledHead(CHANNELS, CLASSES),
        "components": lambda: next_to(ComponentsHead, vanishing()),
        "components, tanh first": lambda: next_to(ComponentsHead, vanishing("tanh-pca")),
        "mlp": lambda: MLPHead(flat, CLASSES, width=7),
    }


HEAD_NAMES = (
    *("vanishing", "tanh first", "blocks", "sparse", "trained projection", "narrow path"),
    *("wide path", "random", "local", "local path", "local sparse", "relu", "local random"),
    *("linear", "pooled", "components", "components, tanh first", "mlp"),
)


@pytest.fixture
def latents() -> torch.Tensor:
    return torch.randn(9, CHANNELS, POSITIONS, generator=torch.Generator().manual_seed(3))
