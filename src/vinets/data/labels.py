"""Labels, their classes, and seeded draws of positions class by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from vinets.core.checks import bounded_float, optional_positive_int, parameter_error
from vinets.core.options import check_value, whole

Pair: TypeAlias = tuple[Tensor, Tensor]
"""Inputs (N, ...) with labels (N,)."""

MOST_CLASSES = 2**20  # beyond this, somebody passed identifiers rather than labels


def as_labels(owner: str, values: Any, count: int | None = None) -> Tensor:
    """Labels as an int64 tensor (N,) on the CPU; anything but integers from 0 up is refused.

    There must be ``count`` of them, the number of examples, where that is known.
    """
    accepted = "a list of integers 0..K-1, one for each example"
    remedy = "Encode the classes as 0, 1, 2 and so on."
    try:
        if not isinstance(values, Tensor):
            array = np.asarray(values)
            # Torch reads no foreign byte order, and does little with wide unsigned integers.
            dtype = array.dtype.newbyteorder("=") if array.dtype.kind != "u" else np.int64
            values = torch.from_numpy(array.astype(dtype))
        labels = values.detach()
    except (TypeError, ValueError):
        raise parameter_error(owner, "labels", accepted, brief(values), remedy) from None
    if labels.ndim != 1:
        raise parameter_error(owner, "labels", accepted, f"shape {tuple(labels.shape)}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise parameter_error(owner, "labels", accepted, labels.dtype, remedy)
    labels = labels.to("cpu", torch.int64)
    if count is not None and len(labels) != count:
        raise parameter_error(
            owner, "labels", f"as many as the examples ({count})", f"{len(labels)} labels"
        )
    low, high = (int(labels.min()), int(labels.max())) if len(labels) else (0, 0)
    if low < 0 or high >= MOST_CLASSES:
        raise parameter_error(owner, "labels", accepted, f"labels from {low} to {high}", remedy)
    return labels


def class_names(owner: str, classes: Sequence[str] | None, labels: Tensor) -> tuple[str, ...]:
    """Names of the classes; without any, the numbers up to the largest label."""
    needed = int(labels.max()) + 1 if len(labels) else 0
    if classes is None:
        return tuple(str(k) for k in range(needed))
    if isinstance(classes, str) or not all(isinstance(name, str) for name in classes):
        raise parameter_error(owner, "classes", "a sequence of strings", brief(classes))
    if len(classes) < needed:
        accepted = f"at least {needed} names, because the largest label is {needed - 1}"
        raise parameter_error(owner, "classes", accepted, f"{len(classes)} names")
    return tuple(classes)


def positive_int(owner: str, name: str, value: Any, least: int = 1) -> int:
    """Return ``value`` as a positive int, or one of at least ``least``, or raise."""
    check_value(owner, name, whole(least), value)
    return int(value)


def choose_per_class(labels: Tensor, count: int | None, seed: int) -> Tensor:
    """Positions of at most ``count`` examples of each class, sorted; None keeps all.

    The draw for one class depends on the seed, the class and its examples only, and a smaller
    ``count`` draws a part of what a larger one draws.

    Examples
    --------
    >>> choose_per_class(torch.tensor([1, 0, 1, 1]), 1, seed=0)[0]
    tensor(1)
    """
    limit = optional_positive_int("choose_per_class", "count", count)
    seed = positive_int("choose_per_class", "seed", seed, least=0)
    labels = as_labels("choose_per_class", labels)
    if limit is None:
        return torch.arange(len(labels))
    drawn = [members[:limit] for members in _shuffled(labels, seed)]
    return torch.cat([labels[:0], *drawn]).sort().values  # labels[:0] where there are none


def split_positions(
    owner: str, labels: Tensor, share: float, seed: int, name: str = "share"
) -> tuple[Tensor, Tensor]:
    """Positions of the rest and of the held-out part, both sorted, stratified by class.

    Of N examples, ``round(share * N)`` are held out. Class k with N_k examples gives
    ``floor(share * N_k)`` of them, and one more where the remainder is among the largest. A class
    never gives its last example.
    """
    share = bounded_float(owner, name, share, 0, 1)
    seed = positive_int(owner, "seed", seed, least=0)
    shuffled = _shuffled(labels, seed)
    sizes = np.array([len(members) for members in shuffled], dtype=np.int64)
    exact = share * sizes
    quotas = np.floor(exact).astype(np.int64)
    missing = round(share * int(sizes.sum())) - int(quotas.sum())
    by_remainder = np.argsort(quotas - exact, kind="stable")
    open_to_more = [k for k in by_remainder if quotas[k] + 1 < sizes[k]]
    quotas[open_to_more[: max(0, missing)]] += 1
    if share > 0 and not quotas.sum():
        remedy = f"{share:g} of {len(labels)} examples holds out none."
        raise parameter_error(owner, name, "large enough for one example", share, remedy)
    held = torch.zeros(len(labels), dtype=torch.bool)
    for members, quota in zip(shuffled, quotas.tolist(), strict=True):
        held[members[:quota]] = True
    return (~held).nonzero().flatten(), held.nonzero().flatten()


def split_pair(owner: str, pair: Pair, share: float, seed: int) -> tuple[Pair, Pair]:
    """A pair as two: the rest, and a held-out part."""
    values, labels = pair
    rest, held = split_positions(owner, labels, share, seed, "test_share")
    return (values[rest], labels[rest]), (values[held], labels[held])


def _shuffled(labels: Tensor, seed: int) -> list[Tensor]:
    """The positions of every class, shuffled."""
    counts = torch.bincount(labels).tolist()
    by_class = torch.argsort(labels, stable=True).split(counts) if counts else ()
    # A stream for each class: what is drawn of it does not depend on the other classes.
    orders = [np.random.default_rng([seed, k]).permutation(n) for k, n in enumerate(counts)]
    return [members[order] for members, order in zip(by_class, orders, strict=True)]


def brief(value: Any) -> Any:
    """What to call a value in a message: itself if short, else its type."""
    return value if len(repr(value)) <= 60 else type(value).__name__
