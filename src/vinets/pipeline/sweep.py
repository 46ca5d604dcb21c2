"""Cut a network at many places and count what vanishes behind each: monomials and dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from vinets.checks import parameter_error
from vinets.cluster import processes_or_cluster
from vinets.data.interface import DataSplit
from vinets.latent.cut import resolve_cut
from vinets.pipeline.setup import Setup
from vinets.pipeline.store import Store
from vinets.pipeline.trial import DimensionFacts, IdealFacts, Trial
from vinets.pipeline.trials import run_trials
from vinets.progress import Progress
from vinets.running import each, resolve_device


@dataclass(frozen=True)
class CutFacts:
    """What was found behind one cut.

    Attributes
    ----------
    cut : str
        Name of the module that the network ends with.
    removed : float
        Share of the convolutions that the cut removes, in [0, 1].
    ideals : IdealFacts
        Generators and monomials of all classes.
    dimension : DimensionFacts or None
        Intrinsic dimension of the latents, where it was asked for.
    """

    cut: str
    removed: float
    ideals: IdealFacts
    dimension: DimensionFacts | None


def sweep(
    model: nn.Module,
    data: DataSplit,
    cuts: Sequence[str | int],
    out: str | Path,
    *,
    trial: Trial = Trial(),  # noqa: B008 - frozen
    dimension: bool = True,
    device: torch.device | str = "cpu",
    jobs: int | str = 1,
    progress: Progress | str | None = "auto",
) -> list[CutFacts]:
    """Count monomials and polynomials, and estimate dimensions, behind every cut.

    No head is made. The same call goes on where it was interrupted, and further cuts may be asked
    for; other weights or data in the same folder are refused.

    Parameters
    ----------
    model : Module
        The pretrained network; it is moved to ``device``.
    data : DataSplit
        Its training part is used.
    cuts : sequence of str or int
        Where to cut; see :func:`vinets.latent.truncate`. A place that is named twice counts once.
    out : path
        Folder for the results.
    trial : Trial
        Every other setting; ``Trial().change(psi=0.01, components=64)`` changes some.
    dimension : bool, default=True
        Estimate intrinsic dimensions; this needs the extra ``dimension``.
    jobs : int or str, default=1
        Processes side by side, or the address of a cluster, see
        :func:`vinets.cluster.open_cluster`.
    """
    if isinstance(cuts, str) or not cuts:
        remedy = "cut_points(model, example) lists all."
        raise parameter_error("sweep", "cuts", "a list of at least one cut", cuts, remedy)
    setup = Setup("uncut", model, data, resolve_device("sweep", device))
    example = each(setup.train.example(), lambda tensor: tensor.to(setup.device))
    names = dict.fromkeys(resolve_cut(setup.model, cut, example) for cut in cuts)
    store, start = Store(out), replace(trial, network=setup.name)
    ideals = {name: replace(start, cut=name, task="ideals") for name in names}
    dimensions = {name: replace(start, cut=name, task="dimension") for name in names}
    wanted = [*ideals.values(), *(dimensions.values() if dimension else ())]
    with processes_or_cluster(jobs) as there:
        run_trials(wanted, {setup.name: setup}, store, jobs=there, progress=progress)
    facts = []
    for name in names:
        found = store.read(ideals[name])
        estimated = store.read(dimensions[name]).estimated if dimension else None
        facts.append(CutFacts(name, found.removed or 0.0, found.found, estimated))
    return facts
