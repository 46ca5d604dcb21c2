"""What trials at one cut share, made when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from vinets.core.plain import changes
from vinets.core.progress import Notes, Progress
from vinets.core.settings import TrainingOptions
from vinets.heads import HEADS, BuildFacts
from vinets.latent.collect import Latents, collect
from vinets.latent.cut import all_convolutions, all_layers, paper_convolutions, share_removed
from vinets.networks.build import put_behind
from vinets.networks.network import CutNetwork
from vinets.runs.setup import CHUNK, Setup
from vinets.runs.trial import Trial
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
        self.cut, self.seed, self._options = trial.cut, trial.seed, trial.latents
        # The uncut network as a teacher of tuned ones; other processes share what it says.
        self.lessons = setup.lessons if lessons is None else Lessons(setup.model, lessons)
        self._views: tuple[Hashable, LatentViews] | None = None
        self._projected: tuple[Hashable, LatentViews, Tensor] | None = None

    @cached_property
    def latents(self) -> Latents:
        """Latents of the examples that ideals are fitted to and scored on."""
        return collect(
            self.setup.model,
            self.setup.train,
            self.cut,
            options=self._options,
            device=self.setup.device,
            seed=self.seed,
            progress=self.progress,
        )

    def removed(self, counting: str) -> float:
        """Share of the convolutions that the cut takes away."""
        return share_removed(self.setup.model, self.latents.backbone, COUNTED[counting])

    def network(self, trial: Trial) -> tuple[CutNetwork, BuildFacts]:
        """The untrained network of a trial, and how its head was built."""
        latents = self.latents  # first, because collecting them is a stage of its own
        self.progress.start(HEADS[trial.head].label, 1)
        notes = Notes(self.progress)
        head = HEADS[trial.head].build(latents, trial.options, trial.seed, notes)
        self.progress.advance(1)
        options = changes(trial.options)
        return put_behind(
            latents, head, {"head": trial.head, "options": options, "seed": trial.seed}
        )

    def views(self, trial: Trial) -> LatentViews:
        """Latents of augmented passes over all training data; the teacher's logits if need be."""
        recipe = self.recipe(trial)
        drawn = recipe.validation, recipe.augment, bool(recipe.distill)
        # The rest of the recipe trains on the same views.
        key = recipe.views, recipe.dtype, recipe.projected, drawn
        if self._views is None or self._views[0] != key:
            self._views = None  # make room before the next ones are collected
            # any head will do, for views end at the cut; this one needs no polynomials
            network, _ = self.network(trial.change(head="linear"))
            found = cache_latents(
                network,
                self.setup.train,
                recipe=recipe,
                teacher=self.setup.model if recipe.distill else None,
                memory_limit=VIEW_BYTES,
                device=self.setup.device,
                progress=self.progress,
            )
            self._views = key, found
        return self._views[1]

    def recipe(self, trial: Trial) -> TrainingOptions:
        """How a trial trains: with its seed, and without what its head has no use for."""
        kind = HEADS[trial.head]
        # Polynomials of a baseline have no class to vanish on.
        kept = trial.recipe.vanish if kind.from_ideals or trial.head == "products" else 0.0
        return replace(trial.recipe, seed=trial.seed, vanish=kept)

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
        like = getattr(trial.options, "like", trial.options)  # a baseline sees the same variables
        seen = [getattr(like, name, None) for name in ("components", "order", "scale", "pca")]
        key = *seen, self._views and self._views[0]
        if self._projected is None or self._projected[0] != key:
            self._projected = None  # make room
            tests = [front(part.float()) for part in self.test_latents.split(CHUNK)]
            self._projected = key, views.through(front, torch.float32), torch.cat(tests)
        return self._projected[1], self._projected[2]
