"""From a classifier to a network with polynomials behind a cut."""

from vinets.pipeline.baselines import baseline, baselines
from vinets.pipeline.build import build
from vinets.pipeline.collect import Latents, collect
from vinets.pipeline.report import BuildReport

__all__ = ["BuildReport", "Latents", "baseline", "baselines", "build", "collect"]
