"""ReLU units at every position: the control of product heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor

from vinets.core.options import count, option
from vinets.core.progress import Progress
from vinets.heads.base import HeadOptions
from vinets.heads.products import ProductsHead, ProductsOptions
from vinets.heads.sizes import SizeOptions
from vinets.heads.units import UnitsHead, fitting, rank_of
from vinets.latent.collect import Latents


@dataclass(frozen=True)
class UnitsOptions(SizeOptions):
    """Options of :class:`ReLUUnits`."""

    spatial_rank: int | None = option(
        16, count(), "Patterns of weights over the positions that sums share."
    )
    like: HeadOptions = ProductsOptions()


class ReLUUnits(UnitsHead):
    """The control of products: as many parameters, a ReLU for every form."""

    kind, label = "relu-units", "local ReLU units"
    Options = UnitsOptions
    training_defaults = ProductsHead.training_defaults
    rectified = True

    def units(self, forms: Tensor) -> Tensor:
        return forms.relu()

    def units_of_rows(self, forms: Tensor) -> Tensor:
        return forms.relu_()

    @classmethod
    def make(
        cls, latents: Latents, options: UnitsOptions, seed: int, progress: Progress | None
    ) -> Self:
        shape, classes = latents.shape, latents.n_classes
        rank = rank_of(shape, options.spatial_rank)
        count = fitting(shape, classes, rank, 1, options.size(latents, seed))
        return cls(*shape, classes, count=count, rank=rank)

    @classmethod
    def latent_defaults(cls, options: Any) -> dict[str, Any]:
        return ProductsHead.latent_defaults(options.like)
