"""From a classifier to a network with polynomials behind a cut."""

from vinets.latent.collect import Latents, collect
from vinets.runs.baselines import baseline, baselines
from vinets.runs.build import build
from vinets.runs.report import BuildReport

__all__ = ["BuildReport", "Latents", "baseline", "baselines", "build", "collect"]
