"""Lipschitz constants of what stands between the linear layers of a traced network.

All constants are for the Euclidean norm of one example. Those of pooling depend on the input size.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

__all__ = ["average_pool_constant", "is_sum", "lipschitz_constant", "max_pool_constant"]

ONE = (nn.ReLU, nn.ReLU6, nn.Tanh, nn.Hardtanh, nn.Softplus)
ONE_IN_EVAL = (nn.Flatten, nn.Identity, nn.Dropout, nn.Dropout2d)
ONE_BY_NAME = {"relu", "relu_", "tanh", "tanh_", "abs", "absolute", "flatten", "contiguous"}
ONE_BY_NAME |= {"dropout", "view", "reshape", "squeeze"}
SLOPES: dict[type[nn.Module], float] = {nn.GELU: 1.13, nn.SiLU: 1.1}  # rounded upwards
AVERAGES = (nn.AvgPool2d, nn.AdaptiveAvgPool2d)
AVERAGES_BY_NAME: dict[str, Callable[..., Any]] = {
    "avg_pool2d": F.avg_pool2d,
    "adaptive_avg_pool2d": F.adaptive_avg_pool2d,
    "mean": torch.mean,
}


def is_sum(node: fx.Node) -> bool:
    """Whether ``node`` adds two tensors."""
    if node.op == "call_method":
        return node.target in ("add", "add_")
    return node.op == "call_function" and node.target in (operator.add, operator.iadd, torch.add)


def lipschitz_constant(node: fx.Node, modules: dict[str, nn.Module]) -> float:
    """Lipschitz constant of a node that is not a linear layer, from its module or function."""
    source = node.args[0]
    assert isinstance(source, fx.Node)
    shape = tuple(source.meta["tensor_meta"].shape[1:])
    if node.op == "call_module":
        return _of_module(modules[str(node.target)], shape, str(node.target))
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if name in AVERAGES_BY_NAME:
        function = AVERAGES_BY_NAME[name]
        return average_pool_constant(lambda x: function(x, *node.args[1:], **node.kwargs), shape)
    if name in ONE_BY_NAME:
        return 1.0
    raise _unknown(node.name, str(name or node.target))


def _of_module(module: nn.Module, shape: tuple[int, ...], name: str) -> float:
    if isinstance(module, ONE + ONE_IN_EVAL):
        return 1.0
    if isinstance(module, nn.LeakyReLU):
        return max(1.0, abs(module.negative_slope))
    if isinstance(module, nn.ELU):
        return max(1.0, module.alpha)
    if isinstance(module, AVERAGES):
        return average_pool_constant(module, shape)
    if isinstance(module, nn.MaxPool2d):
        return max_pool_constant(module, shape)
    if type(module) in SLOPES:
        return SLOPES[type(module)]
    raise _unknown(name, type(module).__name__)


def average_pool_constant(pool: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> float:
    r"""Bound on the norm of a linear map with non-negative entries, by Schur's test.

    :math:`\|A\|_2 \le \sqrt{\max_i \sum_j A_{ij} \cdot \max_j \sum_i A_{ij}}`, an equality for
    windows of one size that do not overlap: 1/k for k x k windows.

    Examples
    --------
    >>> average_pool_constant(nn.AvgPool2d(4), (3, 8, 8))
    0.25
    """
    ones = torch.ones(1, *shape, dtype=torch.float64)
    rows, pull_back = torch.func.vjp(pool, ones)[:2]
    (columns,) = pull_back(torch.ones_like(rows))
    return math.sqrt(float(rows.max()) * float(columns.max()))


def max_pool_constant(pool: nn.MaxPool2d, shape: tuple[int, ...]) -> float:
    r"""Square root of the number of windows that an input may lie in.

    A maximum moves by no more than the largest change in its window, so the squared change of all
    outputs is at most the squared change of the inputs, each counted once per window.

    Examples
    --------
    >>> max_pool_constant(nn.MaxPool2d(2), (3, 8, 8))
    1.0
    >>> max_pool_constant(nn.MaxPool2d(3, stride=2, padding=1), (3, 8, 8))
    2.0
    """
    outputs = pool(torch.zeros(1, *shape)).shape[-2:]
    windows = 1
    for axis, size in enumerate(outputs):
        sizes = (pool.kernel_size, pool.stride, pool.dilation)  # each one number, or one an axis
        k, s, d = (v if isinstance(v, int) else v[axis] for v in sizes)
        windows *= min(size, math.ceil(k * math.gcd(s, d) / s))
    return math.sqrt(windows)


def _unknown(name: str, kind: str) -> ValueError:
    return ValueError(
        f"spectral complexity is defined for linear and Conv2d layers with batch normalisation, "
        f"Lipschitz activations, pooling and sums of residual blocks. Got {kind} at {name!r} "
        "instead. Cut the network in front of it, or replace it."
    )
