"""Cut a network, collect latents, and put a head behind the cut: Algorithm 1 of the paper."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import nn

from vinets.core.checks import parameter_error
from vinets.core.device import call, device_of, evaluating
from vinets.core.options import gather
from vinets.core.plain import changes, nearest
from vinets.core.progress import Notes, Progress, progress_of
from vinets.core.settings import LatentOptions
from vinets.data.conversion import as_source
from vinets.data.source import choose_per_class
from vinets.heads import HEADS, BuildFacts, HeadOptions
from vinets.heads.class_distances import choose_space, fit_distances, spaces, try_spaces
from vinets.latent.collect import Latents, collect
from vinets.networks.network import CutNetwork, put_behind


def build(
    model: nn.Module | Latents,
    train_data: Any = None,
    cut: str | int | None = None,
    *,
    head: str = "vanishing",
    preprocessing: Any = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: Progress | str | None = "auto",
    **options: Any,
) -> tuple[CutNetwork, BuildFacts]:
    """Cut a classifier and put a head behind the cut; training it is the next step.

    The defaults are the paper's: generators of class ideals, found on latents in [-1, 1]^n, with
    which the network is a :class:`vinets.VINet`. Product heads are one word away::

        net, facts = build(model, data, cut, head="products", factors=3)
        fine_tune(net, data, teacher=model)

    Parameters
    ----------
    model : Module or Latents
        The pretrained network; it is not changed. Or what :func:`collect` made of it, to build
        several heads on the same latents.
    train_data : data source
        A pair of tensors, a DataLoader, or a source of :mod:`vinets.data`.
    cut : str or int
        A module name, an index into :func:`cut_points`, or a share such as ``"50%"``.
    head : str, default="vanishing"
        A kind of :data:`vinets.heads.HEADS`: ``"vanishing"`` and ``"local"`` make a VI-Net,
        ``"products"`` a product head; ``"ridge"``, ``"lda"``, ``"distance"`` and ``"closed"`` need
        no training; the others are plain heads to compare with.
    preprocessing
        How images become inputs, where the data does not tell: a transform, a dict with size, mean
        and std, see :func:`vinets.data.preprocessing_of`.
    device, seed, progress
        Where to work, the seed of every draw, and how to show the work.
    **options
        Options of the head, such as ``components=32``, ``psi=0.01``, ``keep=16``, and of the
        latents, such as ``per_class=512``: fields of the class ``Options`` of the head, see
        :mod:`vinets.heads`, and of :class:`vinets.core.settings.LatentOptions`.

    Examples
    --------
    >>> from vinets.data import digits
    >>> from vinets.models import digits_cnn
    >>> train = digits().train
    >>> net, facts = build(digits_cnn(), train, "relu3", components=16, keep=8, monomials=64)
    >>> facts.generators_kept, net.head.linear.out_features
    (80, 10)
    """
    chosen, of_latents = options_of("build", head, options)
    if not isinstance(model, Latents):
        if train_data is None or cut is None:
            raise ValueError("build needs train_data and a cut; see cut_points(model, example).")
        where = {"device": device, "seed": seed, "progress": progress}
        model = collect(model, train_data, cut, options=of_latents, **where)
    watch = progress_of(progress)
    watch.start(HEADS[head].label, 1)
    built = HEADS[head].build(model, chosen, seed, Notes(watch))
    watch.advance(1)
    network, facts = put_behind(
        model, built, {"head": head, "options": changes(chosen), "seed": seed}
    )
    if preprocessing is not None:
        network.set_preprocessing(preprocessing)
    return network, facts


def options_of(owner: str, head: str, values: dict[str, Any]) -> tuple[HeadOptions, LatentOptions]:
    """Return the options of a head and of the latents that it is built on, from flat keywords."""
    kind = HEADS[head]
    names = [one.name for group in (kind.Options, LatentOptions) for one in fields(group)]
    for name in values:
        if name not in names:
            others = [k for k, h in HEADS.items() if name in {f.name for f in fields(h.Options)}]
            hint = f" It is one of {', '.join(others)}." if others else nearest(name, names)
            raise TypeError(f"{owner} has no option {name!r} with head={head!r}.{hint}")
    groups = {"head": kind.Options, "latents": LatentOptions}
    defaults = {name: group() for name, group in groups.items()}
    options: Any = gather(owner, groups, values, defaults)["head"]
    defaults["latents"] = LatentOptions(**kind.latent_defaults(options))
    of_latents: Any = gather(owner, groups, values, defaults)["latents"]
    return options, of_latents


def baselines(
    latents: Latents, head: str = "vanishing", options: HeadOptions | None = None, *, seed: int = 0
) -> dict[str, CutNetwork]:
    """Make untrained networks with the heads that another head is compared with, by their labels.

    These are the ``rivals`` of the head, on the same latents and the same backbone. They are about
    as large as that head with its ``options``, see the same variables, or have as many monomials.
    """
    networks: dict[str, CutNetwork] = {}
    for kind in HEADS[head].rivals:
        one = HEADS[kind].build(latents, rival_options(kind, head, options), seed)
        networks[HEADS[kind].label], _ = put_behind(latents, one, {"head": kind, "seed": seed})
    return networks


def rival_options(kind: str, head: str, options: HeadOptions | None = None) -> HeadOptions:
    """Return the options with which a kind of head is compared with another head."""
    own = HEADS[kind].Options
    like = options or HEADS[head].Options()
    names = {one.name for one in fields(own)}
    return own(like=like) if "like" in names else own()  # type: ignore[call-arg]


DISTANCE_BATCH = 256  # examples at once through a network that gets distances


def attach_distances(
    network: CutNetwork, train_data: Any, *, per_class: int = 512, seed: int = 0
) -> CutNetwork:
    """Give a network distances to its classes, for :meth:`CutNetwork.distance`; it is returned.

    Monomials and regularisation are chosen by cross-validation on at most ``per_class`` training
    examples of every class. The distances are saved with the network.
    """
    if not isinstance(network, CutNetwork):
        accepted = "a network behind a cut, as vinets.build makes"
        raise parameter_error("attach_distances", "network", accepted, type(network).__name__)
    source = as_source(train_data)
    some = source.subset(choose_per_class(source.labels, per_class, seed))
    rows, labels = [], []
    with evaluating(network):
        for x, y in some.batches(DISTANCE_BATCH, device=device_of(network)):
            rows.append(call(network.latents, x).mean(-1))
            labels.append(y)
    features, truth = torch.cat(rows).float(), torch.cat(labels).to(rows[0].device)
    classes = len(source.classes)
    best = choose_space(try_spaces(features, truth, spaces(), classes, seed=seed)).space
    network.distances = fit_distances(features, truth, best, classes).to(rows[0])
    return network
