"""Cut a network and look at what flows through the cut."""

from vinets.latent.collect import Latents, LatentStore, collect_latents
from vinets.latent.cut import CutPoint, StoppedNetwork, cut_points, truncate
from vinets.latent.pca import PCA, Projection, fit_pca
from vinets.latent.reader import LatentReader, LatentShape
from vinets.latent.rescale import Rescale, moments

__all__ = [
    "PCA",
    "CutPoint",
    "LatentReader",
    "LatentShape",
    "LatentStore",
    "Latents",
    "Projection",
    "Rescale",
    "StoppedNetwork",
    "collect_latents",
    "cut_points",
    "fit_pca",
    "moments",
    "truncate",
]
