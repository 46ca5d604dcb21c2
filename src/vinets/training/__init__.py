"""Train heads on frozen latents, and backbones from scratch."""

from vinets.core.settings import BACKBONE, TrainingOptions
from vinets.training.epochs import Epoch, History
from vinets.training.feed import LatentViews, Lessons, cache_latents
from vinets.training.tune import fine_tune, train_classifier

__all__ = [
    "BACKBONE",
    "Epoch",
    "History",
    "LatentViews",
    "Lessons",
    "TrainingOptions",
    "cache_latents",
    "fine_tune",
    "train_classifier",
]
