"""How many floating-point operations a network needs for one example."""

from __future__ import annotations

from contextlib import ExitStack
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vinets.measure.running import batch_of
from vinets.running import Inputs, call, evaluating

__all__ = ["flops"]

# torch counts products of matrices only; these get shapes.
VECTOR_PRODUCTS = {
    torch.ops.aten.mv: lambda matrix, *_, **__: 2 * prod(matrix),
    torch.ops.aten.dot: lambda vector, *_, **__: 2 * prod(vector),
    torch.ops.aten.addmv: lambda added, matrix, *_, **__: 2 * prod(matrix),
}


def flops(network: nn.Module, example: Inputs) -> int:
    """Count the floating-point operations of one forward pass, per example.

    A matrix product of shapes (m, k) and (k, n) counts ``2 m k n``, a convolution alike; this
    covers attention. Additions of biases, activations, normalisation and pooling count nothing,
    nor do recurrent layers, which run as one kernel. A submodule may state an integer attribute
    ``multiplications``, the element-wise products behind one row of its output, as in monomials
    evaluated by gathering. It counts once per row: an output of shape (B, ..., k) has
    ``numel / (B k)`` rows per example.

    The network is not changed, and runs in eval mode on the device where it lies, as the example
    does: a batch of inputs. Work that does not depend on the batch is shared out.

    Examples
    --------
    >>> flops(nn.Linear(3, 2), torch.zeros(5, 3))
    12
    """
    batch = batch_of("flops", example)
    stated: list[int] = []

    def hook(module: nn.Module, args: Any, output: Any) -> None:
        if not isinstance(output, Tensor) or not output.ndim:
            raise ValueError(
                f"{type(module).__name__} states its multiplications, so it must return one "
                f"tensor with a row per position. Got {type(output).__name__} instead."
            )
        rows = prod(output.shape[:-1])
        stated.append(round(int(module.multiplications) * rows / batch))  # type: ignore[arg-type]

    counter = FlopCounterMode(display=False, custom_mapping=VECTOR_PRODUCTS)
    fast_path = torch.backends.mha.get_fastpath_enabled()
    with evaluating(network), ExitStack() as stack:
        for module in network.modules():
            if isinstance(getattr(module, "multiplications", None), int):
                stack.enter_context(module.register_forward_hook(hook))  # removed at the end
        # Attention runs as plain matrix products: torch counts nothing for some fused kernels.
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        torch.backends.mha.set_fastpath_enabled(False)
        stack.enter_context(counter)
        call(network, example)
    return round(counter.get_total_flops() / batch) + sum(stated)
