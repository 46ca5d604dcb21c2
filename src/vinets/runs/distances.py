"""Distances to its classes for a network that has none."""

from __future__ import annotations

from typing import Any

import torch

from vinets.core.checks import parameter_error
from vinets.core.device import call, device_of, evaluating
from vinets.data.source import choose_per_class
from vinets.data.sources import as_source
from vinets.heads.class_distances import choose_space, fit_distances, spaces, try_spaces
from vinets.networks.network import CutNetwork

BATCH = 256


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
        for x, y in some.batches(BATCH, device=device_of(network)):
            rows.append(call(network.latents, x).mean(-1))
            labels.append(y)
    features, truth = torch.cat(rows).float(), torch.cat(labels).to(rows[0].device)
    classes = len(source.classes)
    best = choose_space(try_spaces(features, truth, spaces(), classes, seed=seed)).space
    network.distances = fit_distances(features, truth, best, classes).to(rows[0])
    return network
