"""Heads of which half is made of the ideal, for ``benchmarks.ideal_study``."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from vinets import ABM
from vinets.heads import Head, HeadMaps, LocalOptions, ProductsHead, ProductsOptions
from vinets.heads.base import seeded
from vinets.heads.local import descriptors
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.heads.units import NormalizedForms, SpatialPatterns, rank_of
from vinets.heads.vanishing import Variables, make_layer, project, score_generators
from vinets.latent.collect import Latents
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale
from vinets.runs.trial import Trial


class Mixed(Head):
    """Products and polynomials at every position, summed with the same patterns.

    Parameters
    ----------
    shape, classes, rank : (int, int), int, int
        Channels and positions of the latents, logits, and patterns over the positions.
    count : int
        Products of two forms.
    rescale, projection, polynomials : Rescale, Projection, PolynomialLayer
        What makes the other units of the channels at a position.
    """

    label = "products and polynomials"

    def __init__(
        self,
        shape: tuple[int, int],
        classes: int,
        rank: int,
        count: int,
        rescale: Rescale,
        projection: Projection,
        polynomials: PolynomialLayer,
    ) -> None:
        super().__init__()
        channels, positions = shape
        units = count + len(polynomials.bias)
        self.forms = NormalizedForms(channels, 2 * count)
        self.rescale, self.projection, self.polynomials = rescale, projection, polynomials
        self.spatial = SpatialPatterns(units, positions, rank)
        self.norm = nn.BatchNorm1d(units)
        self.linear = nn.Linear(units, classes)

    def forward(self, latents: Tensor) -> Tensor:
        first, second = self.forms(latents.mT.contiguous()).chunk(2, -1)
        values = self.polynomials(self.projection(self.rescale(latents).mT))
        logits: Tensor = self.linear(
            self.norm(self.spatial(torch.cat([first * second, values], -1)))
        )
        return logits

    def parts(self) -> dict[str, int]:
        """As a folded head would store them: without statistics."""
        channels = self.forms.weight.shape[1]
        width, layer = len(self.forms.weight), self.polynomials.weight
        return {
            "projection": len(self.projection.bias) * (channels + 1),
            "coefficients": width * (channels + 1) + layer.numel() + len(layer),
            "linear": sum(p.numel() for m in (self.spatial, self.linear) for p in m.parameters()),
        }

    def config(self) -> dict[str, Any]:
        raise ValueError("a mixed head is trained and tested here, and not saved.")

    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        raise ValueError("products have no Lipschitz constant.")


def mixed(latents: Latents, trial: Trial, components: int, *, drawn: bool) -> Mixed:
    """Half of the numbers for polynomials of the ideals, or of drawn coefficients."""
    (channels, positions), classes = latents.shape, latents.n_classes
    options = trial.options
    assert isinstance(options, ProductsOptions) and options.parameters is not None
    rescale = Rescale.fit(latents.store, "channel", squash=False)
    h = descriptors(latents, rescale, trial.seed)
    projection, explained = project(lambda: [h], components, "auto", "unit", trial.seed)
    projection.requires_grad_(True)
    points = projection(h).detach()
    labels = latents.store.labels.to(h.device)
    found = score_generators(
        Variables(rescale, projection, points, labels, explained, 0.0),
        latents.fit,
        latents.check,
        ABM(options.psi, max_degree=2),
    )
    rank = rank_of(latents.shape, options.spatial_rank)
    left = options.parameters - rank * positions - classes  # what units cost
    own = components * (channels + 1)
    # as if all monomials occurred: they nearly do
    each = math.comb(components + 2, 2) + rank + classes
    keep = max(1, int((left / 2 - own) // (each * classes)))
    layer, _, _ = make_layer(found, points, LocalOptions(keep=keep), local=True)
    assert isinstance(layer, PolynomialLayer)
    if drawn:
        draw(layer, trial.seed)
    polynomials, monomials = layer.weight.shape
    spent = own + polynomials * (monomials + 1 + rank + classes)
    count = (left - spent) // (2 * (channels + 1) + rank + classes)
    with seeded(trial.seed):
        return Mixed(latents.shape, classes, rank, count, rescale, projection, layer)


@torch.no_grad()
def draw(layer: PolynomialLayer, seed: int) -> None:
    """Random coefficients in place of those of generators."""
    layer.draw(torch.Generator().manual_seed(seed))
    layer.bias.zero_()


def hold(head: ProductsHead, count: int) -> None:
    """Keep the forms of the first products as they are; weight decay only scales them."""
    forms = head.forms
    assert isinstance(forms, NormalizedForms)
    free = torch.arange(head.factors * head.count) % head.count >= count
    free = free.to(forms.weight)
    forms.weight.register_hook(lambda gradient: gradient * free[:, None])
    forms.gain.register_hook(lambda gradient: gradient * free)
    forms.bias.register_hook(lambda gradient: gradient * free)
