"""Points that come in batches and never lie in memory at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.preprocessing import MinMaxScaler
from torch import Tensor

from vinets.core.checks import optional_positive_int, rows_within
from vinets.core.progress import Progress, progress_of

READ = 32 << 20  # bytes of an array to read at a time
NO_POINTS = "the source gave no points. Pass at least one batch (b, n)."
ACCEPTED = (
    "a two-dimensional array, which may be mapped from a file, a LatentStore, a list of batches "
    "(b, n), or a function that starts a new pass over batches"
)

Change: TypeAlias = Callable[[Tensor], Tensor]


class Stream:
    """A source of points that can be gone through again and again.

    Parameters
    ----------
    source : array, LatentStore, re-iterable or callable
        The points: a two-dimensional array, perhaps ``np.load(path, mmap_mode="r")``; something
        with ``chunks()``, such as a :class:`~vinets.latent.LatentStore`; a list or another object
        that starts anew whenever it is iterated; or a function that returns an iterator. Batches
        are arrays or tensors (b, n), or pairs of them and labels, which are ignored. Every pass
        has to give the same points.
    n_points : int or None, default=None
        How many there are, for the time left in the first pass, where the source cannot tell.
    progress : Progress, "auto" or None, default=None
        Told of every pass.
    change : callable or None, default=None
        Applied to every batch, a float tensor (b, n).

    Attributes
    ----------
    passes : int
        How often the source has been gone through, to its end.
    n_points : int or None
        How many points there are, after the first pass for certain.
    """

    def __init__(
        self,
        source: Any,
        *,
        n_points: int | None = None,
        progress: Progress | str | None = None,
        change: Change | None = None,
    ) -> None:
        if isinstance(source, Stream):
            change = _after(source.change, change)
            n_points = n_points or source.n_points
            source = source.source
        self.source: Any = source
        self.change: Change | None = change
        self.start, known = _starter(source)
        self.n_points: int | None = optional_positive_int("Stream", "n_points", n_points) or known
        self.progress = progress_of(progress)
        self.passes = 0
        self.n_variables: int | None = None
        self.counted = False

    def peek(self) -> tuple[int, torch.device]:
        """Number of variables and device of the points, from the first batch."""
        for batch in self.start():
            points = self._checked(batch)
            return points.shape[1], points.device
        raise ValueError(NO_POINTS)

    def batches(self, stage: str) -> Iterator[Tensor]:
        """One pass: float tensors (b, n), checked."""
        self.progress.start(stage, self.n_points or 0)
        count = 0
        for batch in self.start():
            points = self._checked(batch)
            if len(points):
                yield points
            count += len(points)
            self.progress.advance(len(points))
        if count == 0:
            raise ValueError(NO_POINTS)
        if self.counted and count != self.n_points:
            raise ValueError(
                f"the source gave {count} points in this pass and {self.n_points} before: every "
                "pass has to give the same points. Pass a function that starts anew."
            )
        self.n_points, self.counted = count, True
        self.passes += 1

    def chunks(self, stage: str, rows: int) -> Iterator[Tensor]:
        """One pass in tensors of at most ``rows`` rows."""
        for batch in self.batches(stage):
            yield from batch.split(rows)

    def _checked(self, batch: Any) -> Tensor:
        if isinstance(batch, (tuple, list)) and len(batch) == 2:
            batch = batch[0]
        if not isinstance(batch, Tensor):  # a file that is mapped may not be written to
            batch = torch.from_numpy(np.require(batch, requirements="W"))
        points = batch.detach()
        if points.ndim != 2 or points.shape[1] == 0 or points.is_complex():
            raise ValueError(
                f"batches must be real and have shape (b, n). Got {points.dtype} "
                f"{tuple(points.shape)} instead."
            )
        if self.n_variables not in (None, points.shape[1]):
            raise ValueError(
                f"batches must have the same number of columns. Got {points.shape[1]} after "
                f"{self.n_variables}."
            )
        self.n_variables = points.shape[1]
        if not points.is_floating_point():
            points = points.double()
        if self.change is not None:
            points = self.change(points)
        # one number tells of all: a sum of finite numbers that overflows is looked at again
        if not bool(torch.isfinite(points.sum())) and not bool(torch.isfinite(points).all()):
            raise ValueError("a batch contains NaN or infinity. Drop or impute those rows.")
        return points


def _after(first: Change | None, second: Change | None) -> Change | None:
    if first is None or second is None:
        return first or second
    return lambda batch: second(first(batch))


def _starter(source: Any) -> tuple[Callable[[], Iterable[Any]], int | None]:
    """How to start a pass over a source, and how many points it has, where it can tell."""
    if isinstance(source, (np.ndarray, Tensor)) and source.ndim == 2:
        rows = rows_within(READ, source[:1].nbytes)

        def slices() -> Iterator[Any]:
            for start in range(0, len(source), rows):
                part = source[start : start + rows]
                # a copy, lest a mapped file fill the memory, or torch complain that it is read-only
                yield part if isinstance(part, Tensor) else np.array(part)

        return slices, len(source)
    if callable(getattr(source, "chunks", None)):
        return source.chunks, len(source)
    if callable(source):
        return source, None
    if not isinstance(source, (np.ndarray, Tensor, str, bytes)) and hasattr(source, "__iter__"):
        if iter(source) is source:
            raise ValueError(
                "the source of a stream can be gone through only once, but every degree takes a "
                "pass. Pass a function that starts a new pass, such as lambda: batches()."
            )
        return lambda: source, None
    raise ValueError(f"the source of a stream must be {ACCEPTED}. Got {type(source).__name__}.")


def scale_stream(
    source: Any, *, n_points: int | None = None, progress: Progress | str | None = None
) -> tuple[Stream, MinMaxScaler]:
    """The same points with every variable scaled to [-1, 1], and the scaler; takes one pass.

    Examples
    --------
    >>> batches = [np.array([[0.0, 5.0]]), np.array([[2.0, 9.0], [4.0, 7.0]])]
    >>> stream, scaler = scale_stream(batches)
    >>> [batch.tolist() for batch in stream.batches("")]
    [[[-1.0, -1.0]], [[0.0, 1.0], [1.0, 0.0]]]
    """
    stream = Stream(source, n_points=n_points, progress=progress)
    scaler = MinMaxScaler((-1, 1))
    for batch in stream.batches("ranges of the variables"):
        scaler.partial_fit(batch.double().cpu().numpy())
    factor, shift = torch.from_numpy(scaler.scale_), torch.from_numpy(scaler.min_)
    return (
        Stream(
            stream,
            change=lambda x: x.double() * factor.to(x.device) + shift.to(x.device),
            progress=progress,
        ),
        scaler,
    )
