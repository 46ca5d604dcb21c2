"""From a classifier to a network with polynomials behind a cut."""

from vinets.runs.baselines import baseline, baselines
from vinets.runs.build import build
from vinets.runs.collect import Latents, collect
from vinets.runs.report import BuildReport

__all__ = ["BuildReport", "Latents", "baseline", "baselines", "build", "collect"]
