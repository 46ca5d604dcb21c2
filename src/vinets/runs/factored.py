"""Generators of the classes at the positions of a map, factored into forms for products."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vinets.algebra.shared import SharedPolynomials, nearest_products
from vinets.core.settings import Projecting, Pruning
from vinets.heads.polynomial_layer import batch_moments
from vinets.ideals.base import VanishingIdeal
from vinets.ideals.pruning import prune
from vinets.latent.collect import Latents
from vinets.latent.rescale import Rescale
from vinets.runs.vanish import find_generators
from vinets.runs.variables import Variables, descriptors, project

COMPONENTS = 32  # principal components of the channels, where nothing is said


@dataclass(frozen=True, eq=False)
class FactoredGenerators:
    """Factors of generators, in standardised channels; each form has mean square one.

    The form is ``gain * weight @ h + bias`` with a weight of variance one.
    """

    weight: Tensor  # (2, n, C)
    gain: Tensor  # (2, n)
    bias: Tensor  # (2, n)
    owners: Tensor  # (n,), the class that each vanishes on
    found: int  # generators before pruning
    explained: float  # share of the variance that the components keep
    seconds_projection: float
    seconds: float  # of finding and factoring generators

    def first(self, count: int) -> FactoredGenerators:
        """Fewer of them, spread over the classes."""
        # every class in turn, best first, as they are sorted
        rank = torch.zeros_like(self.owners)
        for owner in self.owners.unique():
            mine = self.owners == owner
            rank[mine] = torch.arange(int(mine.sum()))
        chosen = rank.argsort(stable=True)[:count]
        return replace(
            self,
            weight=self.weight[:, chosen],
            gain=self.gain[:, chosen],
            bias=self.bias[:, chosen],
            owners=self.owners[chosen],
        )


@torch.no_grad()
def factored_generators(
    latents: Latents, projecting: Projecting, pruning: Pruning, ideal: VanishingIdeal, seed: int
) -> FactoredGenerators:
    """Generators of degree 2 of every class, the best as products of two forms.

    They are found in principal components of the channels at one position of every example.
    """
    begin = time.perf_counter()
    rescale = Rescale.fit(latents.store, "channel", squash=False)
    h = descriptors(latents, rescale, seed)  # (m, C)
    wanted = projecting.components
    n = min(COMPONENTS if wanted == "auto" else int(wanted or h.shape[1]), h.shape[1])
    projection, explained = project(lambda: [h], n, projecting, "unit", seed)
    labels = latents.store.labels.to(h.device)
    projected = time.perf_counter() - begin
    variables = Variables(rescale, projection, projection(h), labels, explained, projected)
    found = find_generators(variables, latents.fit, latents.check, ideal, pruning.score)
    keep, _ = pruning.counts(True, latents.n_classes)
    kept = prune(found.ideals, found.scores, 1.0 if keep is None else keep)
    shared = SharedPolynomials.of(kept.polynomials)
    order = _best_first(shared.owners, torch.cat([torch.from_numpy(s) for s in kept.scores]))
    forms = nearest_products(shared)[:, order.to(shared.coefficients.device)]
    # from components to channels, and to mean square one: what a factor lacks, another has
    forms = forms.to(h.device)
    weight, bias = projection.weight.double(), projection.bias.double()
    inside = forms[..., 1:] @ weight  # (2, n, C)
    offset = forms[..., 0] + forms[..., 1:] @ bias
    _, covariance = batch_moments(h.double())
    size = ((inside @ covariance) * inside).sum(-1).clamp_min(0).sqrt()
    whole = (size.square() + offset.square()).sqrt().clamp_min(1e-30)
    seconds = time.perf_counter() - begin - projected
    return FactoredGenerators(
        (inside / size.clamp_min(1e-30)[..., None]).float().cpu(),
        (size / whole).float().cpu(),
        (offset / whole).float().cpu(),
        shared.owners[order],
        found.ideals.n_generators,
        explained,
        projected,
        seconds,
    )


def _best_first(owners: Tensor, scores: Tensor) -> Tensor:
    """Positions by decreasing score, class by class."""
    by_score = scores.argsort(descending=True, stable=True)
    return by_score[owners[by_score].argsort(stable=True)]
