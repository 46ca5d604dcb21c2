"""How many floating-point operations a network needs for one example."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vinets.measure.running import batch_of
from vinets.running import Inputs, call, evaluating

__all__ = ["flops"]


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
    with evaluating(network), _products_visible(), _stated(network, batch) as stated:
        counter = FlopCounterMode(display=False, custom_mapping=VECTOR_PRODUCTS)
        with counter:
            call(network, example)
    return round(counter.get_total_flops() / batch) + sum(stated)


# torch counts products of matrices only; these get shapes.
VECTOR_PRODUCTS = {
    torch.ops.aten.mv: lambda matrix, *_, **__: 2 * prod(matrix),
    torch.ops.aten.dot: lambda vector, *_, **__: 2 * prod(vector),
    torch.ops.aten.addmv: lambda added, matrix, *_, **__: 2 * prod(matrix),
}


@contextmanager
def _products_visible() -> Iterator[None]:
    """Run attention as plain matrix products: torch counts nothing for some fused kernels."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _stated(network: nn.Module, batch: int) -> Iterator[list[int]]:
    """Collect, call by call, the multiplications that submodules state."""
    counts: list[int] = []

    def hook(module: nn.Module, args: Any, output: Any) -> None:
        if not isinstance(output, Tensor) or not output.ndim:
            raise ValueError(
                f"{type(module).__name__} states its multiplications, so it must return one "
                f"tensor with a row per position. Got {type(output).__name__} instead."
            )
        rows = prod(output.shape[:-1])
        counts.append(round(int(module.multiplications) * rows / batch))  # type: ignore[arg-type]

    stating = [m for m in network.modules() if isinstance(getattr(m, "multiplications", None), int)]
    handles = [module.register_forward_hook(hook) for module in stating]
    try:
        yield counts
    finally:
        for handle in handles:
            handle.remove()
