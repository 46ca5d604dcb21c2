"""Train heads on frozen latents, and backbones from scratch."""

from vinets.training.feed import LatentViews, cache_latents
from vinets.training.recipe import Epoch, History, Recipe
from vinets.training.tune import BACKBONE, fine_tune, train_classifier

__all__ = [
    "BACKBONE",
    "Epoch",
    "History",
    "LatentViews",
    "Recipe",
    "cache_latents",
    "fine_tune",
    "train_classifier",
]
