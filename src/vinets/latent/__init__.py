"""Cut a network and look at what flows through the cut."""

from vinets.latent.cut import CutPoint, StoppedNetwork, cut_points, truncate
from vinets.latent.pca import PCA, Projection, fit_pca
from vinets.latent.reader import LatentReader, LatentShape
from vinets.latent.rescale import Rescale, moments
from vinets.latent.store import LatentStore, collect_latents

__all__ = [
    "PCA",
    "CutPoint",
    "LatentReader",
    "LatentShape",
    "LatentStore",
    "Projection",
    "Rescale",
    "StoppedNetwork",
    "collect_latents",
    "cut_points",
    "fit_pca",
    "moments",
    "truncate",
]
