"""Cut a network: list the places where that can be done, and make the network up to one.

Where a network can be cut is told by a recorded forward pass (:mod:`vinets.latent.paths`). To cut
it, the network is traced with :mod:`torch.fx`, the cut module kept whole; everything behind it is
removed from the graph, and with it the parameters that nothing uses any more. A network that does
not trace is wrapped instead: a hook ends the forward pass at the cut, and modules that have not run
by then are left out.
"""

from __future__ import annotations

import difflib
import linecache
import math
import weakref
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeAlias, cast

import torch
from torch import fx, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from vinets.core.checks import parameter_error
from vinets.core.device import Inputs, call, uncompiled
from vinets.latent.paths import WHOLE_LAYERS, PassRecord, record, tensors_in

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
LISTS = (nn.ModuleList, nn.ModuleDict)
PAPER_STAGES = ("layer2", "layer3", "layer4")
MAX_BLOCK = 0.2  # share of the operations of a network, in a block

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

    A layer is there if one of its parameters is; one without parameters, if its name is.
    """
    part = truncated.model if isinstance(truncated, StoppedNetwork) else truncated
    names, kept = dict(part.named_modules()), {id(p) for p in part.parameters()}
    remain = []
    for name, module in model.named_modules():
        if counted(name, module):
            own = {id(p) for p in module.parameters()}
            remain.append(not kept.isdisjoint(own) if own else name in names)
    return _share_outside(remain)


def _share_outside(kept: Sequence[bool]) -> float:
    return 1 - sum(kept) / len(kept) if kept else 0.0


@dataclass(frozen=True)
class CutPoint:
    """A cut that a network allows, in the order in which its forward pass reaches them."""

    index: int | None  # its place in the list of cuts that all paths pass
    name: str  # the module whose output becomes the latents
    shape: tuple[int, ...]  # that output for one example, without the batch
    parameters: int  # that the truncated network still needs
    macs: int  # multiply-adds of the truncated network
    removed: float  # share of the convolutions that the cut removes
    main: bool = True  # all paths from the inputs to the logits pass it
    inside: bool = False  # it lies in a block at whose end the network can be cut, too


def cut_points(model: nn.Module, example: Inputs, every: bool = False) -> list[CutPoint]:
    """List the cuts of ``model`` that every path from its inputs to its logits passes.

    A cut is behind a module, and named by the outermost module that returns the tensor, at its
    first call. ``every`` lists all modules instead, among them some that not all paths pass, such
    as those in a residual block: a cut there leaves out what the other paths carry. The network is
    not changed, and runs once, in eval mode, on ``example``, a batch of one input or more.

    Examples
    --------
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    >>> [(p.name, p.shape, p.parameters) for p in cut_points(net, torch.zeros(1, 1, 8, 8))]
    [('0', (4, 6, 6), 40), ('1', (4, 6, 6), 40), ('2', (144,), 40), ('3', (10,), 1490)]
    """
    model = twin(uncompiled(model))
    recording = record(model, example)
    main, outputs = recording.dominators(), recording.outputs
    names: dict[int, str] = {}  # the outermost module that returned a tensor, by its number
    # The worse names come last: of modules that only pass a tensor on, or that lie deep.
    for name in sorted(outputs, key=lambda name: (outputs[name].passed_on, name.count("."))):
        names.setdefault(outputs[name].number, name)
    sizes = {id(p): p.numel() for p in model.parameters()}
    convolutions = [m for name, m in model.named_modules() if all_convolutions(name, m)]
    blocks = _blocks(model, recording, main)
    stops = _trace(model) is None  # such a network runs as it is, up to the cut
    index = {names[number]: k for k, number in enumerate(sorted(main & names.keys()))}
    points: list[CutPoint] = []
    for name in outputs if every else index:
        number = outputs[name].number
        read = _kept(model, recording, name, stops)
        kept = [any(id(p) in read for p in layer.parameters()) for layer in convolutions]
        points.append(
            CutPoint(
                index.get(name),
                name,
                outputs[name].shape,
                sum(sizes[each] for each in read & sizes.keys()),
                sum(recording.flops[each] for each in recording.needed(number)) // 2,
                _share_outside(kept),
                number in main,
                any(name.startswith(f"{block}.") for block in blocks),
            )
        )
    return points


def _kept(model: nn.Module, recording: PassRecord, name: str, stops: bool) -> set[int]:
    """Return the ids of the parameters that a network needs up to a module, which stays whole."""
    kept = recording.read(recording.outputs[name].number, stops)
    kept |= {id(p) for p in model.get_submodule(name).parameters()}
    # A module that is run as it is keeps its own parameters, which it may read in training alone.
    for earlier in takewhile(lambda one: one != name, recording.outputs) if stops else ():
        module = model.get_submodule(earlier)
        kept |= {id(p) for p in module.parameters(recurse=False)}
    return kept


def say_left_out(model: nn.Module, cut: str, example: Inputs) -> str:
    """Say in a sentence that a cut is not passed by all paths; "" for one that is."""
    points = cut_points(model, example, every=True)
    place = next((k for k, point in enumerate(points) if point.name == cut), None)
    if place is None or points[place].main:
        return ""
    before = [p.name for p in points[:place] if p.main and not p.inside][-1:]
    behind = [p.name for p in points[place:] if p.main and not p.inside][:1]
    near = f" They all pass {' and '.join(before + behind)}." if before + behind else ""
    text = f"Not all paths from the inputs to the logits pass {cut}, and what the others carry is"
    return f"{text} left out.{near}"


def _blocks(model: nn.Module, recording: PassRecord, main: Collection[int]) -> list[str]:
    """Return the modules with a forward of their own that do a small part of the main path."""
    total, blocks = sum(recording.flops), []
    for name, output in recording.outputs.items():
        module = model.get_submodule(name)
        listed = isinstance(module, nn.Sequential) or not any(module.children())
        if listed or output.number not in main:
            continue
        inside = {id(p) for p in module.parameters()}
        steps = zip(recording.parameters, recording.flops, strict=True)
        if sum(flops for read, flops in steps if read & inside) <= MAX_BLOCK * total:
            blocks.append(name)
    return blocks


def truncate(model: nn.Module, cut: str | int, example: Inputs | None = None) -> nn.Module:
    """Return the network up to and including the module ``cut``, in eval mode.

    The network that is given is not changed; the result shares its parameters. The cut is a module
    name such as ``"layer3.1.bn1"``; an index into :func:`cut_points`; or the share of convolutional
    layers to remove, such as ``"50%"``. An index and a share need an ``example``, a batch of
    inputs; it also tells what a network that does not trace leaves unused.
    """
    model = uncompiled(model)
    name = resolve_cut(model, cut, example)
    for above, layer in model.named_modules():
        if isinstance(layer, WHOLE_LAYERS) and name.startswith(f"{above}."):
            accepted = f"outside of {above}, a layer of torch that runs as a whole"
            raise parameter_error("truncate", "cut", accepted, cut)
    model = twin(model)  # which is in eval mode, because traces keep the mode
    stopped = StoppedNetwork(model, name)
    graph = _trace(model, keep=name)
    if graph is not None:
        node = next((n for n in graph.nodes if n.target == name), None)
        leaves = [str(n.target) for n in graph.nodes if n.op == "call_module"]
        if any(name.startswith(f"{leaf}.") for leaf in leaves):  # as in an encoder of torch
            return stopped if example is None else _used(stopped, example)
        if node is None:
            raise parameter_error("truncate", "cut", "a module that the forward pass calls", cut)
        # All that runs behind the cut goes, changes in place too, and then what nothing uses.
        graph.output_node().args = (node,)
        for behind in takewhile(lambda n: n is not node, [*reversed(graph.nodes)][1:]):
            graph.erase_node(behind)
        graph.eliminate_dead_code()
        for one in graph.nodes:
            one.type = None  # an annotation that was postponed is a text, which cannot be pickled
        traced = TracedNetwork(model, graph).eval()
        # Buffers that a graph reads would be saved, also where those of the network are not.
        for above, module in traced.named_modules():
            unsaved = model.get_submodule(above)._non_persistent_buffers_set
            module._non_persistent_buffers_set |= unsaved & module._buffers.keys()
        if example is None or _same(stopped, traced, example):
            return traced
    return stopped if example is None else _used(stopped, example)


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


def _trace(model: nn.Module, keep: str = "") -> fx.Graph | None:
    """Trace a network, a module of which stays whole; None where that cannot be done."""

    class Tracer(fx.Tracer):
        proxy_buffer_attributes = True  # else what is made of them would be a constant

        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            # Layers of other packages are layers, too, such as a convolution that pads by itself.
            kept = module_qualified_name == keep or not any(m.children())
            return kept or super().is_leaf_module(m, module_qualified_name)

    # A network may do anything with stand-ins for tensors, and raise anything. It has done nothing
    # wrong yet, and can run untraced.
    try:
        graph = Tracer().trace(twin(model))  # stand-ins may stay behind in caches
    except Exception:
        return None
    graph.owning_module = cast(Any, model)  # which has its modules
    # An argument with a default is taken for given by a trace, which decides wrongly over None.
    optional = (n for n in graph.nodes if n.op == "placeholder" and n.args and n.users)
    return None if any(optional) else graph


def _used(stopped: StoppedNetwork, example: Inputs) -> StoppedNetwork:
    """Copy a network that stops, sharing its tensors, without what its output does not need.

    Return it as it is if the copy computes something else, or misses what is read without being
    called: the weights of a module, or the length of a list.
    """
    copy = StoppedNetwork(twin(stopped.model), stopped.name)
    recording = record(copy.model, example)
    read = _kept(copy.model, recording, copy.name, stops=True)
    called: set[nn.Module] = set()
    with torch.no_grad(), register_module_forward_pre_hook(lambda module, _: called.add(module)):
        call(copy, example)

    def leave_out(module: nn.Module) -> None:
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in read:
                module.register_parameter(name, None)
        for name, child in module.named_children():
            # A list is never called itself, nor is a layer whose weights or methods alone are used.
            weights = [id(p) for p in child.parameters()]
            ran = called.intersection(child.modules()) or isinstance(child, LISTS)
            if ran or not weights or read.intersection(weights):
                leave_out(child)
            else:
                setattr(module, name, nn.Identity())

    leave_out(copy.model)
    return copy if _same(stopped, copy, example) else stopped


def _same(network: nn.Module, other: nn.Module, example: Inputs) -> bool:
    """Say whether two networks return the same tensors; an error of the first one is raised."""
    with torch.no_grad():
        before = tensors_in(call(network, example))
        try:
            after = tensors_in(call(other, example))
        except (AttributeError, LookupError, TypeError, ValueError, RuntimeError, AssertionError):
            return False
    # Weights that are not loaded yet may make NaN.
    return len(before) == len(after) and all(
        torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(before, after, strict=True)
    )


def twin(model: nn.Module) -> nn.Module:
    """Copy a network, in eval mode; parameters and buffers are shared, hooks and flags are not."""
    # The tensors stay the same memory, because deepcopy takes its memo for copied already.
    shared = {id(t): t for t in (*model.parameters(), *model.buffers())}
    return deepcopy(model, shared).eval()


def resolve_cut(model: nn.Module, cut: str | int, example: Inputs | None = None) -> str:
    """Return the name of the module that ``cut`` means; see :func:`truncate`."""
    names = [name for name, _ in model.named_modules() if name]
    if isinstance(cut, str) and not cut.endswith("%"):
        if cut in names:
            return cut
        near = difflib.get_close_matches(cut, names, n=3, cutoff=0.3)
        near = near or names[:: max(1, len(names) // 3)][:3]
        hint = f"The nearest names are {', '.join(near)}; vinets cuts, or cut_points(), lists all."
        raise parameter_error("truncate", "cut", "the name of a module", cut, hint)
    if example is None:
        raise ValueError(f"cut={cut!r} needs an example batch: pass truncate(..., example=batch).")
    points = cut_points(model, example)
    if isinstance(cut, int):
        if not -len(points) <= cut < len(points):
            accepted, remedy = f"an index below {len(points)}", "See cut_points(model, example)."
            raise parameter_error("truncate", "cut", accepted, cut, remedy)
        return points[cut].name
    share = math.nan
    with suppress(ValueError):
        share = float(cut[:-1]) / 100
    if not 0 <= share <= 1:
        raise parameter_error("truncate", "cut", "a share from '0%' to '100%'", cut)
    # The last of cuts that remove the same layers keeps the norm and the ReLU behind them.
    return min(reversed(points), key=lambda p: abs(p.removed - share)).name
