r"""A network as the sequence of layers that the definition of spectral complexity needs.

The definition is for :math:`\sigma_L \circ W_L \circ \dots \circ \sigma_1 \circ W_1`. The network
is traced, and its parts are read so:

* linear and convolutional layers are the :math:`W_i`, without their biases;
* batch normalisation in eval mode scales each channel. Right behind a layer it is folded into the
  rows of :math:`W_i`; elsewhere it is a diagonal layer of its own;
* activations, pooling and flattening belong to :math:`\sigma_i`, with the product of their
  Lipschitz constants;
* residual blocks :math:`x \mapsto f(x) + S x` follow the rule ``stacked``. The shortcut travels
  beside the branch, so the block *is* a plain sequence of wider layers, and both norms of these
  are exact. For a branch :math:`f = W_k \sigma \cdots \sigma W_1`:

  - fork, :math:`[W_1; S]`: (2,1) norms add up, and with :math:`S = I` the spectral norm is
    :math:`\sqrt{\|W_1\|^2 + 1}`;
  - carry, :math:`\mathrm{diag}(W_i, I)`: spectral norm :math:`\max(\|W_i\|, 1)`, and the (2,1)
    norm grows by the count of numbers carried;
  - join, :math:`[W_k, I]`: spectral norm :math:`\sqrt{\|W_k\|^2 + 1}`, and each row norm r turns
    into :math:`\sqrt{r^2 + 1}`.

  The theorems for the definition hold for this sequence as it stands. Its product of norms is at
  least :math:`\|W_k\| \cdots \|W_1\| + \|S\|` by Cauchy and Schwarz, so it bounds the block's
  Lipschitz constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, fx, nn
from torch.fx.passes.shape_prop import ShapeProp

from vinets.theory.lipschitz import is_sum, lipschitz_constant
from vinets.theory.norms import LinearLayer

__all__ = ["RESIDUAL_RULE", "Layer", "layers_of"]

RESIDUAL_RULE = "stacked"
NORMALISATIONS = (nn.BatchNorm1d, nn.BatchNorm2d)


@dataclass(frozen=True)
class Layer:
    r"""One layer :math:`\sigma_i \circ W_i`.

    A shortcut of a residual block, and the numbers ``carried``, travel beside the branch; see the
    module's text.
    """

    name: str
    operator: LinearLayer  # in float64, with batch normalisation folded in
    input_shape: tuple[int, ...]  # of one example
    output_shape: tuple[int, ...]
    lipschitz: float = 1.0  # of what follows, up to the next layer
    role: Literal["plain", "fork", "carry", "join"] = "plain"
    shortcut: LinearLayer | None = None  # S of a fork; None is the identity
    carried: int = 0  # behind a fork or a carry


def layers_of(network: nn.Module, example: Tensor) -> list[Layer]:
    """Read ``network`` as a sequence of layers; see the module's text for the rules.

    The network is one that :mod:`torch.fx` can trace. It is not changed, and counts in eval mode.
    The example, a batch of inputs, fixes the sizes; one is enough.

    Examples
    --------
    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AvgPool2d(2))
    >>> [(l.name, l.output_shape, l.lipschitz) for l in layers_of(net, torch.zeros(1, 1, 8, 8))]
    [('0', (4, 6, 6), 0.5)]
    """
    try:
        traced = fx.symbolic_trace(deepcopy(network).eval())
    except (fx.proxy.TraceError, TypeError, AttributeError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"the layers of {type(network).__name__} cannot be read, for torch.fx does not trace "
            f"it: {error}."
        ) from None
    with torch.no_grad():
        ShapeProp(traced).propagate(example)
    (output,) = (node for node in traced.graph.nodes if node.op == "output")
    if not isinstance(output.args[0], fx.Node):
        raise ValueError("spectral complexity needs a network with one tensor as its output.")
    reader = _Reader(dict(traced.named_modules()))
    for item in _sequence(output.args[0]):
        reader.read(item)
    layers = reader.layers
    if not layers:
        raise ValueError("spectral complexity needs a network with a linear layer. Got none.")
    return [replace(layers[0], lipschitz=reader.before * layers[0].lipschitz), *layers[1:]]


@dataclass(frozen=True)
class _Block:
    name: str
    branch: list[fx.Node]
    shortcut: list[fx.Node]


def _sequence(last: fx.Node) -> list[fx.Node | _Block]:
    """Nodes and residual blocks from the input to ``last``."""
    items: list[fx.Node | _Block] = []
    node = last
    while node.op != "placeholder":
        if is_sum(node):
            block, node = _block(node)
            items.append(block)
        else:
            items.append(node)
            node = _source(node)
    return items[::-1]


def _block(total: fx.Node) -> tuple[_Block, fx.Node]:
    """The two paths that meet in a sum, and the node at which they part."""
    paths = [_path(node) for node in total.args[:2] if isinstance(node, fx.Node)]
    shared = [node for node in paths[0] if node in paths[-1]]
    plain = len(paths) == 2 and not total.kwargs  # no alpha
    if not plain or not shared or _shape(paths[0][0]) != _shape(paths[1][0]):
        raise ValueError(
            f"the sum {total.name!r} is not a residual block that can be read: both terms must "
            "have one shape and come from one tensor, with no other sum in between."
        )
    fork = shared[0]
    shortcut, branch = sorted((path[: path.index(fork)][::-1] for path in paths), key=len)
    return _Block(total.name, branch, shortcut), fork


def _path(node: fx.Node) -> list[fx.Node]:
    """The node and what it comes from, back to an input or a sum."""
    path = [node]
    while path[-1].op != "placeholder" and not is_sum(path[-1]):
        path.append(_source(path[-1]))
    return path


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
        self.modules = modules
        self.layers: list[Layer] = []
        self.before = 1.0
        self.bare: fx.Node | None = None

    def read(self, item: fx.Node | _Block) -> None:
        if isinstance(item, _Block):
            self.layers += self._residual(item)
            self.bare = None
            return
        module = self.modules.get(str(item.target)) if item.op == "call_module" else None
        if isinstance(module, nn.Linear | nn.Conv2d):
            shapes = _shape(_source(item)), _shape(item)
            self.layers.append(Layer(str(item.target), deepcopy(module).double(), *shapes))
            self.bare = item
        elif isinstance(module, NORMALISATIONS):
            self._normalise(item, module)
        else:
            self._multiply(lipschitz_constant(item, self.modules))
            self.bare = None

    def _normalise(self, node: fx.Node, module: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
        gain, shape = _gain(module, str(node.target)), _shape(node)
        last = self.layers[-1].operator if self.bare is _source(node) else None
        # Behind a linear layer of sequences, the channels are not the features.
        if isinstance(last, nn.Conv2d) or (isinstance(last, nn.Linear) and len(shape) == 1):
            # In place: the operator is a copy of the network's own module.
            last.weight.data *= gain.reshape(-1, *(1 for _ in last.weight.shape[1:]))
        else:
            size = (*shape, 1, 1)[:3]
            diagonal = nn.Conv2d(len(gain), len(gain), 1, groups=len(gain), bias=False).double()
            diagonal.weight.data = gain.reshape(-1, 1, 1, 1)
            self.layers.append(Layer(str(node.target), diagonal, size, size))
        self.bare = node

    def _multiply(self, constant: float) -> None:
        if self.layers:
            last = self.layers[-1]
            self.layers[-1] = replace(last, lipschitz=constant * last.lipschitz)
        else:
            self.before *= constant

    def _residual(self, block: _Block) -> list[Layer]:
        """Layers of a block by the rule ``stacked``."""
        branch, shortcut = self._chain(block.branch), self._chain(block.shortcut)
        if branch is None or shortcut is None or len(branch) < 2 or len(shortcut) > 1:
            raise ValueError(
                f"the residual block at {block.name!r} cannot be read: the branch must start and "
                "end in one of two or more layers, and the shortcut must be the identity or one "
                "layer."
            )
        carried = torch.Size(branch[-1].output_shape).numel()
        operator = shortcut[0].operator if shortcut else None
        first = replace(branch[0], role="fork", shortcut=operator, carried=carried)
        middle = [replace(layer, role="carry", carried=carried) for layer in branch[1:-1]]
        # Beside the activations of the branch, the shortcut passes through the identity.
        inner = [replace(layer, lipschitz=max(1.0, layer.lipschitz)) for layer in (first, *middle)]
        return [*inner, replace(branch[-1], role="join")]

    def _chain(self, nodes: Sequence[fx.Node]) -> list[Layer] | None:
        """Layers of a path in a block, or None unless it starts and ends in one."""
        reader = _Reader(self.modules)
        for node in nodes:
            reader.read(node)
            if not reader.layers:
                return None
        return reader.layers if not nodes or reader.bare is nodes[-1] else None


def _shape(node: fx.Node) -> tuple[int, ...]:
    return tuple(node.meta["tensor_meta"].shape[1:])


def _gain(module: nn.BatchNorm1d | nn.BatchNorm2d, name: str) -> Tensor:
    """What batch normalisation in eval mode multiplies each channel by."""
    if module.running_var is None:
        raise ValueError(
            f"the batch normalisation {name!r} keeps no running statistics, so it is no linear "
            "layer in eval mode. Train it with track_running_stats=True."
        )
    gain = (module.running_var.double() + module.eps).rsqrt()
    return gain if module.weight is None else gain * module.weight.detach().double()
