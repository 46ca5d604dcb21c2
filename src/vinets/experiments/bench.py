"""Everything at one cut of a network, made when it is asked for."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor, nn

from vinets.checks import one_of
from vinets.data.sources import choose_per_class
from vinets.experiments.runs import Run
from vinets.experiments.world import CHUNK, World
from vinets.ideals.abm import ABM
from vinets.ideals.base import VanishingIdeal
from vinets.ideals.oavi import OAVI
from vinets.latent.cut import paper_convolutions, share_removed
from vinets.nn.heads import (
    ComponentsHead,
    Head,
    LinearHead,
    MLPHead,
    VanishingHead,
    random_like,
)
from vinets.nn.network import CutNetwork, network_of
from vinets.pipeline.collect import Latents, collect
from vinets.pipeline.placements import Projecting, Variables, fit_and_check, global_variables
from vinets.pipeline.vanish import (
    Found,
    Generators,
    Labelled,
    Pruning,
    find_generators,
    make_layer,
)
from vinets.training import LatentViews, cache_latents

__all__ = ["Bench", "OnVariables", "algorithm_of"]

MOST = 150_000  # polynomials of a head; what is beyond it is pruned
LATENT_BYTES = 64 << 30


def algorithm_of(run: Run, degree: int = 5) -> VanishingIdeal:
    """The algorithm of a run."""
    names = ("abm", "oavi-cg", "oavi-agd")
    if one_of("Run", "algorithm", run.algorithm, names) == "abm":
        return ABM(psi=run.psi, max_degree=degree)
    return OAVI(psi=run.psi, max_degree=degree, oracle=run.algorithm.removeprefix("oavi-"))


class Bench:
    """Everything at one cut, for one seed; latents are collected once.

    Parameters
    ----------
    world : World
        The network and its data.
    cut : str
        Where it is cut.
    seed : int
        Of the points of the ideals and of the augmentation.
    """

    def __init__(self, world: World, cut: str, seed: int) -> None:
        self.world, self.cut, self.seed = world, cut, seed
        self._variables: dict[tuple[str, str, int], Variables] = {}
        self._projected: tuple[object, LatentViews, Tensor] | None = None
        self._generators: tuple[object, Generators] | None = None

    @cached_property
    def latents(self) -> Latents:
        """Of the images that ideals are fitted to and scored on."""
        world, scale = self.world, self.world.scale
        return collect(
            world.model,
            world.train,
            self.cut,
            per_class=scale.per_class,
            device=world.device,
            batch_size=CHUNK,
            memory_limit=LATENT_BYTES,
            seed=self.seed,
            progress=None,
        )

    @cached_property
    def removed(self) -> float:
        """Share of the convolutions that the cut takes away."""
        return share_removed(self.world.model, self.latents.backbone, paper_convolutions)

    @cached_property
    def fitted(self) -> Tensor:
        """The images that ideals are fitted to: all of them, where a class has none to spare."""
        latents, per_class = self.latents, self.world.scale.per_class
        spare = int(latents.fit.sum()) >= per_class * latents.n_classes
        return latents.fit if spare else torch.ones_like(latents.fit)

    @cached_property
    def views(self) -> LatentViews:
        """Latents of augmented passes over all training data."""
        return self._views(None)

    @cached_property
    def taught(self) -> LatentViews:
        """The same with logits of the uncut network."""
        return self._views(self.world.model)

    def _views(self, teacher: nn.Module | None) -> LatentViews:
        latents, world = self.latents, self.world
        channels, positions = latents.shape
        reader = self.network(LinearHead(channels, positions, latents.n_classes))
        return cache_latents(
            reader,
            world.train,
            views=world.scale.views,
            validation=0.0,
            teacher=teacher,
            dtype=torch.float16,
            memory_limit=LATENT_BYTES,
            batch_size=CHUNK,
            device=world.device,
            seed=self.seed,
        )

    @cached_property
    def test(self) -> Tensor:
        """Latents of the test data (m, C, P)."""
        latents, world = self.latents, self.world
        with torch.no_grad():
            parts = [
                latents.reader(latents.backbone(x)).half()
                for x, _ in world.test.batches(CHUNK, device=world.device)
            ]
        return torch.cat(parts)

    def network(self, head: Head) -> CutNetwork:
        """The truncated network with a head."""
        latents = self.latents
        made = network_of(latents.backbone, latents.reader, head, latents.record)
        return made.to(self.world.device)

    def variables(self, run: Run) -> Variables:
        """Points that the polynomials of a run see."""
        changes = dict(run.changes)
        components = changes.get("n_components", self.world.scale.components)
        key = run.order, run.scale, components
        if key not in self._variables:
            projecting = Projecting(components, run.order, scale=run.scale)
            self._variables[key] = global_variables(self.latents, projecting, seed=self.seed)
        return self._variables[key]

    def generators(self, run: Run) -> Generators:
        """Generators of every class; those of the last algorithm asked for are kept."""
        changes = dict(run.changes)
        kind, degree = changes.get("score", "separation"), changes.get("max_degree", 5)
        points = run.order, run.scale, changes.get("n_components")
        key = run.algorithm, run.psi, points, kind, degree
        if self._generators is None or self._generators[0] != key:
            self._generators = None  # make room
            made = self.variables(run)
            fit, check = fit_and_check(made.points, made.labels, self.fitted)
            check = _at_most(check, self.world.scale.per_class // 4, self.seed)
            found = find_generators(fit, check, algorithm_of(run, degree), kind)
            self._generators = key, found
        return self._generators[1]

    def layer(self, run: Run) -> tuple[Found, bool]:
        """The polynomials of a run, and whether there were too many for one head."""
        generators = self.generators(run)
        share = run.keep if isinstance(run.keep, float) else 1.0
        most = MOST // self.latents.n_classes
        capped = not isinstance(run.keep, int) and share * generators.ideals.n_generators > MOST
        sparse = bool(dict(run.changes).get("sparse", False))
        pruning = Pruning(most if capped else run.keep, run.monomials, sparse=sparse)
        return make_layer(generators, self.variables(run).points, pruning), capped

    def polynomial_head(self, run: Run, found: Found) -> VanishingHead:
        """The VI head of a run, untrained."""
        made = self.variables(run)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed)
            head = VanishingHead(
                made.rescale,
                copy.deepcopy(made.projection),
                found.layer,
                self.latents.n_classes,
                order=run.order,
            )
        if dict(run.changes).get("train_projection"):
            head.projection.requires_grad_(True)
        return head.to(self.world.device)

    def head(self, run: Run) -> tuple[Head, dict[str, int | bool]]:
        """The untrained head of a run, and how large it is."""
        channels, positions = self.latents.shape
        classes = self.latents.n_classes
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed)
            if run.head in ("linear", "pooled"):
                pooling = "flat" if run.head == "linear" else "pooled"
                return LinearHead(channels, positions, classes, pooling=pooling), {}
            if run.head == "components":
                made = self.variables(run)
                projection = copy.deepcopy(made.projection)
                return ComponentsHead(made.rescale, projection, classes, order=run.order), {}
            found, capped = self.layer(run)
            head: Head = self.polynomial_head(run, found)
            facts = {
                "polynomials": len(found.layer.bias),
                "monomials": len(found.layer.monomials.terms),
                "capped": capped,
            }
            if run.head == "mlp":
                numbers = sum(head.folded().parts().values())
                return MLPHead.matched(channels, positions, classes, numbers=numbers), {}
            if run.head == "random":
                assert isinstance(head, VanishingHead)
                head = random_like(head, self.variables(run).points.float(), seed=run.seed)
        return head, facts

    @torch.no_grad()
    def projected(
        self, head: VanishingHead | ComponentsHead, views: LatentViews
    ) -> tuple[LatentViews, Tensor]:
        """Views and test data as the polynomials of a frozen projection see them."""
        key = float(head.projection.weight.double().sum()), head.order, views is self.views
        if self._projected is None or self._projected[0] != key:
            self._projected = None

            def seen(latents: Tensor) -> Tensor:
                return torch.cat([head.variables(part.float()) for part in latents.split(CHUNK)])

            passes = tuple(seen(view) for view in views.views)
            small = replace(views, views=passes)  # nothing is held out
            self._projected = key, small, seen(self.test)
        return self._projected[1], self._projected[2]


def _at_most(points: Labelled, count: int, seed: int) -> Labelled:
    """At most so many points a class: enough to score generators on."""
    chosen = choose_per_class(points[1].cpu(), count, seed).to(points[1].device)
    return points[0][chosen], points[1][chosen]


class OnVariables(nn.Module):
    """A head without its projection, which is frozen: variables to logits."""

    def __init__(self, head: VanishingHead | ComponentsHead) -> None:
        super().__init__()
        own = head.polynomials if isinstance(head, VanishingHead) else nn.Identity()
        self.polynomials: nn.Module = own
        self.norm, self.linear = head.norm, head.linear

    def forward(self, z: Tensor) -> Tensor:
        y = self.polynomials(z)
        logits: Tensor = self.linear(y if self.norm is None else self.norm(y))
        return logits
