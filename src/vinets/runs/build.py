"""Algorithm 1 of the paper: cut a network, find what vanishes, put polynomials behind the cut."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
import torch
from torch import nn

from vinets.algebra.terms import TermSet
from vinets.core.checks import parameter_error
from vinets.core.options import flat
from vinets.core.progress import Notes, Progress, progress_of
from vinets.core.settings import PAPER, Collecting, Finding, Placing, Projecting, Pruning, Shaping
from vinets.heads import LinearPath, LocalHead, ProductsHead, VanishingHead
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.ideals.base import VanishingIdeal
from vinets.ideals.choose import choose_ideal
from vinets.latent.collect import Latents, collect
from vinets.measure.vanishing import class_means, measure_vanishing
from vinets.networks.network import CutNetwork, network_of
from vinets.runs.closed_form import build_closed_form
from vinets.runs.factored import factored_generators
from vinets.runs.report import BuildReport, Pictures
from vinets.runs.vanish import ClassGenerators, PrunedLayer, find_generators, make_layer
from vinets.runs.variables import Variables, find_variables


@dataclass(frozen=True)
class Design:
    """What a head of polynomials is made of: where it stands, its variables, its polynomials."""

    placing: Placing = Placing()
    projecting: Projecting = Projecting()
    pruning: Pruning = Pruning()

    @property
    def local(self) -> bool:
        """Whether the polynomials stand at every position of the map."""
        return self.placing.placement == "local"


@flat(
    collecting=Collecting,
    placing=Placing,
    projecting=Projecting,
    finding=Finding,
    pruning=Pruning,
    shaping=Shaping,
)
def build(
    model: nn.Module | Latents,
    train_data: Any = None,
    cut: str | int | None = None,
    *,
    ideal: VanishingIdeal | None = None,
    collecting: Collecting = PAPER.collecting,
    placing: Placing,
    projecting: Projecting = PAPER.projecting,
    finding: Finding = PAPER.finding,
    pruning: Pruning = PAPER.pruning,
    shaping: Shaping,
    epochs: int | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: Progress | str | None = "auto",
) -> tuple[CutNetwork, BuildReport]:
    """Cut a classifier and put polynomials behind the cut; fine-tuning them is the next step.

    The defaults are those of the paper, :data:`vinets.core.settings.PAPER`. Products of linear
    forms, tuned together with the backbone, are in :data:`vinets.core.settings.BEST`::

        net, report = build(model, data, cut, collecting=BEST.collecting, placing=BEST.placing)
        fine_tune(net, data, recipe=BEST.recipe, tuning=BEST.tuning, teacher=model)

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
        The algorithm, in place of ``finding``. The largest degree is 5 where nothing is said; in
        the local placement 2, or 1 where the channels are the variables.
    collecting, placing, projecting, finding, pruning, shaping
        See :mod:`vinets.core.settings`; or their fields as keywords: ``per_class=512``,
        ``placement="local"``, ``components=32``, ``psi=0.01``, ``keep=16``, ``monomials=64``, ...
    epochs : 0 or None, default=None
        With 0, the head is one in closed form that needs no training; see
        :mod:`vinets.runs.closed_form`.
    device : str or torch.device, default="cpu"
        Where to work.
    seed : int, default=0
        Of every draw.

    Returns
    -------
    CutNetwork, BuildReport
        The network is a :class:`vinets.VINet` where the polynomials were found as generators of
        class ideals; a product head and most heads in closed form make a plain one.

    Examples
    --------
    >>> from vinets.data import digits
    >>> from vinets.models import digits_cnn
    >>> train = digits().train
    >>> net, report = build(digits_cnn(), train, "relu3", components=16, keep=8, monomials=64)
    >>> report.generators_kept, net.head.linear.out_features
    (80, 10)
    """
    if epochs not in (0, None):
        remedy = "Networks are trained by fine_tune(net, train_data, epochs=...)."
        raise parameter_error("build", "epochs", "0 or None", epochs, remedy)
    if isinstance(model, Latents):
        latents = model
    else:
        if train_data is None or cut is None:
            raise ValueError("build needs train_data and a cut; see cut_points(model, example).")
        latents = collect(
            model,
            train_data,
            cut,
            collecting=collecting,
            device=device,
            seed=seed,
            progress=progress,
        )
    if epochs == 0:
        return build_closed_form(latents, seed=seed)
    design = Design(placing, projecting, pruning)
    algorithm = choose_ideal(finding, placing, projecting) if ideal is None else ideal
    if placing.placement == "products":
        return build_products(latents, shaping, design, algorithm, seed)
    watch = progress_of(progress)
    watch.start("polynomials", 1)
    variables = find_variables(latents, placing, projecting, seed=seed)
    generators = find_generators(
        variables, latents.fit, latents.check, algorithm, pruning.score, Notes(watch)
    )
    made = assemble(latents, variables, generators, design, algorithm, seed)
    watch.advance(1)
    return made


def assemble(
    latents: Latents,
    variables: Variables,
    generators: ClassGenerators,
    design: Design,
    ideal: VanishingIdeal,
    seed: int,
) -> tuple[CutNetwork, BuildReport]:
    """Prune the generators, make a head of them and put it behind the cut."""
    begin = time.perf_counter()
    masks = (mask.to(variables.points.device) for mask in (latents.fit, latents.check))
    points = torch.cat([variables.points[mask] for mask in masks])  # they scale the monomials
    # everything below that draws is in here, in this order: a seed stands for one head
    with seeded(seed):
        found = make_layer(generators, points, design.pruning, local=design.local)
        head = _head(latents, variables, found, design, seed)
    if head.projection is not None:
        head.projection.requires_grad_(design.projecting.train_projection)
    notes = {"placement": design.placing.placement, "ideal": repr(ideal), "seed": seed}
    record = replace(latents.record, notes=notes)
    net = network_of(latents.backbone, latents.reader, head, record).to(latents.device).eval()
    seconds = {
        "latents": latents.seconds,
        "projection": variables.seconds,
        "polynomials": generators.seconds + time.perf_counter() - begin,
    }
    # The layer is part of the network already: it is moved to the points, and back again.
    layer = found.layer.to(variables.points.device)
    terms = layer.monomials.terms
    fit = latents.fit.to(variables.points.device)
    means, _, _ = class_means(layer, [(variables.points, variables.labels)])
    vanishing = measure_vanishing(
        layer, [(variables.points[fit], variables.labels[fit])], ideal.psi
    )
    layer.to(latents.device)
    pictures = Pictures(
        variables.points.cpu().double().numpy(),
        variables.labels.cpu().numpy(),
        means.cpu().numpy(),
        found.owners.numpy(),
        generators.scores.values,
        found.pruned.scores,
    )
    blocks = [layer.weight] if isinstance(layer, PolynomialLayer) else list(layer.blocks)
    return net, BuildReport(
        cut=latents.record.cut,
        placement=net.record.notes["placement"],
        latent_shape=latents.shape,
        examples=len(latents.store),
        explained_variance=variables.explained,
        generators_found=found.pruned.n_generators,
        generators_kept=len(layer.bias),
        monomials_found=generators.monomials,
        monomials_kept=len(terms),
        coefficients_found=found.pruned.n_generators * generators.monomials,
        coefficients_kept=sum(block.numel() for block in blocks),
        degrees={int(d): int((terms.degrees == d).sum()) for d in np.unique(terms.degrees)},
        capped=found.capped,
        vanishing=vanishing,
        parts=net.folded().parts(),
        original_parameters=latents.original_parameters,
        seconds=seconds,
        pictures=pictures,
    )


def build_products(
    latents: Latents, shaping: Shaping, design: Design, ideal: VanishingIdeal, seed: int
) -> tuple[CutNetwork, BuildReport]:
    """Put products of forms behind the cut, at random or as far as they go from generators.

    See :mod:`vinets.heads.products`, and :func:`vinets.runs.factored.factored_generators`.
    """
    begin = time.perf_counter()
    with seeded(seed):
        head = ProductsHead.made_for(latents.shape, latents.n_classes, shaping)
    seconds = {"latents": latents.seconds}
    start = None
    if shaping.start == "ideal":
        start = factored_generators(latents, design.projecting, design.pruning, ideal, seed)
        if start.bias.shape[1] > head.count:
            start = start.first(head.count)
        head.start_from(start.weight, start.gain, start.bias, start.owners)
        seconds["projection"] = start.seconds_projection
    notes = {"placement": "products", "start": shaping.start, "seed": seed}
    record = replace(latents.record, notes=notes)
    net = network_of(latents.backbone, latents.reader, head, record).to(latents.device).eval()
    expanded = [comb(latents.shape[0] + d - 1, d) for d in range(1, head.factors + 1)]
    parts, took = net.folded().parts(), time.perf_counter() - begin
    return net, BuildReport(
        cut=latents.record.cut,
        placement="products",
        latent_shape=latents.shape,
        examples=len(latents.store),
        explained_variance=None if start is None else start.explained,
        generators_found=0 if start is None else start.found,
        generators_kept=0 if start is None else start.bias.shape[1],
        monomials_found=sum(expanded),
        monomials_kept=sum(expanded),
        coefficients_found=head.count * sum(expanded),
        coefficients_kept=parts["coefficients"],
        degrees=dict(enumerate(expanded, 1)),
        parts=parts,
        original_parameters=latents.original_parameters,
        seconds=seconds | {"polynomials": took - seconds.get("projection", 0.0)},
    )


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's own generator, of which heads draw their first weights, and put it back."""
    with torch.random.fork_rng(devices=[]):  # heads are made on the CPU, whatever they train on
        torch.manual_seed(seed)
        yield


def _head(
    latents: Latents, variables: Variables, layer: PrunedLayer, design: Design, seed: int
) -> VanishingHead | LocalHead:
    """An untrained head of generators; draws from torch's own generator, see :func:`seeded`."""
    classes, (channels, positions) = latents.n_classes, latents.shape
    # the variables may be used for other heads, while this one trains its projection
    rescale, projection = variables.rescale, copy.deepcopy(variables.projection)
    width = design.placing.linear_path
    if not design.local:
        assert projection is not None  # global variables are components
        return VanishingHead(
            rescale,
            projection,
            layer.layer,
            classes,
            order=design.projecting.order,
            path=_path(latents, width),
        )
    polynomials = layer.layer
    assert isinstance(polynomials, PolynomialLayer)  # blocks are for global heads
    if projection is not None:
        polynomials = with_channels(polynomials, channels, seed)
    path = _path(latents, width)
    return LocalHead(rescale, projection, polynomials, classes, positions=positions, path=path)


@torch.no_grad()
def with_channels(layer: PolynomialLayer, channels: int, seed: int) -> PolynomialLayer:
    """The same polynomials in variables behind ``channels`` new ones, plus a linear form in these.

    The linear forms start as random rows of unit norm; the new variables are standardised.
    """
    old = layer.monomials.terms
    first = np.concatenate([np.arange(channels)[:, None], old.blocks[1] + channels])
    blocks = [old.blocks[0], first, *(block + channels for block in old.blocks[2:])]
    terms = TermSet(old.n_variables + channels, tuple(blocks))
    wide = PolynomialLayer(
        terms,
        len(layer.bias),
        masked=layer.mask is not None,
        normalized=layer.norm is not None,
        counts=layer.counts,
        leading=layer.leading is not None,
    )
    if wide.leading is not None and layer.leading is not None:
        wide.leading.copy_(torch.where(layer.leading < 0, -1, layer.leading + channels))
    wide.draw(torch.Generator().manual_seed(seed))
    linear = wide.weight[:, :channels]
    linear /= linear.norm(dim=1, keepdim=True)  # a view: this changes the layer
    wide.weight[:, channels:] = layer.weight
    wide.bias.copy_(layer.bias)
    if layer.mask is not None and wide.mask is not None:
        wide.mask[:, channels:] = layer.mask
    if layer.shift is not None and layer.scale is not None:
        zeros = torch.zeros(channels)
        wide.set_moments(torch.cat([zeros, layer.shift]), torch.cat([zeros + 1, layer.scale]))
    return wide


def _path(latents: Latents, width: int) -> LinearPath | None:
    if width == 0:
        return None
    values, _ = next(latents.store.chunks(1024))
    channels, positions = latents.shape
    # the squared norm of what the last layer sees bounds its learning rate: 64 suits 0.05
    size = (min(width, channels) * positions / 64) ** 0.5
    scale = max(size, 1.0) * float(values.std().clamp_min(1e-12))
    return LinearPath(channels, positions, width, latents.n_classes, scale=scale)
