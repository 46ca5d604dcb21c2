"""Options of heads that are as large as another one, so that the two can be compared."""

from __future__ import annotations

from dataclasses import dataclass

from vinets.core.options import option, optional, whole
from vinets.heads.base import HeadOptions, parameters_like
from vinets.heads.vanishing import VanishingOptions
from vinets.latent.collect import Latents


@dataclass(frozen=True)
class SizeOptions(HeadOptions):
    """A number of parameters, or the options of a head that has as many."""

    parameters: int | None = option(
        None,
        optional(whole()),
        "Parameters that the head may store, at most.",
        shown="as many as the VI-Net",
    )
    like: HeadOptions = VanishingOptions()

    def size(self, latents: Latents, seed: int) -> int:
        """Return how many parameters the folded head may store."""
        if self.parameters is not None:
            return self.parameters
        return parameters_like(latents, self.like, seed)
