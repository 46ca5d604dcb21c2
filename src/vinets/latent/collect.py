"""Latents: cut a network, run data through what is left, keep what comes out with its labels."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from mmap import ACCESS_COPY, mmap
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any, TypeVar, cast

import torch
from torch import Tensor, nn

from vinets.core.checks import format_bytes, optional_positive_int, parameter_error, rows_within
from vinets.core.device import (
    Inputs,
    call,
    check_answers,
    device_of,
    each,
    evaluating,
    uncompiled,
)
from vinets.core.options import flat
from vinets.core.progress import Progress, progress_of
from vinets.core.settings import LatentOptions
from vinets.data.conversion import as_source
from vinets.data.digest import examples_digest
from vinets.data.images import at_once
from vinets.data.source import Batches, Source, choose_per_class
from vinets.latent.cut import resolve_cut, truncate, twin
from vinets.latent.reader import LatentReader, channels_come_last
from vinets.models.origin import Record, input_fields, trained_on
from vinets.models.records import source_of

T = TypeVar("T")

MEMORY_LIMIT = 2 << 30  # bytes
CHUNK_BYTES = 64 << 20
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
    >>> [values.shape for values, labels in store.chunks(2)]
    [torch.Size([2, 1]), torch.Size([1, 1])]
    """

    runs: tuple[Tensor, ...]  # latents (b, ...) in a row, of any lengths
    labels: Tensor  # integers (m,), on the device of the latents
    shape: tuple[int, ...]  # one latent, without the batch
    dtype: torch.dtype  # as stored
    memory_limit: int = MEMORY_LIMIT  # the most bytes that tensor() may allocate

    @classmethod
    def from_tensor(
        cls, values: Tensor | Sequence[Tensor], labels: Tensor, *, memory_limit: int = MEMORY_LIMIT
    ) -> LatentStore:
        """Keep latents in memory, not copied: ``(m, ...)``, or runs ``(b, ...)`` in a row."""
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
        return cls(runs, labels, tuple(runs[0].shape[1:]), runs[0].dtype, memory_limit)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"LatentStore({len(self)} latents of shape {self.shape}, {self.dtype})"

    @property
    def nbytes(self) -> int:
        """Bytes of the latents as they are stored."""
        return sum(run.nbytes for run in self.runs)

    def chunks(self, size: int | None = None) -> Iterator[tuple[Tensor, Tensor]]:
        """Pass over the store in order: float32 latents ``(b, ...)`` and labels ``(b,)``.

        A chunk has ``size`` latents, the last perhaps fewer; None: about 64 MiB of them.
        """
        rows = optional_positive_int("LatentStore.chunks", "size", size)
        rows = rows or rows_within(CHUNK_BYTES, 4 * math.prod(self.shape))
        start = 0
        for values in _rechunk(self.runs, rows):
            # Latents that are float32 already are views of the store: not to be written to.
            yield values.to(torch.float32), self.labels[start : start + len(values)]
            start += len(values)

    def tensor(self) -> Tensor:
        """Return all latents in one float32 tensor ``(m, ...)``."""
        if len(self.runs) == 1 and self.dtype == torch.float32:
            return self.runs[0]  # what is stored, not a copy: the limit is on new memory
        need = 4 * len(self) * math.prod(self.shape)
        if need > self.memory_limit:
            raise MemoryError(
                f"A tensor of all latents ({len(self)} of shape {self.shape}) takes "
                f"{format_bytes(need)}, more than memory_limit "
                f"({format_bytes(self.memory_limit)}): read chunks(), or raise memory_limit."
            )
        values = self.labels.new_empty((len(self), *self.shape), dtype=torch.float32)
        for part, run in zip(values.split([len(run) for run in self.runs]), self.runs, strict=True):
            part.copy_(run)  # converted run by run, without a second copy of everything
        return values


def _rechunk(runs: Iterable[Tensor], rows: int) -> Iterator[Tensor]:
    """Give the same rows in tensors of ``rows`` rows; the last may be shorter."""
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
    batches: Iterable[tuple[Inputs, Tensor]],
    *,
    memory_limit: int = MEMORY_LIMIT,
    progress: Callable[[int], None] | None = None,
) -> LatentStore:
    """Collect latents and labels of all examples, in the order of the batches.

    The network maps inputs to latents ``(b, ...)``: a truncated one with a reader behind it. It
    runs in eval mode and without gradients; its training flags are restored. The batches are inputs
    with integer labels ``(b,)``, and are moved to its device.

    Latents that take more than ``memory_limit`` bytes there all go into a temporary file without a
    name, which is mapped into memory and disappears with the store. ``progress`` is called with the
    number of examples done so far, after every batch.

    Examples
    --------
    >>> batches = [(torch.ones(2, 3), torch.tensor([0, 1]))]
    >>> collect_latents(nn.Flatten(), batches)
    LatentStore(2 latents of shape (3,), torch.float32)
    """
    values, labels = list[Tensor](), list[Tensor]()
    nbytes, file = 0, None
    with ExitStack() as stack:
        for latents, targets in _run(network, batches):
            values.append(latents)
            labels.append(targets)
            nbytes += latents.nbytes
            if nbytes > memory_limit:
                file = file or stack.enter_context(TemporaryFile())
                values = [_moved(file, values)]
            if progress is not None:
                progress(sum(map(len, labels)))
        if file is not None:
            file.flush()
            # The mapping outlives the file. It is a private one, because torch warns of buffers
            # that cannot be written to.
            mapped = mmap(file.fileno(), 0, access=ACCESS_COPY)
            (kind,) = values
            values = [torch.frombuffer(mapped, dtype=kind.dtype).view(-1, *kind.shape[1:])]
    if not values:
        raise ValueError("There are no latents to keep: the batches hold no examples.")
    return LatentStore.from_tensor(values, torch.cat(labels), memory_limit=memory_limit)


def _moved(file: IO[bytes], values: list[Tensor]) -> Tensor:
    """Append latents to a file; return an empty tensor of their kind."""
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
    network: nn.Module, batches: Iterable[tuple[Inputs, Tensor]]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Give the latents and labels of every batch."""
    # A network without tensors has no device, and None leaves the inputs where they are.
    device = next((t.device for t in chain(network.parameters(), network.buffers())), None)
    for inputs, labels in batches:
        if not isinstance(labels, Tensor) or labels.ndim != 1 or labels.is_floating_point():
            got = tuple(labels.shape) if isinstance(labels, Tensor) else type(labels).__name__
            raise ValueError(
                f"Batches must be inputs with integer labels (b,). Got labels {got} instead."
            )
        count = len(labels)
        if not count:
            continue
        with evaluating(network):  # a generator must not leave the mode of others changed
            latents = call(network, each(inputs, lambda tensor: tensor.to(device)))
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
        # A copy, since the output may be a view of something large or of the inputs, which their
        # owner may fill anew for the next batch.
        copied = latents.detach().clone(memory_format=torch.contiguous_format)
        yield copied, labels.detach().to("cpu", torch.int64)


# --- latents of a cut network -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Latents:
    """A truncated network with latents of its training data, ready for any head."""

    backbone: nn.Module  # the truncated network
    reader: LatentReader  # reads its output
    store: LatentStore  # latents (m, C, P) and labels
    fit: Tensor  # (m,), True for the examples that ideals are fitted to
    check: Tensor  # (m,), True for those that score the generators
    record: Record
    uncut: nn.Module  # the network that was cut
    seconds: float  # by the clock
    _memo: dict[str, tuple[Hashable, Any]] = field(default_factory=dict, repr=False)

    def once(self, name: str, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` gives, and keep it until ``name`` is asked for with another key.

        Heads on the same latents share what takes long, such as the ideals of the classes.
        """
        if name not in self._memo or self._memo[name][0] != key:
            self._memo.pop(name, None)  # make room first
            self._memo[name] = key, make()
        return cast(T, self._memo[name][1])

    @property
    def original_parameters(self) -> int:
        """Parameters of the uncut network."""
        return sum(p.numel() for p in self.uncut.parameters())

    @property
    def shape(self) -> tuple[int, int]:
        """Channels and positions."""
        channels, positions = self.store.shape
        return channels, positions

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.record.classes)

    @property
    def device(self) -> torch.device:
        """Device of the backbone."""
        return device_of(self.backbone)


@flat(options=LatentOptions)
def collect(
    model: nn.Module,
    train_data: Any,
    cut: str | int,
    *,
    options: LatentOptions,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: Progress | str | None = "auto",
) -> Latents:
    """Truncate ``model`` and run training data through it, both as in :func:`vinets.build`.

    The network is moved to ``device``. The options are :class:`vinets.core.settings.LatentOptions`,
    or its fields as keywords: ``per_class``, ``read``, ``pool``, ``memory_limit``, ...
    """
    source = as_source(train_data)
    example = source.example()
    model = uncompiled(model).to(device)
    on_device = each(example, lambda tensor: tensor.to(device))
    name = resolve_cut(model, cut, on_device)
    # The twin of a network that keeps what it computed, and reads that instead of weights then.
    check_answers("The network", twin(model), on_device, int(source.labels.max()) + 1)
    backbone = truncate(model, name, on_device)
    last = options.channels_last
    if last is None:
        with torch.no_grad():
            last = channels_come_last(call(backbone, on_device), on_device)
    reader = LatentReader(options.read, pool=options.pool, channels_last=last)
    # A quarter as many again score the generators, on points that they were not fitted to.
    most = options.per_class
    chosen = choose_per_class(source.labels, most and most + -(-most // 4), seed)
    part = source.subset(chosen)
    watch = progress_of(progress)
    watch.start("latents", len(part))
    begin = time.perf_counter()

    def counted(batches: Batches) -> Batches:
        for inputs, labels in batches:
            yield inputs, labels
            watch.advance(len(labels))  # when the next one is asked for, this one is done

    batches = part.batches(at_once(part, options.batch_size, device), device=device)
    limit = options.memory_limit
    store = collect_latents(_Read(backbone, reader), counted(batches), memory_limit=limit)
    record = record_of(model, source, name, data=trained_on(model, then=examples_digest(source)))
    seconds = time.perf_counter() - begin
    fit, check = _fit_and_check(store.labels.cpu(), options, seed)
    return Latents(backbone, reader, store, fit, check, record, model, seconds)


def record_of(model: nn.Module, source: Source, cut: str = "", **facts: Any) -> Record:
    """Return the record of a network for such examples, cut or whole, with more ``facts``."""
    reading = getattr(source, "preprocessing", None)  # only sources of images have one
    return Record(
        cut,
        input_fields(source.example()),
        source_of(model),
        tuple(source.classes),
        None if reading is None else reading.to_dict(),
        **facts,
    )


class _Read(nn.Module):
    """Backbone and reader as one network, for a tensor or for tensors by name."""

    def __init__(self, backbone: nn.Module, reader: LatentReader) -> None:
        super().__init__()
        self.backbone, self.reader = backbone, reader

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        return self.reader(self.backbone(*inputs, **named))


def _fit_and_check(labels: Tensor, options: LatentOptions, seed: int) -> tuple[Tensor, Tensor]:
    """Return masks of the examples to fit to, four fifths, and of those to score on, the rest."""
    fit, classes = torch.zeros(len(labels), dtype=torch.bool), labels.unique().tolist()
    for k in classes:
        members = (labels == k).nonzero()[:, 0]
        draw = torch.randperm(len(members), generator=torch.Generator().manual_seed(seed))
        fit[members[draw[: max(1, len(members) * 4 // 5)]]] = True  # at least one, if that is all
    most = options.per_class
    if options.reuse and most is not None and int(fit.sum()) < most * len(classes):
        check = torch.zeros_like(fit)
        check[choose_per_class(labels, max(1, most // 4), seed)] = True
        return torch.ones_like(fit), check
    # A class with no example left over would have no scores.
    rest = labels[~fit].unique().tolist()
    return fit, ~fit if rest == classes else torch.ones_like(fit)
