"""Where a network can be cut, and the network up to there.

The network is traced with :mod:`torch.fx`, the cut module kept whole; everything behind it is
removed from the graph, and with it the parameters that nothing uses any more. A network that does
not trace is wrapped instead: a hook ends the forward pass at the cut, and the parameters stay.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from vinets.checks import parameter_error

__all__ = ["CutPoint", "StoppedNetwork", "cut_points", "truncate"]

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True)
class CutPoint:
    """A place to cut, in the order in which the network reaches them.

    Attributes
    ----------
    index : int
        Position in the list.
    name : str
        Name of the module whose output becomes the latents.
    shape : tuple of int
        Shape of that output for one example, without the batch.
    parameters, macs : int
        Parameters and multiply-adds (convolutions and linear layers) that the truncated network
        still needs.
    removed : float
        Share of the convolutional layers that the cut removes, in [0, 1].
    """

    index: int
    name: str
    shape: tuple[int, ...]
    parameters: int
    macs: int
    removed: float


def cut_points(model: nn.Module, example: Tensor) -> list[CutPoint]:
    """List every place where ``model`` can be cut.

    Parameters
    ----------
    model : Module
        The network; it is not changed, and runs in eval mode.
    example : Tensor
        A batch of inputs; one is enough.

    Examples
    --------
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    >>> [(p.name, p.shape, p.parameters) for p in cut_points(net, torch.zeros(1, 1, 8, 8))]
    [('0', (4, 6, 6), 40), ('1', (4, 6, 6), 40), ('2', (144,), 40), ('3', (10,), 1490)]
    """
    calls = _calls(model, example)
    order = list(calls)
    needed = _needed(model, order)
    total = sum(isinstance(model.get_submodule(name), CONVOLUTIONS) for name in order)
    points = []
    for index, name in enumerate(order):
        kept = needed[name]
        convolutions = sum(isinstance(model.get_submodule(k), CONVOLUTIONS) for k in kept)
        points.append(
            CutPoint(
                index,
                name,
                calls[name][0],
                sum(p.numel() for k in kept for p in model.get_submodule(k).parameters()),
                sum(calls[k][1] for k in kept),
                1 - convolutions / total if total else 0.0,
            )
        )
    return points


def truncate(model: nn.Module, cut: str | int, example: Tensor | None = None) -> nn.Module:
    """The network up to and including the module ``cut``, in eval mode.

    Parameters
    ----------
    model : Module
        The network; it is not changed. Parameters are shared with the result.
    cut : str or int
        A module name such as ``"layer3.1.bn1"``; an index into :func:`cut_points`; or the share of
        convolutional layers to remove, such as ``"50%"``.
    example : Tensor or None, default=None
        A batch of inputs, needed for an index or a share.
    """
    name = _resolve(model, cut, example)
    traced = _trace(model, keep=(name,))
    if traced is None:
        return StoppedNetwork(model, name).eval()
    for node in traced.graph.nodes:
        if node.op == "call_module" and node.target == name:
            break
    else:
        raise parameter_error("truncate", "cut", "a module that the forward pass calls", cut)
    (output,) = (n for n in traced.graph.nodes if n.op == "output")
    output.args = (node,)
    traced.graph.eliminate_dead_code()
    traced.delete_all_unused_submodules()
    traced.recompile()
    return traced.eval()


class StoppedNetwork(nn.Module):
    """A network whose forward pass ends at a module: for networks that cannot be traced."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model = model
        self.name = name

    def forward(self, *inputs: Any, **options: Any) -> Any:
        def stop(module: nn.Module, args: Any, output: Any) -> None:
            raise _Reached(output)

        handle = self.model.get_submodule(self.name).register_forward_hook(stop)
        try:
            self.model(*inputs, **options)
        except _Reached as reached:
            return reached.output
        finally:
            handle.remove()
        raise RuntimeError(f"the forward pass never called {self.name!r}")


class _Reached(Exception):
    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output


class _Tracer(fx.Tracer):
    def __init__(self, keep: tuple[str, ...]) -> None:
        super().__init__()
        self.keep = keep

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name in self.keep or super().is_leaf_module(
            m, module_qualified_name
        )


def _trace(model: nn.Module, keep: tuple[str, ...] = ()) -> fx.GraphModule | None:
    try:
        return fx.GraphModule(model, _Tracer(keep).trace(model))
    except (fx.proxy.TraceError, TypeError, AttributeError, RuntimeError, ValueError):
        return None


def _resolve(model: nn.Module, cut: str | int, example: Tensor | None) -> str:
    names = [name for name, _ in model.named_modules() if name]
    if isinstance(cut, str) and not cut.endswith("%"):
        if cut in names:
            return cut
        near = difflib.get_close_matches(cut, names, n=3, cutoff=0.3)
        hint = f"The nearest names are {', '.join(near)}." if near else ""
        raise parameter_error("truncate", "cut", "the name of a module", cut, hint)
    if example is None:
        raise ValueError(f"cut={cut!r} needs an example batch: pass truncate(..., example=batch).")
    points = cut_points(model, example)
    if isinstance(cut, int):
        if not -len(points) <= cut < len(points):
            accepted = f"an index below {len(points)}"
            raise parameter_error(
                "truncate", "cut", accepted, cut, "See cut_points(model, example)."
            )
        return points[cut].name
    try:
        share = float(cut[:-1]) / 100
    except ValueError:
        raise parameter_error("truncate", "cut", "a share such as '50%'", cut) from None
    return min(points, key=lambda p: (abs(p.removed - share), -p.index)).name


def _calls(model: nn.Module, example: Tensor) -> dict[str, tuple[tuple[int, ...], int]]:
    """Output shape and multiply-adds of every leaf module, in the order of the first calls."""
    calls: dict[str, tuple[tuple[int, ...], int]] = {}
    handles = []

    def watch(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            if isinstance(output, Tensor) and name not in calls:
                calls[name] = tuple(output.shape[1:]), _macs(module, output)

        return hook

    for name, module in model.named_modules():
        if name and not any(module.children()):
            handles.append(module.register_forward_hook(watch(name)))
    was_training = model.training
    try:
        with torch.no_grad():
            model.eval()(example)
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    return calls


def _macs(module: nn.Module, output: Tensor) -> int:
    per_image = output[0].numel()
    if isinstance(module, CONVOLUTIONS):
        return per_image * module.weight[0].numel()
    if isinstance(module, nn.Linear):
        return per_image * module.in_features
    return 0


def _needed(model: nn.Module, order: list[str]) -> dict[str, list[str]]:
    """Leaf modules that the output of each one depends on, itself included."""
    traced = _trace(model)
    if traced is None:  # whatever ran before it
        return {name: order[: i + 1] for i, name in enumerate(order)}
    before: dict[fx.Node, frozenset[str]] = {}
    needed: dict[str, list[str]] = {}
    for node in traced.graph.nodes:
        known = frozenset().union(*(before[n] for n in node.all_input_nodes))
        if node.op == "call_module":
            known |= {str(node.target)}
            needed.setdefault(str(node.target), [n for n in order if n in known])
        before[node] = known
    return {name: needed.get(name, order[: i + 1]) for i, name in enumerate(order)}
