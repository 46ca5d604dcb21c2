"""How many numbers a network stores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

__all__ = ["Sizes", "sizes", "stored_indices", "stored_numbers"]


@dataclass(frozen=True)
class Sizes:
    """How many numbers a network stores."""

    total: int  # all parameters and all floating-point buffers
    parameters: int  # papers usually report this one
    indices: int  # of integer and boolean buffers, such as the index tables of monomials
    by_part: dict[str, int]  # {"network": total} if the network names no parts


def sizes(network: nn.Module) -> Sizes:
    """Count what a network stores, as a whole and by part.

    A network may offer a method ``parts()`` that returns a dict from the name of a part to the
    module that is this part, or to its count of stored numbers. Parts need not cover the network.

    Examples
    --------
    >>> sizes(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    Sizes(total=16, parameters=12, indices=1, by_part={'network': 16})
    """
    total = stored_numbers(network)
    offered = getattr(network, "parts", None)
    parts: Mapping[str, nn.Module | int] = {"network": total}
    if callable(offered) and not isinstance(offered, nn.Module):  # a child may have this name
        parts = offered()
    by_part = {
        name: stored_numbers(part) if isinstance(part, nn.Module) else int(part)
        for name, part in parts.items()
    }
    return Sizes(total, _count(network.parameters()), stored_indices(network), by_part)


def stored_numbers(module: nn.Module) -> int:
    """Count the entries of all parameters and floating-point buffers, a shared tensor once.

    Buffers that ``state_dict`` leaves out count too: the network holds them when it runs.

    Examples
    --------
    >>> layer = nn.Linear(3, 3, bias=False)
    >>> stored_numbers(nn.Sequential(layer, layer))
    9
    """
    return _count([*module.parameters(), *(b for b in module.buffers() if not _is_index(b))])


def stored_indices(module: nn.Module) -> int:
    """Count the entries of all integer and boolean buffers, a shared tensor once."""
    return _count(b for b in module.buffers() if _is_index(b))


def _is_index(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex())


def _count(tensors: Iterable[Tensor]) -> int:
    """Entries of the tensors; two tensors that show the same memory in the same way count once."""
    distinct: dict[Any, int] = {}
    for tensor in tensors:
        if is_lazy(tensor):
            raise ValueError(
                "The network has parameters without a shape. Run one forward pass before counting."
            )
        # By address: views of one memory that differ in shape or strides are different tensors.
        where = tensor.untyped_storage()._cdata, tensor.storage_offset()
        distinct[*where, tensor.shape, tensor.stride(), tensor.dtype] = tensor.numel()
    return sum(distinct.values())
