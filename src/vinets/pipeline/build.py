"""Algorithm 1 of the paper: cut a network, find what vanishes, put polynomials behind the cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from vinets.checks import bounded_float, one_of, optional_positive_int
from vinets.ideals.abm import ABM
from vinets.ideals.base import VanishingIdeal
from vinets.ideals.pruning import SCORES
from vinets.nn.heads.vanishing import ORDERS
from vinets.nn.network import VINet
from vinets.nn.polynomial import PolynomialLayer
from vinets.pipeline.collect import Latents, collect
from vinets.pipeline.placements import Placed, Projecting, place_global, place_local
from vinets.pipeline.report import BuildReport, Pictures
from vinets.pipeline.vanish import Pruning, class_means
from vinets.progress import Progress, progress_of

__all__ = ["PLACEMENTS", "build"]

PLACEMENTS = {"global": place_global, "local": place_local}


def build(
    model: nn.Module | Latents,
    train_data: Any = None,
    cut: str | int | None = None,
    *,
    ideal: VanishingIdeal | None = None,
    placement: str = "global",
    n_components: int | str | None = "auto",
    order: str = "tanh-pca",
    pca: str = "auto",
    train_projection: bool = False,
    scale: str = "unit",
    keep: int | float | str | None = "auto",
    monomials: int | str | None = "auto",
    score: str = "separation",
    sparse: bool = False,
    linear_path: int = 0,
    seed: int = 0,
    progress: Progress | str | None = "auto",
    **collecting: Any,
) -> tuple[VINet, BuildReport]:
    """Turn a classifier into a VI-Net; fine-tuning it is the next step.

    Parameters
    ----------
    model : Module or Latents
        The pretrained network; it is not changed. Or what :func:`collect` made of it, to build
        several heads on the same latents.
    train_data : data source
        A pair of tensors, a DataLoader, or a source of :mod:`vinets.data`.
    cut : str or int
        A module name, an index into :func:`cut_points`, or a share such as ``"50%"``.
    ideal : ABM, OAVI, VCA or None, default=None
        The algorithm; None is the paper's ``ABM(psi=0.1, max_degree=5)``; in the local placement
        the degree is 2, or 1 where the channels are the variables.
    placement : {"global", "local"}, default="global"
        One point per example, or one per position of the map.
    n_components : int, None or "auto", default="auto"
        Variables of the polynomials, by principal component analysis. In the local placement the
        channels enter linearly beside them, and None takes the channels alone. Auto is 128, or
        None in the local placement.
    order : {"tanh-pca", "pca-tanh"}, default="tanh-pca"
        Whether the global placement squashes or projects first.
    pca : {"auto", "exact", "randomized", "streaming"}, default="auto"
        How the components are found.
    train_projection : bool, default=False
        Let fine-tuning change the projection.
    scale : {"unit", "none"}, default="unit"
        Whether the components of the global placement get unit variance or keep their own, as the
        paper's counts of generators suggest that its components do.
    keep : int, float, None or "auto", default="auto"
        Generators per class by pruning score, a share of them, or all. Auto is 128 per class, or
        512 over all classes in the local placement.
    monomials : int, None or "auto", default="auto"
        The most monomials. Auto is 512, or no limit in the local placement.
    score : {"separation", "normalized"}, default="separation"
        The pruning score.
    sparse : bool, default=False
        Coefficients that are zero stay zero in training.
    linear_path : int, default=0
        Channels of a linear path beside the polynomials; 0 is none.
    seed : int, default=0
        Of every draw.
    **collecting
        Passed to :func:`collect`: ``per_class``, ``read``, ``pool``, ``channels_last``,
        ``batch_size``, ``device``, ``memory_limit``, ``directory``.

    Returns
    -------
    VINet, BuildReport

    Examples
    --------
    >>> from vinets.data import digits
    >>> from vinets.models import digits_cnn
    >>> train = digits().train
    >>> net, report = build(digits_cnn(), train, "relu3", n_components=16, keep=8, monomials=64)
    >>> report.generators_kept, net.head.linear.out_features
    (80, 10)
    """
    one_of("build", "placement", placement, tuple(PLACEMENTS))
    one_of("build", "order", order, ORDERS)
    one_of("build", "score", score, SCORES)
    one_of("build", "scale", scale, ("unit", "none"))
    if isinstance(model, Latents):
        latents = model
    else:
        if train_data is None or cut is None:
            raise ValueError("build needs train_data and a cut; see cut_points(model, example).")
        latents = collect(model, train_data, cut, seed=seed, progress=progress, **collecting)
    local = placement == "local"
    components = _count("n_components", n_components, None if local else 128)
    algorithm = (
        ideal if ideal is not None else ABM(0.1, max_degree=usual_degree(placement, n_components))
    )
    most = _count("monomials", monomials, None if local else 512)
    kept: int | float | None
    if isinstance(keep, float):
        kept = bounded_float("build", "keep", keep, 0, 1, high_included=True)
    else:
        kept = _count("keep", keep, max(1, 512 // latents.n_classes) if local else 128)
    watch = progress_of(progress)
    watch.start("polynomials", 1)
    with torch.random.fork_rng(devices=[]):  # layers draw their first weights from there
        torch.manual_seed(seed)
        placed = PLACEMENTS[placement](
            latents,
            algorithm,
            Projecting(components, order, pca, train_projection, scale),
            Pruning(kept, most, score, sparse),
            linear_path=linear_path,
            seed=seed,
        )
    watch.advance(1)
    notes = {"placement": placement, "ideal": repr(algorithm), "seed": seed}
    record = replace(latents.record, notes=notes)
    net = VINet(latents.backbone, latents.reader, placed.head, record).to(latents.device)
    return net.eval(), _report(net, latents, placed, placement)


def usual_degree(placement: str, n_components: int | str | None) -> int:
    """The largest degree that pays: many variables at every position leave no more than lines."""
    if placement == "global":
        return 5
    return 1 if n_components in (None, "auto") else 2


def _count(name: str, value: int | str | None, automatic: int | None) -> int | None:
    return automatic if value == "auto" else optional_positive_int("build", name, value)


def _report(net: VINet, latents: Latents, placed: Placed, placement: str) -> BuildReport:
    found = placed.found
    layer = found.layer
    terms = layer.monomials.terms
    means = class_means(layer.to(placed.points.device), placed.points, placed.labels)
    layer.to(latents.device)
    pictures = Pictures(
        placed.points.cpu().double().numpy(),
        placed.labels.cpu().numpy(),
        means,
        found.owners.numpy(),
        found.scores.values,
        found.pruned.scores,
    )
    blocks = [layer.weight] if isinstance(layer, PolynomialLayer) else list(layer.blocks)
    return BuildReport(
        cut=latents.record.cut,
        placement=placement,
        latent_shape=latents.shape,
        examples=len(latents.store),
        explained_variance=placed.explained,
        generators_found=found.pruned.n_generators,
        generators_kept=len(layer.bias),
        monomials_found=found.monomials_found,
        monomials_kept=len(terms),
        coefficients_found=found.pruned.n_generators * found.monomials_found,
        coefficients_kept=sum(block.numel() for block in blocks),
        degrees={int(d): int((terms.degrees == d).sum()) for d in np.unique(terms.degrees)},
        parts=net.folded().parts(),
        original_parameters=latents.original_parameters,
        seconds={"latents": latents.seconds} | placed.seconds,
        pictures=pictures,
    )
