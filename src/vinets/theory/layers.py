r"""A network as the sequence of layers that the definition of spectral complexity needs.

For :math:`\sigma_L \circ W_L \circ \dots \circ \sigma_1 \circ W_1`, the network is traced, and

* linear and convolutional layers are the :math:`W_i`, without their biases;
* batch normalisation in eval mode scales each channel. Right behind a layer it is folded into the
  rows of :math:`W_i`; elsewhere it is a diagonal layer of its own;
* activations, pooling and flattening belong to :math:`\sigma_i`, with the product of their
  Lipschitz constants; those of pooling depend on the input size;
* residual blocks :math:`W_k \sigma \cdots \sigma W_1 x + S x` follow the rule ``stacked``: the
  shortcut travels beside the branch, so that the block is a plain sequence of wider layers, a fork
  :math:`[W_1; S]`, carries :math:`\mathrm{diag}(W_i, I)` and a join :math:`[W_k, I]`. With
  :math:`S = I`, fork and join have the spectral norm :math:`\sqrt{\|W\|^2 + 1}`, and a carry
  :math:`\max(\|W\|, 1)`. Both norms of all are exact; docs/theory.md says more.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn import functional as F
from torch.nn.modules.utils import _pair

from vinets.core.checks import reason_of
from vinets.latent.cut import TracedNetwork
from vinets.theory.norms import LinearLayer

NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d)
SUMS = (operator.add, operator.iadd, torch.add, "add", "add_")

# Lipschitz constants, for the Euclidean norm of one example in eval mode, by name.
LIPSCHITZ_ONE = (
    "ReLU ReLU6 Tanh Hardtanh Softplus Flatten Identity Dropout Dropout2d relu relu_ tanh tanh_ "
    "abs absolute flatten contiguous dropout view reshape squeeze"
)
LIPSCHITZ = dict.fromkeys(LIPSCHITZ_ONE.split(), 1.0)
LIPSCHITZ |= {"GELU": 1.13, "SiLU": 1.1}  # rounded upwards
AVERAGES: dict[str, Callable[..., Any]] = {
    "avg_pool2d": F.avg_pool2d,
    "adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "mean": torch.mean,
}


@dataclass(frozen=True)
class Layer:
    r"""One layer :math:`\sigma_i \circ W_i`, with what travels beside it in a residual block."""

    name: str
    operator: LinearLayer  # in float64, with batch normalisation folded in
    input_shape: tuple[int, ...]  # that of one example
    output_shape: tuple[int, ...]
    lipschitz: float = 1.0  # constant of everything that follows, up to the next layer
    role: Literal["plain", "fork", "carry", "join"] = "plain"
    shortcut: LinearLayer | None = None  # S of a fork; None is the identity
    carried: int = 0  # behind a fork or a carry


def read_layers(network: nn.Module, example: Tensor) -> list[Layer]:
    """Read ``network``, which torch.fx can trace, as a sequence of layers in eval mode.

    It is not changed. The example, a batch of inputs, fixes the sizes; one is enough.
    """
    try:
        copied = deepcopy(network).eval()
        traced = TracedNetwork(copied, fx.Tracer().trace(copied))
    except (fx.proxy.TraceError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"The layers of {type(network).__name__} cannot be read, for torch.fx does not trace "
            f"it: {reason_of(error)}. Write its forward without branches that depend on the input."
        ) from None
    with torch.no_grad():
        ShapeProp(traced).propagate(example)
    # ShapeProp has left the shape of its result in the meta data of every node.
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    if not isinstance(output.args[0], fx.Node):
        raise ValueError("spectral complexity needs a network with one tensor as its output.")
    # From the output back to the input, a residual block in one step.
    steps: list[tuple[fx.Node, list[list[fx.Node]]]] = []
    node = output.args[0]
    while node.op != "placeholder":
        paths, source = _block(node) if _is_sum(node) else ([], _source(node))
        steps.append((node, paths))
        node = source
    reader = _Reader(dict(traced.named_modules()))
    for node, paths in reversed(steps):
        reader.read(node, *paths)
    if not reader.layers:
        raise ValueError("spectral complexity needs a network with a linear layer. Got none.")
    first, *others = reader.layers
    return [replace(first, lipschitz=reader.before * first.lipschitz), *others]


def _block(total: fx.Node) -> tuple[list[list[fx.Node]], fx.Node]:
    """Find the shortcut and the branch that meet in a sum, and the node at which they part."""
    # Each term and what it comes from, back to an input or to another sum.
    paths = [[node] for node in total.args[:2] if isinstance(node, fx.Node)]
    for path in paths:
        while path[-1].op != "placeholder" and not _is_sum(path[-1]):
            path.append(_source(path[-1]))
    shared = [node for node in paths[0] if node in paths[-1]]
    plain = len(paths) == 2 and not total.kwargs  # no alpha
    if not plain or not shared or _shape(paths[0][0]) != _shape(paths[1][0]):
        raise ValueError(
            f"the sum {total.name!r} is not a residual block that can be read: both terms must "
            "have one shape and come from one tensor, with no other sum in between."
        )
    fork = shared[0]  # paths run backwards, so that this is where they part last
    return sorted((path[: path.index(fork)][::-1] for path in paths), key=len), fork


def _source(node: fx.Node) -> fx.Node:
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node):
        raise ValueError(f"the step {node.name!r} of the network has no input that can be read.")
    return source


class _Reader:
    """Collects the layers of a chain of nodes.

    ``before`` is the Lipschitz constant of what stands in front of the first layer, ``bare`` the
    node of the last layer as long as nothing stands behind it.
    """

    def __init__(self, modules: dict[str, nn.Module]) -> None:
        self.modules, self.before = modules, 1.0
        self.layers: list[Layer] = []
        self.bare: fx.Node | None = None

    def read(self, node: fx.Node, *paths: list[fx.Node]) -> None:
        """Read one step, or the sum at the end of the ``paths`` of a residual block."""
        module = self.modules.get(str(node.target)) if node.op == "call_module" else None
        if paths:
            self._read_block(node, *paths)
        elif isinstance(module, nn.Linear | nn.Conv2d):
            shapes = _shape(_source(node)), _shape(node)
            self.layers.append(Layer(str(node.target), deepcopy(module).double(), *shapes))
            self.bare = node
        elif isinstance(module, NORMALISATIONS):
            self._normalise(node, module)
            self.bare = node
        else:
            constant, self.bare = _lipschitz_constant(node, module), None
            if self.layers:
                last = self.layers[-1]
                self.layers[-1] = replace(last, lipschitz=constant * last.lipschitz)
            else:
                self.before *= constant

    def _normalise(self, node: fx.Node, module: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
        if module.running_var is None:
            raise ValueError(
                f"the batch normalisation {str(node.target)!r} keeps no running statistics, so it "
                "is no linear layer in eval mode. Train it with track_running_stats=True."
            )
        gain = (module.running_var.double() + module.eps).rsqrt()
        if module.weight is not None:
            gain = gain * module.weight.detach().double()
        shape = _shape(node)
        last = self.layers[-1].operator if self.bare is _source(node) else None
        # Behind a linear layer of sequences, the channels are not the features.
        if isinstance(last, nn.Conv2d) or (isinstance(last, nn.Linear) and len(shape) == 1):
            # In place: the operator is a copy of the network's own module.
            last.weight.data *= gain.reshape(-1, *(1 for _ in last.weight.shape[1:]))
        else:
            size = (*shape, 1, 1)[:3]  # a diagonal, as a convolution with a channel a group
            diagonal = nn.Conv2d(len(gain), len(gain), 1, groups=len(gain), bias=False).double()
            diagonal.weight.data = gain.reshape(-1, 1, 1, 1)
            self.layers.append(Layer(str(node.target), diagonal, size, size))

    def _read_block(self, total: fx.Node, beside: list[fx.Node], along: list[fx.Node]) -> None:
        """Read a residual block by the rule ``stacked``."""
        branch, shortcut = self._chain(along), self._chain(beside)
        if branch is None or shortcut is None or len(branch) < 2 or len(shortcut) > 1:
            raise ValueError(
                f"the residual block at {total.name!r} cannot be read: the branch must start and "
                "end in one of two or more layers, and the shortcut must be the identity or one "
                "layer."
            )
        carried = torch.Size(branch[-1].output_shape).numel()
        operator = shortcut[0].operator if shortcut else None
        first = replace(branch[0], role="fork", shortcut=operator, carried=carried)
        middle = [replace(layer, role="carry", carried=carried) for layer in branch[1:-1]]
        # Beside the activations of the branch, the shortcut passes through the identity.
        inner = [replace(layer, lipschitz=max(1.0, layer.lipschitz)) for layer in (first, *middle)]
        self.layers += [*inner, replace(branch[-1], role="join")]
        self.bare = None

    def _chain(self, nodes: Sequence[fx.Node]) -> list[Layer] | None:
        """Read a path in a block; None unless it starts and ends in a layer."""
        reader = _Reader(self.modules)
        for node in nodes:
            reader.read(node)
            if not reader.layers:  # an activation in front belongs to no layer of the block
                return None
        return reader.layers if not nodes or reader.bare is nodes[-1] else None


def _shape(node: fx.Node) -> tuple[int, ...]:
    return tuple(node.meta["tensor_meta"].shape[1:])


def _is_sum(node: fx.Node) -> bool:
    return node.op in ("call_function", "call_method") and node.target in SUMS


def _lipschitz_constant(node: fx.Node, module: nn.Module | None) -> float:
    """Return the Lipschitz constant of a node that is no linear layer."""
    shape = _shape(_source(node))
    name, kind = str(node.target), type(module).__name__
    match module:
        case nn.LeakyReLU():
            return max(1.0, abs(module.negative_slope))
        case nn.ELU():
            return max(1.0, module.alpha)
        case nn.AvgPool2d() | nn.AdaptiveAvgPool2d():
            return average_pool_constant(module, shape)
        case nn.MaxPool2d():
            return max_pool_constant(module, shape)
        case None:
            name, kind = node.name, getattr(node.target, "__name__", str(node.target))
            if pool := AVERAGES.get(kind):
                args = node.args[1:], node.kwargs
                return average_pool_constant(lambda x: pool(x, *args[0], **args[1]), shape)
    if kind in LIPSCHITZ:
        return LIPSCHITZ[kind]
    raise ValueError(
        f"spectral complexity is defined for linear and Conv2d layers with batch normalisation, "
        f"Lipschitz activations, pooling and sums of residual blocks. Got {kind} at {name!r} "
        "instead. Cut the network in front of it, or replace it."
    )


def average_pool_constant(pool: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> float:
    r"""Bound the norm of a linear map with non-negative entries, by Schur's test.

    :math:`\|A\|_2 \le \sqrt{\max_i \sum_j A_{ij} \cdot \max_j \sum_i A_{ij}}`, an equality for
    windows of one size that do not overlap: 1/k for k x k windows.
    """
    ones = torch.ones(1, *shape, dtype=torch.float64)
    # The map sends ones to the sums of its rows, and its transpose to those of its columns.
    rows, pull_back = torch.func.vjp(pool, ones)[:2]
    (columns,) = pull_back(torch.ones_like(rows))
    return math.sqrt(float(rows.max()) * float(columns.max()))


def max_pool_constant(pool: nn.MaxPool2d, shape: tuple[int, ...]) -> float:
    r"""Return the square root of the number of windows that an input may lie in.

    A maximum moves by no more than the largest change in its window, so the squared change of all
    outputs is at most the squared change of the inputs, each counted once per window.
    """
    axes = [_pair(size) for size in (pool.kernel_size, pool.stride, pool.dilation)]
    outputs = pool(torch.zeros(1, *shape)).shape[-2:]
    windows = [
        min(size, math.ceil(k * math.gcd(s, d) / s))
        for size, k, s, d in zip(outputs, *axes, strict=True)
    ]
    return math.sqrt(math.prod(windows))
