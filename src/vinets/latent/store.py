"""Latents with labels: run a network over batches, keep what it returns, read it in that order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from mmap import ACCESS_COPY, mmap
from tempfile import TemporaryFile, gettempdir
from typing import IO, TypeAlias

import torch
from torch import Tensor, nn

from vinets.core import ranks
from vinets.core.checks import format_bytes, optional_positive_int, parameter_error, rows_within
from vinets.core.device import Inputs, call, device_of, each, evaluating

Batches: TypeAlias = Iterable[tuple[Inputs, Tensor]]
Pair: TypeAlias = tuple[Tensor, Tensor]
"""Latents ``(b, ...)`` and labels ``(b,)``."""

MEMORY_LIMIT = 2 << 30  # bytes
CHUNK_BYTES = 64 << 20  # of a pass
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(eq=False, repr=False)
class LatentStore:
    """Latents ``(m, ...)`` with labels ``(m,)``.

    Build one by :meth:`from_tensor` or :func:`vinets.latent.collect_latents`.

    Examples
    --------
    >>> values = torch.tensor([[1.0], [2.0], [3.0]])
    >>> store = LatentStore.from_tensor(values, torch.tensor([0, 1, 0]))
    >>> len(store), store.shape
    (3, (1,))
    >>> store.of_class(0)
    tensor([[1.],
            [3.]])
    """

    runs: Callable[[], Iterable[Tensor]]  # starts a pass: tensors (b, ...) in order, of any lengths
    labels: Tensor  # integers (m,), on the device of the latents
    shape: tuple[int, ...]  # of one latent
    dtype: torch.dtype  # in which the latents are stored
    memory_limit: int = MEMORY_LIMIT  # the most bytes that tensor() and of_class() may allocate

    @classmethod
    def from_tensor(
        cls, values: Tensor | Sequence[Tensor], labels: Tensor, *, memory_limit: int = MEMORY_LIMIT
    ) -> LatentStore:
        """A store in memory, not copied: ``(m, ...)``, or runs ``(b, ...)`` behind each other."""
        runs = (values,) if isinstance(values, Tensor) else tuple(values)
        kinds = {(run.dtype, tuple(run.shape[1:])) for run in runs}
        if len(kinds) != 1 or runs[0].ndim < 2 or not runs[0].is_floating_point():
            got = ", ".join(f"{run.dtype} {tuple(run.shape)}" for run in runs[:3])
            raise parameter_error("LatentStore", "values", "floats of one shape (m, ...)", got)
        count = sum(len(run) for run in runs)
        if labels.shape != (count,) or labels.is_floating_point() or labels.is_complex():
            got = f"{labels.dtype} {tuple(labels.shape)}"
            raise parameter_error("LatentStore", "labels", f"{count} integers, one a latent", got)
        labels = labels.detach().to(runs[0].device, torch.int64)
        return cls(lambda: runs, labels, tuple(runs[0].shape[1:]), runs[0].dtype, memory_limit)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"LatentStore({len(self)} latents of shape {self.shape}, {self.dtype})"

    @property
    def nbytes(self) -> int:
        """Size of the latents as they are stored, in bytes."""
        return len(self) * self._size * self.dtype.itemsize

    def chunks(self, size: int | None = None) -> Iterator[Pair]:
        """A pass over the store in order: float32 latents ``(b, ...)`` and labels ``(b,)``.

        A chunk has ``size`` latents, the last perhaps fewer; None: about 64 MiB of them.
        """
        rows = optional_positive_int("LatentStore.chunks", "size", size)
        if rows is None:
            rows = rows_within(CHUNK_BYTES, 4 * self._size)
        start = 0
        for values in _rechunk(self.runs(), rows):
            # Where they are float32 already, these are views of the store: not to be written to.
            yield values.to(torch.float32), self.labels[start : start + len(values)]
            start += len(values)

    def tensor(self) -> Tensor:
        """All latents in one float32 tensor ``(m, ...)``."""
        first = next(iter(self.runs()))
        if len(first) == len(self) and first.dtype == torch.float32:
            return first  # what is stored, not a copy: the limit is on new memory
        return self._gather(torch.ones_like(self.labels, dtype=torch.bool), "all latents")

    def of_class(self, k: int) -> Tensor:
        """The latents with label ``k``, in order, as float32 ``(m_k, ...)``."""
        wanted = self.labels == k
        if not bool(wanted.any()):
            present = f"one of the labels {self.labels.unique().tolist()}"
            raise parameter_error("LatentStore.of_class", "k", present, k)
        return self._gather(wanted, f"class {k}")

    @property
    def _size(self) -> int:
        return torch.Size(self.shape).numel()

    def _gather(self, wanted: Tensor, what: str) -> Tensor:
        """The latents where ``wanted`` ``(m,)`` is True; one allocation, one pass."""
        count = int(wanted.sum())
        need = 4 * count * self._size
        if need > self.memory_limit:
            raise MemoryError(
                f"A tensor of {what} ({count} of shape {self.shape}) takes {format_bytes(need)}, "
                f"more than memory_limit ({format_bytes(self.memory_limit)}): read chunks(), or "
                "raise memory_limit."
            )
        gathered = self.labels.new_empty((count, *self.shape), dtype=torch.float32)
        start = filled = 0
        for values in self.runs():
            # Assignment converts to float32 run by run, without a second copy of everything.
            rows = wanted[start : start + len(values)].nonzero().squeeze(1)
            gathered[filled : filled + len(rows)] = values[rows]
            start += len(values)
            filled += len(rows)
        return gathered


def _rechunk(runs: Iterable[Tensor], rows: int) -> Iterator[Tensor]:
    """The same rows in tensors of ``rows`` rows; the last may be shorter."""
    held: list[Tensor] = []
    missing = rows
    for values in runs:
        while len(values):
            held.append(values[:missing])
            values = values[missing:]
            missing -= len(held[-1])
            if missing == 0:
                # A single piece is handed out as it is, a view of its run.
                yield held[0] if len(held) == 1 else torch.cat(held)
                held, missing = [], rows
    if held:
        yield held[0] if len(held) == 1 else torch.cat(held)


def collect_latents(
    network: nn.Module,
    batches: Batches,
    *,
    memory_limit: int = MEMORY_LIMIT,
    progress: Callable[[int], None] | None = None,
) -> LatentStore:
    """Collect latents and labels of all examples, in the order of the batches.

    The network runs in eval mode and without gradients; its training flags are restored.

    Parameters
    ----------
    network : Module
        Maps inputs to latents ``(b, ...)``: a truncated network with a reader behind it.
    batches : iterable of (inputs, labels)
        They are moved to the device of the network. Labels are integers ``(b,)``.
    memory_limit : int, default=2 GiB
        The most bytes to hold in memory, on the device of the network's output. Where the latents
        take more, all of them go into a temporary file without a name, which is mapped into memory
        and disappears with the store. Ranks that work together, see :mod:`vinets.core.ranks`, take
        turns at the batches, and each gets all latents; they have no such file.
    progress : callable or None, default=None
        Called with the number of examples done so far, after every batch.

    Examples
    --------
    >>> batches = [(torch.ones(2, 3), torch.tensor([0, 1]))]
    >>> collect_latents(nn.Flatten(), batches)
    LatentStore(2 latents of shape (3,), torch.float32)
    """
    values: list[Tensor] = []
    labels: list[Tensor] = []
    nbytes, file = 0, None
    with ExitStack() as stack:
        for latents, targets in _run(network, ranks.turns(batches), progress):
            values.append(latents)
            labels.append(targets)
            nbytes += latents.nbytes
            if nbytes > memory_limit:
                if ranks.size() > 1:
                    raise MemoryError(
                        f"The latents of {sum(map(len, labels))} examples take "
                        f"{format_bytes(nbytes)}, more than memory_limit "
                        f"({format_bytes(memory_limit)}): pass fewer examples per class, or a "
                        "larger memory_limit."
                    )
                file = file or stack.enter_context(TemporaryFile())
                values = [_moved(file, values)]
        if file is not None:
            file.flush()
            # The mapping outlives the file. It is a private one, for torch warns of buffers that
            # cannot be written to.
            mapped = mmap(file.fileno(), 0, access=ACCESS_COPY)
            (kind,) = values
            values = [torch.frombuffer(mapped, dtype=kind.dtype).view(-1, *kind.shape[1:])]
    if ranks.size() > 1:
        # whole batches take turns, so that every latent has the bits that one process gives it
        found = ranks.in_turns([one.cpu() for one in values])
        on = values[0].device if values else device_of(network)
        values, labels = [one.to(on) for one in found], ranks.in_turns(labels)
    if not values:
        raise ValueError("There are no latents to keep: the batches hold no examples.")
    return LatentStore.from_tensor(values, torch.cat(labels), memory_limit=memory_limit)


def _moved(file: IO[bytes], values: list[Tensor]) -> Tensor:
    """Append latents to a file, and return an empty tensor of their kind on the CPU."""
    kind = values[0][:0].cpu()
    for one in values:
        if (one.dtype, one.shape[1:]) != (kind.dtype, kind.shape[1:]):
            got = f"{one.dtype} {tuple(one.shape[1:])} behind {kind.dtype} {tuple(kind.shape[1:])}"
            raise ValueError(f"Latents must have one shape and dtype. Got {got} instead.")
        try:
            file.write(one.cpu().view(torch.uint8).numpy().data)
        except OSError as error:
            raise OSError(
                f"The latents exceed memory_limit, and cannot be written to {gettempdir()} "
                f"({error.strerror}). Pass fewer examples per class, a larger memory_limit, or "
                "another folder in TMPDIR."
            ) from None
    return kind


def _run(
    network: nn.Module, batches: Batches, report: Callable[[int], None] | None
) -> Iterator[Pair]:
    """Give the latents and labels of every batch."""
    # None, for a network without tensors, leaves the inputs where they are.
    device = next((t.device for t in chain(network.parameters(), network.buffers())), None)
    seen = 0
    for inputs, given in batches:
        if not isinstance(given, Tensor) or given.ndim != 1 or given.is_floating_point():
            got = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(
                "Batches must be pairs of inputs and integer labels (b,). "
                f"Got labels {got} instead."
            )
        if not len(given):
            continue
        with evaluating(network):  # a generator must not leave the mode of others changed
            latents = call(network, each(inputs, lambda tensor: tensor.to(device)))
        _check_latents(latents, len(given))
        # A copy, since the output may be a view of something large or of the inputs, which their
        # owner may fill anew for the next batch.
        copied = latents.detach().clone(memory_format=torch.contiguous_format)
        yield copied, given.detach().to("cpu", torch.int64)
        seen += len(given)
        if report is not None:
            report(seen)


def _check_latents(latents: Tensor, count: int) -> None:
    if not isinstance(latents, Tensor):
        raise ValueError(
            f"The network must return a Tensor. Got {type(latents).__name__} instead. "
            "Put a LatentReader behind it."
        )
    sound = latents.ndim >= 2 and len(latents) == count and 0 not in latents.shape[1:]
    if not sound or latents.dtype not in DTYPES:
        raise ValueError(
            f"The network must return floats ({count}, ...) for {count} examples. "
            f"Got {latents.dtype} {tuple(latents.shape)} instead."
        )
