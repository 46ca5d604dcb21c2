"""What a run computes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets.algebra.shared import count_monomials
from vinets.experiments.bench import Bench, OnVariables
from vinets.experiments.runs import Run
from vinets.experiments.world import CHUNK, World
from vinets.ideals.pruning import prune
from vinets.measure import compare
from vinets.measure.dimension import class_dimensions
from vinets.nn.heads import ComponentsHead, GlobalPolynomials
from vinets.nn.network import CutNetwork
from vinets.running import evaluating
from vinets.training import LatentViews, Recipe
from vinets.training.feed import ViewFeed
from vinets.training.loop import fit

__all__ = ["NETWORKS", "RATIOS", "TASKS", "measure_speed"]

RATIOS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.99)
"""Shares of the polynomials that are pruned."""

NETWORKS = "networks"
SAVED = "variant"
WEIGHT_DECAY = 2e-3


def find_ideals(bench: Bench, run: Run, folder: Path) -> dict[str, Any]:
    """Fit the ideals: how many monomials and polynomials, how long, and what pruning leaves."""
    variables, generators = bench.variables(run), bench.generators(run)
    left = {
        ratio: count_monomials(prune(generators.ideals, generators.scores, 1.0 - ratio).polynomials)
        for ratio in RATIOS
    }
    return {
        "removed": bench.removed,
        "points": int(bench.fitted.sum()),
        "features": bench.latents.shape[0] * bench.latents.shape[1],
        "variables": variables.points.shape[1],
        "explained_variance": variables.explained,
        "polynomials": generators.ideals.n_generators,
        "monomials": generators.monomials,
        "seconds": generators.seconds,
        "monomials_left": {str(ratio): count for ratio, count in left.items()},
    }


def train_head(bench: Bench, run: Run, folder: Path) -> dict[str, Any]:
    """Train a head on cached latents, and test the weights of its last epoch."""
    head, facts = bench.head(run)
    head = head.to(bench.world.device)
    changes = dict(run.changes)
    recipe = Recipe(
        epochs=changes.get("epochs", bench.world.scale.epochs),
        learning_rate=changes.get("learning_rate", 0.05),
        weight_decay=changes.get("weight_decay", WEIGHT_DECAY),
        distillation=changes.get("distillation", 0.0),
        validation=0.0,
        seed=run.seed,
    )
    module: nn.Module = head
    views, test = bench.taught if recipe.distillation else bench.views, bench.test
    if (
        isinstance(head, GlobalPolynomials | ComponentsHead)
        and not head.projection.weight.requires_grad
    ):
        views, test = bench.projected(head, views)
        module = OnVariables(head)
    begin = time.perf_counter()
    history = _fit(module, views, recipe, bench)
    seconds = time.perf_counter() - begin
    network = bench.network(head).folded()
    parts = network.parts()
    if changes.get(SAVED):
        _save(network, folder / NETWORKS / changes[SAVED])
    last = history.epochs[-1]
    return {
        "removed": bench.removed,
        "accuracy": _accuracy(module, test, bench.world.test.labels),
        "uncut": bench.world.accuracy,
        "train_accuracy": last.accuracy,
        "loss": last.loss,
        "parts": parts,
        "parameters": sum(parts.values()),
        "parameters_head": sum(parts.values()) - parts["backbone"],
        "seconds": seconds,
        **facts,
    }


def estimate_dimension(bench: Bench, run: Run, folder: Path) -> dict[str, Any]:
    """Intrinsic dimension of the latents of every class."""
    latents = bench.latents
    points = latents.store.tensor().flatten(1)[bench.fitted.to(latents.store.labels.device)]
    labels = latents.store.labels[bench.fitted.to(latents.store.labels.device)]
    neighbours = min(20, max(2, len(points) // latents.n_classes - 2))
    found = class_dimensions(points, labels, neighbours=neighbours)
    return {"removed": bench.removed, "neighbours": neighbours, **found.to_dict()}


TASKS: Mapping[str, Callable[[Bench, Run, Path], dict[str, Any]]] = {
    "ideals": find_ideals,
    "train": train_head,
    "dimension": estimate_dimension,
}


def measure_speed(world: World, run: Run, folder: Path) -> dict[str, Any]:
    """Images per second of the uncut network and of every variant that was saved, in one go."""
    networks: dict[str, nn.Module] = {world.backbone.name: world.model}
    for name in world.backbone.variants:
        network = CutNetwork.from_pretrained(folder / NETWORKS / name)
        networks[name] = network.to(world.device).folded()
    measured = compare(
        networks,
        world.test.example(),
        batch_sizes=(256,),
        repeats=world.scale.repeats,
        seconds=world.scale.seconds,
        device=world.device,
    )
    parameters = sum(p.numel() for p in world.model.parameters())
    speeds = {
        name: {"mean": speed[0].mean, "std": speed[0].std} for name, speed in measured.items()
    }
    return {"speeds": speeds, "uncut": world.accuracy, "parameters": parameters}


def _fit(module: nn.Module, views: LatentViews, recipe: Recipe, bench: Bench) -> Any:
    feed = ViewFeed(views, seed=recipe.seed)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True  # for training only: ideals need every bit
    try:
        return fit(module, feed, recipe, device=bench.world.device, progress=None)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _accuracy(module: nn.Module, test: Tensor, labels: Tensor) -> float:
    with evaluating(module):
        logits = [module(part.float()).argmax(1) for part in test.split(CHUNK // 4)]
    found = torch.cat(logits)
    return float((found == labels.to(found.device)).double().mean())


def _save(network: CutNetwork, folder: Path) -> None:
    """Write the network so that a reader sees all of it or nothing."""
    partial = folder.with_name(f".{folder.name}")
    shutil.rmtree(partial, ignore_errors=True)
    network.save_pretrained(partial)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
