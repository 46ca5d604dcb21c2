"""Networks without training: a head in closed form behind the cut.

Four kinds are fitted to four fifths of the latents and judged on the last one: ridge regression on
the mean over positions and, where it is small, on the whole map; shrunk linear discriminant
analysis of that mean; distances to the classes (:mod:`vinets.heads.class_distances`); and ridge
regression on absolute values of generators. The smallest of those within a standard error of the
most accurate is fitted again, to all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from torch import Tensor, nn

from vinets.core.settings import PAPER, Pruning
from vinets.heads import DistanceHead, Head, LinearHead, PooledHead, VanishingHead
from vinets.heads.distance_fit import (
    choose_space,
    fit_distances,
    fold_of,
    held_out,
    most_folds,
    spaces,
    try_spaces,
)
from vinets.heads.ridge import calibrate, fit_ridge
from vinets.ideals.choose import choose_ideal
from vinets.latent.collect import Latents
from vinets.networks.network import CutNetwork, network_of
from vinets.runs.report import BuildReport, ClosedForms
from vinets.runs.vanish import find_generators, make_layer
from vinets.runs.variables import find_variables

PARTS = 5  # one of which is held out
FLAT = 2048  # values of a map of which all are seen
GENERATORS = 1024  # of all classes


@dataclass(frozen=True, eq=False)
class _Made:
    head: Head
    notes: dict[str, Any]


Making = Callable[[Tensor], _Made]
"""Makes a head from the latents of a mask (m,) of examples."""


@torch.no_grad()
def build_closed_form(latents: Latents, *, seed: int = 0) -> tuple[CutNetwork, BuildReport]:
    """Put the best head in closed form behind the cut; see :mod:`vinets.runs.closed_form`."""
    begin = time.perf_counter()
    labels = latents.store.labels.cpu()
    held = fold_of(labels, most_folds(labels, PARTS), seed) == 0
    kinds = _kinds(latents, seed)
    accuracies, sizes = {}, {}
    for name, make in kinds.items():
        head = make(~held).head.eval()
        accuracies[name] = _accuracy(head, latents, held)
        sizes[name] = sum(head.folded().parts().values())
    tried = ClosedForms.of(accuracies, sizes, int(held.sum()))
    made = kinds[tried.taken](torch.ones_like(held))
    told = {"placement": "closed form", "head": tried.taken, "held_out": accuracies, "seed": seed}
    record = replace(latents.record, notes=told | made.notes)
    head = made.head.folded()
    net = network_of(latents.backbone, latents.reader, head, record).to(latents.device).eval()
    parts = net.folded().parts()
    polynomials = getattr(head, "polynomials", None)
    kept = 0 if polynomials is None else len(polynomials.bias)
    monomials = 0 if polynomials is None else len(polynomials.monomials.terms)
    if isinstance(head, DistanceHead):
        monomials = len(head.distances.monomials.terms)
    return net, BuildReport(
        cut=latents.record.cut,
        placement="closed form",
        latent_shape=latents.shape,
        examples=len(latents.store),
        explained_variance=None,
        generators_found=kept,
        generators_kept=kept,
        monomials_found=monomials,
        monomials_kept=monomials,
        coefficients_found=parts.get("coefficients", 0),
        coefficients_kept=parts.get("coefficients", 0),
        degrees={},
        parts=parts,
        original_parameters=latents.original_parameters,
        seconds={"latents": latents.seconds, "closed form": time.perf_counter() - begin},
        closed=tried,
    )


@torch.no_grad()
def loss_and_accuracy(net: CutNetwork, latents: Latents) -> tuple[float, float]:
    """Cross-entropy and accuracy of a head on the latents that it was made from."""
    every = torch.ones(len(latents.store), dtype=torch.bool)
    logits, labels = _seen(latents, every, lambda z: net.head(z.to(latents.device)))
    right = (logits.argmax(1) == labels).double().mean()
    return float(nn.functional.cross_entropy(logits, labels)), float(right)


def _kinds(latents: Latents, seed: int) -> dict[str, Making]:
    channels, positions = latents.shape
    kinds: dict[str, Making] = {"ridge": partial(_ridge, latents, flat=False)}
    if positions > 1 and channels * positions <= FLAT:
        kinds["ridge, flat"] = partial(_ridge, latents, flat=True)
    kinds["LDA"] = partial(_discriminant, latents)
    kinds["distances"] = partial(_distances, latents, seed=seed)
    kinds["ridge on generators"] = partial(_generators, latents, seed=seed)
    return kinds


def _seen(latents: Latents, mask: Tensor, see: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """What ``see`` makes of the latents of some examples, in chunks, and their labels."""
    rows, start = [], 0
    for values, _ in latents.store.chunks(1024):
        wanted = mask[start : start + len(values)].to(values.device)
        rows.append(see(values[wanted].float()))
        start += len(values)
    labels = latents.store.labels
    return torch.cat(rows), labels[mask.to(labels.device)].to(rows[0].device)


def _accuracy(head: Head, latents: Latents, mask: Tensor) -> float:
    answers, labels = _seen(latents, mask, lambda z: head.to(z.device)(z).argmax(1))
    return float((answers == labels).double().mean())


def _fill(linear: nn.Linear, weight: Tensor, bias: Tensor) -> None:
    linear.weight.copy_(weight)
    linear.bias.copy_(bias)


def _ridge(latents: Latents, mask: Tensor, *, flat: bool) -> _Made:
    features, labels = _seen(latents, mask, lambda z: z.flatten(1) if flat else z.mean(-1))
    found = fit_ridge(features, labels, latents.n_classes)
    kind = LinearHead if flat else PooledHead
    head = kind(features.shape[1], latents.n_classes, normalized=False)
    _fill(head.linear, found.weight, found.bias)
    return _Made(head, {"penalty": found.penalty})


def _discriminant(latents: Latents, mask: Tensor) -> _Made:
    """Linear discriminant analysis with the covariance shrunk by Ledoit and Wolf."""
    features, labels = _seen(latents, mask, lambda z: z.mean(-1))
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    model.fit(features.cpu().double().numpy(), labels.cpu().numpy())
    weight, bias = torch.from_numpy(model.coef_), torch.from_numpy(model.intercept_)
    if len(weight) == 1:  # of two classes scikit-learn tells the difference
        weight, bias = torch.cat([-weight / 2, weight / 2]), torch.cat([-bias / 2, bias / 2])
    head = PooledHead(features.shape[1], latents.n_classes, normalized=False)
    _fill(head.linear, weight, bias)
    return _Made(head, {})


def _distances(latents: Latents, mask: Tensor, *, seed: int) -> _Made:
    features, labels = _seen(latents, mask, lambda z: z.mean(-1))
    count = latents.n_classes
    space = choose_space(try_spaces(features, labels, spaces(), count, seed=seed)).space
    logs = held_out(features, labels, space, count, seed=seed).log()
    head = DistanceHead(fit_distances(features, labels, space, count))
    temperature, bias = calibrate(logs, labels)
    head.temperature.fill_(temperature)
    head.bias.copy_(bias)
    return _Made(head, {"space": asdict(space)})


def _generators(latents: Latents, mask: Tensor, *, seed: int) -> _Made:
    """The paper's head with a last layer in closed form."""
    placing, projecting = PAPER.placing, PAPER.projecting
    pruning = Pruning(keep=max(1, min(128, GENERATORS // latents.n_classes)))
    ideal = choose_ideal(PAPER.finding, placing, projecting)
    variables = find_variables(latents, placing, projecting, seed=seed)
    generators = find_generators(variables, mask, mask, ideal, pruning.score)
    points = variables.points[mask.to(variables.points.device)]
    layer = make_layer(generators, points, pruning).layer
    assert variables.projection is not None  # global variables are components
    head = VanishingHead(
        variables.rescale, variables.projection, layer, latents.n_classes, order=projecting.order
    )
    head.norm = None
    head.eval().to(latents.device)
    features, labels = _seen(latents, mask, lambda z: head.features(z.to(latents.device)))
    found = fit_ridge(features, labels, latents.n_classes)
    _fill(head.linear, found.weight, found.bias)
    return _Made(head, {"ideal": repr(ideal), "penalty": found.penalty})
