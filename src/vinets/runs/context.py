"""What trials at one cut share, made when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from vinets.core.progress import Notes, Progress
from vinets.core.settings import Recipe
from vinets.ideals.choose import choose_ideal
from vinets.latent.collect import Latents, collect
from vinets.latent.cut import all_convolutions, all_layers, paper_convolutions, share_removed
from vinets.networks.network import CutNetwork, network_of
from vinets.runs.baselines import baseline, reference_to
from vinets.runs.build import assemble, build_products
from vinets.runs.report import BuildReport
from vinets.runs.setup import CHUNK, Setup
from vinets.runs.trial import Trial
from vinets.runs.vanish import ClassGenerators, find_generators
from vinets.runs.variables import Variables, find_variables
from vinets.training import LatentViews, Lessons, cache_latents

VIEW_BYTES = 64 << 30  # of cached latents
COUNTED = {"all": all_convolutions, "paper": paper_convolutions, "layers": all_layers}


class CutContext:
    """Latents, variables, generators and cached views behind one cut, for one seed.

    Of what is large, the last that was asked for is kept: trials that follow each other should be
    alike. The ``trial`` given is one of them; all have the same :attr:`Trial.shares`.
    """

    def __init__(
        self, setup: Setup, trial: Trial, progress: Progress, lessons: Path | None = None
    ) -> None:
        self.setup, self.progress = setup, progress
        self.cut, self.seed, self.collecting = trial.cut, trial.seed, trial.collecting
        # The uncut network as a teacher of tuned ones; other processes share what it says.
        self.lessons = setup.lessons if lessons is None else Lessons(setup.model, lessons)
        self._variables: dict[Hashable, Variables] = {}
        self._generators: tuple[Hashable, ClassGenerators] | None = None
        self._views: tuple[Hashable, LatentViews] | None = None
        self._projected: tuple[Hashable, LatentViews, Tensor] | None = None

    @cached_property
    def latents(self) -> Latents:
        """Latents of the examples that ideals are fitted to and scored on."""
        return collect(
            self.setup.model,
            self.setup.train,
            self.cut,
            collecting=self.collecting,
            device=self.setup.device,
            seed=self.seed,
            progress=self.progress,
        )

    def removed(self, counting: str) -> float:
        """Share of the convolutions that the cut takes away."""
        return share_removed(self.setup.model, self.latents.backbone, COUNTED[counting])

    def variables(self, trial: Trial) -> Variables:
        """Points that the polynomials of a trial see."""
        # whether training will change the projection does not change the points
        projecting = replace(trial.projecting, train_projection=False)
        key = trial.placing.placement, projecting
        if key not in self._variables:
            self._variables[key] = find_variables(
                self.latents, trial.placing, trial.projecting, seed=self.seed
            )
        return self._variables[key]

    def generators(self, trial: Trial) -> ClassGenerators:
        """Generators of every class, before pruning."""
        key = trial.finding, trial.placing.placement, trial.projecting, trial.pruning.score
        if self._generators is None or self._generators[0] != key:
            self._generators = None  # make room
            ideal = choose_ideal(trial.finding, trial.placing, trial.projecting)
            variables = self.variables(trial)
            self.progress.start("polynomials", 1)
            found = find_generators(
                variables,
                self.latents.fit,
                self.latents.check,
                ideal,
                trial.pruning.score,
                Notes(self.progress),
            )
            self.progress.advance(1)
            self._generators = key, found
        return self._generators[1]

    def polynomials(self, trial: Trial) -> tuple[CutNetwork, BuildReport]:
        """The untrained network with polynomials that a trial describes, and how it was built."""
        ideal = choose_ideal(trial.finding, trial.placing, trial.projecting)
        if trial.placing.placement == "products":
            return build_products(self.latents, trial.shaping, trial.design, ideal, trial.seed)
        variables = self.variables(trial)
        generators = self.generators(trial)
        return assemble(self.latents, variables, generators, trial.design, ideal, trial.seed)

    def network(self, trial: Trial) -> tuple[CutNetwork, BuildReport | None]:
        """The untrained network of a trial; the report of one with polynomials."""
        if trial.head == "vi":
            return self.polynomials(trial)
        latents = self.latents
        reference = reference_to(
            latents,
            lambda: self.polynomials(trial)[0].head,
            max_degree=trial.baseline_degree,
            seed=trial.seed,
            placement=trial.placing.placement,
            shaping=trial.shaping,
            model=self.setup.model,
        )
        head = baseline(trial.head, reference)
        made = network_of(latents.backbone, latents.reader, head, latents.record)
        return made.to(self.setup.device), None

    def views(self, trial: Trial) -> LatentViews:
        """Latents of augmented passes over all training data; the teacher's logits if need be."""
        recipe = self.recipe(trial)
        drawn = recipe.validation, recipe.augment, bool(recipe.distill)
        key = trial.caching, drawn  # the rest of the recipe trains on the same views
        if self._views is None or self._views[0] != key:
            self._views = None  # make room before the next ones are collected
            # any head will do, for views end at the cut; this one needs no polynomials
            network, _ = self.network(replace(trial, head="linear"))
            found = cache_latents(
                network,
                self.setup.train,
                recipe=recipe,
                caching=trial.caching,
                teacher=self.setup.model if recipe.distill else None,
                memory_limit=VIEW_BYTES,
                device=self.setup.device,
                progress=self.progress,
            )
            self._views = key, found
        return self._views[1]

    def recipe(self, trial: Trial) -> Recipe:
        """How a trial trains: with its seed, and with what was left open chosen."""
        decay = trial.recipe.weight_decay
        if decay is None:
            decay = 2e-3 if trial.design.local else 5e-4
        # polynomials of a baseline have no class to vanish on
        vanish = trial.recipe.vanish if trial.head == "vi" else 0.0
        return replace(trial.recipe, seed=trial.seed, weight_decay=decay, vanish=vanish)

    @cached_property
    def test_latents(self) -> Tensor:
        """Latents (m, C, P) of the test data, in half precision."""
        # half, for they stay on the device as long as there are heads to test
        latents, setup = self.latents, self.setup
        with torch.no_grad():
            parts = [
                latents.reader(latents.backbone(x)).half()
                for x, _ in setup.test.batches(CHUNK, device=setup.device)
            ]
        return torch.cat(parts)

    @torch.no_grad()
    def projected(
        self, trial: Trial, front: Callable[[Tensor], Tensor]
    ) -> tuple[LatentViews, Tensor]:
        """Views and test latents behind the frozen part of a head.

        All heads of trials that project alike share them.
        """
        views = self.views(trial)
        key = trial.projecting, trial.placing, self._views and self._views[0]
        if self._projected is None or self._projected[0] != key:
            self._projected = None  # make room
            tests = [front(part.float()) for part in self.test_latents.split(CHUNK)]
            self._projected = key, views.through(front, torch.float32), torch.cat(tests)
        return self._projected[1], self._projected[2]
