"""From a classifier to a VI-Net."""

from vinets.pipeline.build import build
from vinets.pipeline.collect import Latents, collect
from vinets.pipeline.report import BuildReport
from vinets.pipeline.rivals import rivals

__all__ = ["BuildReport", "Latents", "build", "collect", "rivals"]
