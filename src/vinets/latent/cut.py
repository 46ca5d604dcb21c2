"""Cut a network: list the places where that can be done, and make the network up to one.

The network is traced with :mod:`torch.fx`, the cut module kept whole; everything behind it is
removed from the graph, and with it the parameters that nothing uses any more. A network that does
not trace is wrapped instead: a hook ends the forward pass at the cut, and the parameters stay.
"""

from __future__ import annotations

import difflib
import linecache
import math
import weakref
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from vinets.core.checks import parameter_error
from vinets.core.device import Inputs, call

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
PAPER_STAGES = ("layer2", "layer3", "layer4")

LayerFilter: TypeAlias = Callable[[str, nn.Module], bool]
"""Says whether a layer, by name and module, counts in shares of layers."""


def all_convolutions(name: str, module: nn.Module) -> bool:
    """Count every convolution, shortcuts included."""
    return isinstance(module, CONVOLUTIONS)


def all_layers(name: str, module: nn.Module) -> bool:
    """Count every module that holds no others: convolutions, normalisation, ReLU, pooling."""
    return not any(module.children())


def paper_convolutions(name: str, module: nn.Module) -> bool:
    """Count the convolutions of stages 2 to 4 of a ResNet, shortcuts included.

    Of the ways to count that were tried, this one gives the most of the paper's percentages.
    """
    return all_convolutions(name, module) and name.split(".")[0] in PAPER_STAGES


def share_removed(
    model: nn.Module, truncated: nn.Module, counted: LayerFilter = all_convolutions
) -> float:
    """Return the share of counted layers of ``model`` that ``truncated`` lacks, in [0, 1].

    Examples
    --------
    >>> from vinets.models import resnet18
    >>> model = resnet18(10)
    >>> part = truncate(model, "layer4.0.bn1")
    >>> f"{share_removed(model, part):.1%}, {share_removed(model, part, paper_convolutions):.1%}"
    '20.0%, 26.7%'
    """
    part = truncated.model if isinstance(truncated, StoppedNetwork) else truncated
    every = [name for name, module in model.named_modules() if counted(name, module)]
    kept = {name for name, module in part.named_modules() if counted(name, module)}
    return _share_outside(every, kept)


def _share_outside(names: Collection[str], kept: Collection[str]) -> float:
    return 1 - sum(name in kept for name in names) / len(names) if names else 0.0


@dataclass(frozen=True)
class CutPoint:
    """A cut that a network allows, in the order in which its forward pass reaches them."""

    index: int  # its place in the list of all cuts
    name: str  # the module whose output becomes the latents
    shape: tuple[int, ...]  # that output for one example, without the batch
    parameters: int  # that the truncated network still needs
    macs: int  # multiply-adds of its convolutions and linear layers
    removed: float  # share of the convolutions that the cut removes


def cut_points(model: nn.Module, example: Inputs) -> list[CutPoint]:
    """List every cut that ``model`` allows.

    A cut is behind a module with a tensor as its output: each layer at its first call, and each
    block whose output is that of no layer, such as a residual block with its sum. The network is
    not changed, and runs in eval mode on ``example``, a batch of one input or more.

    Examples
    --------
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    >>> [(p.name, p.shape, p.parameters) for p in cut_points(net, torch.zeros(1, 1, 8, 8))]
    [('0', (4, 6, 6), 40), ('1', (4, 6, 6), 40), ('2', (144,), 40), ('3', (10,), 1490)]
    """
    model = _twin(model)
    shapes, macs = _shapes(model, example)
    needed = _needed(model, list(macs))
    layers = {name: model.get_submodule(name) for name in macs}
    every = [name for name, layer in layers.items() if all_convolutions(name, layer)]
    points = []
    for index, (name, shape) in enumerate(shapes.items()):
        # A block needs what the layers in it need; it is a layer itself, or a prefix of theirs.
        inside = [needed[k] for k in macs if k == name or k.startswith(f"{name}.")]
        kept = macs.keys() & set().union(*inside)
        parameters = sum(p.numel() for k in kept for p in layers[k].parameters())
        multiplied = sum(macs[k] for k in kept)
        removed = _share_outside(every, kept)
        points.append(CutPoint(index, name, shape, parameters, multiplied, removed))
    return points


def truncate(model: nn.Module, cut: str | int, example: Inputs | None = None) -> nn.Module:
    """Return the network up to and including the module ``cut``, in eval mode.

    The network that is given is not changed; the result shares its parameters.

    Parameters
    ----------
    cut : str or int
        A module name such as ``"layer3.1.bn1"``; an index into :func:`cut_points`; or the share of
        convolutional layers to remove, such as ``"50%"``.
    example : Tensor, mapping of Tensor or None, default=None
        A batch of inputs, needed for an index or a share, and to find out what a network that
        does not trace leaves unused.
    """
    name = resolve_cut(model, cut, example)
    model = _twin(model)  # which is in eval mode, because traces keep the mode
    graph = _trace(model, keep=name)
    if graph is None:
        return StoppedNetwork(model if example is None else _used(model, name, example), name)
    node = next((n for n in graph.nodes if n.op == "call_module" and n.target == name), None)
    if node is None:
        raise parameter_error("truncate", "cut", "a module that the forward pass calls", cut)
    # With the cut as the output, all that runs behind it is dead code; its modules are left out.
    (output,) = (n for n in graph.nodes if n.op == "output")
    output.args = (node,)
    graph.eliminate_dead_code()
    return TracedNetwork(model, graph).eval()


class TracedNetwork(fx.GraphModule):
    """A network that runs a graph; what :mod:`torch.fx` compiles for it goes when it goes.

    Otherwise the source of every graph, and of every copy of it, would stay in memory for good.
    """

    def recompile(self) -> Any:
        """Compile the graph anew."""
        compiled = super().recompile()
        source = type(self).forward.__code__.co_filename
        # Sources that torch.fx keeps for tracebacks, and their entries among those of Python.
        kept = getattr(getattr(fx.graph_module, "_loader", None), "eval_cache", {})
        for cache in (linecache.cache, kept):
            weakref.finalize(self, cache.pop, source, None)
        return compiled


class StoppedNetwork(nn.Module):
    """A network that cannot be traced, whose forward pass ends at a module."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model = model
        self.name = name

    def forward(self, *inputs: Any, **options: Any) -> Any:
        def stop(module: nn.Module, args: Any, output: Any) -> None:
            raise _CutReached(output)

        try:
            with self.model.get_submodule(self.name).register_forward_hook(stop):
                self.model(*inputs, **options)
        except _CutReached as reached:
            return reached.args[0]
        raise RuntimeError(f"the forward pass never called {self.name!r}")


class _CutReached(Exception):
    """Ends a forward pass, and carries the output of the module at the cut."""


class _Tracer(fx.Tracer):
    keep = ""  # the name of a module that stays whole

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        # What onnx2torch defines looks at numbers, which stand-ins do not have.
        kept = module_qualified_name == self.keep or type(m).__module__.startswith("onnx2torch.")
        return kept or super().is_leaf_module(m, module_qualified_name)


def _trace(model: nn.Module, keep: str = "") -> fx.Graph | None:
    tracer = _Tracer()
    tracer.keep = keep
    # Besides its own error, fx raises what a network makes of stand-ins for tensors. The network
    # itself has done nothing wrong yet, and can run untraced.
    try:
        graph = tracer.trace(model)
    except (fx.proxy.TraceError, TypeError, AttributeError, RuntimeError, ValueError):
        return None
    graph.owning_module = cast(Any, model)  # which has its modules
    return graph


def _used(model: nn.Module, name: str, example: Inputs) -> nn.Module:
    """Copy ``model``, sharing its tensors, without modules that run behind ``name``.

    Return ``model`` as it is if the copy then computes something else, or misses a
    module that is read without being called: its weights, or the length of a list.
    """
    copy = _twin(model)
    called: set[nn.Module] = set()
    with torch.no_grad(), register_module_forward_pre_hook(lambda module, _: called.add(module)):
        before = call(StoppedNetwork(copy, name), example)
    # The parent of a called module counts: a list of modules is never called itself.
    used = {""}
    for key, module in copy.named_modules():
        if module in called:
            parts = key.split(".")
            used |= {".".join(parts[: i + 1]) for i in range(len(parts))}
    for key in [key for key, _ in copy.named_modules() if key not in used]:
        parent, _, child = key.rpartition(".")
        if parent in used:  # all else goes with its parent
            setattr(copy.get_submodule(parent), child, nn.Identity())
    try:
        with torch.no_grad():
            after = call(StoppedNetwork(copy, name), example)
    except (AttributeError, TypeError):  # what reading from an Identity raises, and nothing else
        return model
    return copy if _equal(before, after) else model


def _twin(model: nn.Module) -> nn.Module:
    """Copy a network, in eval mode; parameters and buffers are shared, hooks and flags are not."""
    # The tensors stay the same memory, because deepcopy takes its memo for copied already.
    shared = {id(t): t for t in (*model.parameters(), *model.buffers())}
    return deepcopy(model, shared).eval()


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return isinstance(b, Tensor) and torch.equal(a, b)
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and all(_equal(a[k], b.get(k)) for k in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)


def resolve_cut(model: nn.Module, cut: str | int, example: Inputs | None = None) -> str:
    """Return the name of the module that ``cut`` means; see :func:`truncate`."""
    names = [name for name, _ in model.named_modules() if name]
    if isinstance(cut, str) and not cut.endswith("%"):
        if cut in names:
            return cut
        near = difflib.get_close_matches(cut, names, n=3, cutoff=0.3)
        near = near or names[:: max(1, len(names) // 3)][:3]
        hint = (
            f"The nearest names are {', '.join(near)}; vinets cuts, or cut_points(model, example), "
            "lists all."
        )
        raise parameter_error("truncate", "cut", "the name of a module", cut, hint)
    if example is None:
        raise ValueError(f"cut={cut!r} needs an example batch: pass truncate(..., example=batch).")
    points = cut_points(model, example)
    if isinstance(cut, int):
        if not -len(points) <= cut < len(points):
            accepted, remedy = f"an index below {len(points)}", "See cut_points(model, example)."
            raise parameter_error("truncate", "cut", accepted, cut, remedy)
        return points[cut].name
    try:
        share = float(cut[:-1]) / 100
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:
        raise parameter_error("truncate", "cut", "a share from '0%' to '100%'", cut)
    # The last of cuts that remove the same layers keeps the norm and the ReLU behind them.
    return min(points, key=lambda p: (abs(p.removed - share), -p.index)).name


def _shapes(model: nn.Module, example: Inputs) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """Find the shapes of outputs at all cuts, in their order, and multiply-adds of layers."""
    shapes: dict[str, tuple[int, ...]] = {}
    macs: dict[str, int] = {}
    outputs: list[Tensor] = []  # kept alive, so that identity means the same cut

    names = {module: name for name, module in model.named_modules() if name}

    def watch(module: nn.Module, args: Any, output: Any) -> None:
        name = names.get(module, "")
        if not name or name in shapes or not isinstance(output, Tensor):
            return
        if not output.ndim or not output.is_floating_point():
            return  # layers of ONNX files compute shapes as well
        if not any(module.children()):
            per_value = 0
            if isinstance(module, CONVOLUTIONS):
                per_value = module.weight[0].numel()
            elif isinstance(module, nn.Linear):
                per_value = module.in_features
            macs[name] = per_value * output[0].numel()
        elif any(output is known for known in outputs):
            return  # the last layer of the block is this cut already
        shapes[name] = tuple(output.shape[1:])
        outputs.append(output)

    with torch.no_grad(), register_module_forward_hook(watch):
        call(model, example)
    return shapes, macs


def _needed(model: nn.Module, order: list[str]) -> dict[str, frozenset[str]]:
    """Find the leaf modules that the output of each one depends on, itself included."""
    # A module that no graph shows is taken to need whatever ran before it.
    needed = {name: frozenset(order[: i + 1]) for i, name in enumerate(order)}
    graph = _trace(model)
    before: dict[fx.Node, frozenset[str]] = {}
    known: dict[str, frozenset[str]] = {}
    for node in () if graph is None else graph.nodes:
        before[node] = frozenset().union(*(before[n] for n in node.all_input_nodes))
        if node.op == "call_module":
            before[node] |= {str(node.target)}
            known.setdefault(str(node.target), before[node])  # a cut is at the first call
    return {name: known.get(name, ran) for name, ran in needed.items()}
