"""The networks of rivals, before they are trained."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from benchmarks.rivals.plan import Rival
from vinets.heads.base import seeded
from vinets.models import create_model

ALIGNED = 4  # channels come in multiples of this, for others run slowly
CLOSE = 0.01  # to the size that was asked for, as a share of it
STEPS = 10  # of a global pruning; in one step, whole layers would go
LEAST = 0.05  # of its channels that every layer keeps


def parameters(network: nn.Module) -> int:
    """How many there are."""
    return sum(p.numel() for p in network.parameters())


def network_of(rival: Rival, given: nn.Module, classes: int) -> nn.Module:
    """The untrained network; ``given`` is the trained one that it is to replace, and stays."""
    if rival.kind in ("uncut", "tuned"):
        return copy.deepcopy(given)
    if rival.kind == "pruned":
        return pruned(given, rival.size, rival.scope)
    with seeded(rival.seed):
        if rival.kind == "classic":
            return create_model(rival.model, classes)
        return create_model(rival.given, classes, width=width_for(rival.given, classes, rival.size))


def width_for(model: str, classes: int, size: int) -> float:
    """Share of the channels with which a network has about ``size`` parameters."""

    def gap(width: float) -> int:
        with torch.device("meta"):
            return abs(parameters(create_model(model, classes, width=width)) - size)

    return min((channels / 64 for channels in range(ALIGNED, 65, ALIGNED)), key=gap)


def pruned(given: nn.Module, size: int, scope: str, example: Tensor | None = None) -> nn.Module:
    """The network with about ``size`` parameters that Torch-Pruning leaves of ``given``.

    Channels go by the norm of their group: all weights that depend on them.
    """
    low, high = 0.0, 1.0
    example = torch.zeros(1, 3, 32, 32) if example is None else example.cpu()
    best = copy.deepcopy(given)
    for _ in range(12):  # halvings: to less than a channel in 512
        ratio = (low + high) / 2
        found = _less(given, ratio, scope, example)
        gap, before = (abs(parameters(one) - size) for one in (found, best))
        best = found if gap < before else best
        if gap <= CLOSE * size:
            break
        low, high = (ratio, high) if parameters(found) > size else (low, ratio)
    return best


def _less(given: nn.Module, ratio: float, scope: str, example: Tensor) -> nn.Module:
    """The network without this share of its channels."""
    try:
        import torch_pruning
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Pruned networks need torch-pruning, which is not installed. Install it with: "
            "pip install torch-pruning==1.6.1, or leave them out."
        ) from None

    network = copy.deepcopy(given).cpu().eval()  # where sums round alike on every machine
    steps = STEPS if scope == "global" else 1
    last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
    pruner = torch_pruning.pruner.BasePruner(
        network,
        example,
        torch_pruning.importance.GroupMagnitudeImportance(p=2),
        global_pruning=scope == "global",
        pruning_ratio=ratio,
        max_pruning_ratio=1 - LEAST,
        iterative_steps=steps,
        round_to=ALIGNED,
        ignored_layers=[last],  # its outputs are the classes
    )
    for _ in range(steps):
        pruner.step()
    return network
