"""Run a network over batches and keep what it returns; on disk, so that one may go on later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor, nn

from vinets.checks import format_bytes
from vinets.latent.shards import DTYPES, SHARD_BYTES, ShardWriter
from vinets.latent.store import MEMORY_LIMIT, LatentStore
from vinets.running import Inputs, call, each, evaluating

__all__ = ["collect_latents"]

Batches = Iterable[tuple[Inputs, Tensor]]


def collect_latents(
    network: nn.Module,
    batches: Batches,
    *,
    memory_limit: int = MEMORY_LIMIT,
    directory: str | Path | None = None,
    fingerprint: str = "",
    progress: Callable[[int], None] | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> LatentStore:
    """Latents and labels of all examples, in the order of the batches.

    The network runs in eval mode and without gradients; its training flags are restored.

    Parameters
    ----------
    network : Module
        Maps inputs to latents ``(b, ...)``: a truncated network with a reader behind it.
    batches : iterable of (inputs, labels)
        They are moved to the device of the network. Labels are integers ``(b,)``.
    memory_limit : int, default=2 GiB
        The most bytes to hold in memory. Without a directory, all latents have to fit.
    directory : path or None, default=None
        Where to keep the latents. A complete store is opened without running the network. An
        interrupted one goes on behind the examples already there; with the same batches it ends up
        bitwise the same. None keeps them in memory, on the device of the network's output.
    fingerprint : str, default=""
        Names the network and the data. A directory with another one is refused.
    progress : callable or None, default=None
        Called with the number of examples done so far, after every batch.

    Examples
    --------
    >>> batches = [(torch.ones(2, 3), torch.tensor([0, 1]))]
    >>> collect_latents(nn.Flatten(), batches)
    LatentStore(2 latents of shape (3,), torch.float32)
    """
    report = progress if progress is not None else lambda count: None
    if directory is None:
        values, labels = [], []
        nbytes = 0
        for latents, targets in _run(network, batches, torch.empty(0, dtype=torch.int64), report):
            values.append(latents)
            labels.append(targets)
            nbytes += latents.nbytes
            if nbytes > memory_limit:
                raise MemoryError(
                    f"The latents of {sum(map(len, labels))} examples take {format_bytes(nbytes)}, "
                    f"more than memory_limit ({format_bytes(memory_limit)}): pass a directory, "
                    "fewer examples per class, or a larger memory_limit."
                )
        if not values:
            raise ValueError("There are no latents to keep: the batches hold no examples.")
        return LatentStore.from_tensor(values, torch.cat(labels), memory_limit=memory_limit)
    writer = ShardWriter(Path(directory), fingerprint, shard_bytes)
    if not writer.complete:
        for latents, targets in _run(network, batches, writer.stored_labels(), report):
            writer.add(latents.cpu(), targets)
        writer.finish()
    store = LatentStore.open(directory, memory_limit=memory_limit)
    report(len(store))
    return store


def _run(
    network: nn.Module, batches: Batches, stored: Tensor, report: Callable[[int], None]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Latents and labels of the examples behind those with the labels ``stored``.

    A batch that is stored in part runs as a whole: kernels may round differently in another size.
    """
    device = next((t.device for t in chain(network.parameters(), network.buffers())), None)
    seen = 0
    for inputs, given in batches:
        labels = _checked_labels(given)
        known = stored[seen : seen + len(labels)]
        if not torch.equal(known, labels[: len(known)]):
            raise ValueError(
                "The labels of the batches differ from those already stored. "
                "Pass the batches in the same order, or delete the directory."
            )
        seen += len(labels)
        if len(known) == len(labels):
            continue
        with evaluating(network):  # a generator must not leave the mode of others changed
            latents = call(network, each(inputs, lambda tensor: tensor.to(device)))
        _check_latents(latents, len(labels))
        # A copy, since the output may be a view of something large or of the inputs.
        behind = latents[len(known) :].detach().clone(memory_format=torch.contiguous_format)
        yield behind, labels[len(known) :]
        report(seen)
    if seen < len(stored):
        raise ValueError(
            f"The batches hold {seen} examples, fewer than the {len(stored)} already stored. "
            "Pass the same batches, or delete the directory."
        )


def _checked_labels(labels: Tensor) -> Tensor:
    if not isinstance(labels, Tensor) or labels.ndim != 1 or labels.is_floating_point():
        got = tuple(labels.shape) if isinstance(labels, Tensor) else type(labels).__name__
        raise ValueError(
            f"Batches must be pairs of inputs and integer labels (b,). Got labels {got} instead."
        )
    return labels.detach().to("cpu", torch.int64)


def _check_latents(latents: Tensor, count: int) -> None:
    if not isinstance(latents, Tensor):
        raise ValueError(
            f"The network must return a Tensor. Got {type(latents).__name__} instead. "
            "Put a LatentReader behind it."
        )
    sound = latents.ndim >= 2 and len(latents) == count and 0 not in latents.shape[1:]
    if not sound or latents.dtype not in DTYPES.values():
        raise ValueError(
            f"The network must return floats ({count}, ...) for {count} examples. "
            f"Got {latents.dtype} {tuple(latents.shape)} instead."
        )
