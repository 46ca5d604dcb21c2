"""Ideals of points that come in batches: one pass a degree, and memory that does not grow with m.

Decisions and coefficients are those of the construction in memory, by the same code: only the
evaluations it asks for are replaced by what a pass leaves of them, see
:mod:`vinets.algebra.moments`. A degree whose terms do not fit the memory limit together takes
several passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from sklearn.preprocessing import MinMaxScaler
from torch import Tensor

from vinets.algebra.growing import GrowingFactor
from vinets.algebra.moments import MomentFactor, TriangleFactor
from vinets.algebra.polynomial import Polynomials
from vinets.algebra.terms import Index
from vinets.core.checks import optional_positive_int, parameter_error, rows_within
from vinets.core.progress import Progress, progress_of
from vinets.ideals.base import squares
from vinets.ideals.construct import STORAGE, PartialIdeal
from vinets.ideals.fit import Rule

READ_BYTES = 32 << 20  # bytes of an array that are read at a time
TERM_BYTES = 8 << 20  # bytes of evaluated terms at a time: what the caches of a CPU hold
NO_POINTS = "the source gave no points. Pass at least one batch (b, n)."

Change: TypeAlias = Callable[[Tensor], Tensor]
Coarse: TypeAlias = Callable[[float], bool]


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
        earlier: tuple[Change, ...] = ()
        if isinstance(source, Stream):
            earlier, n_points = source.changes, n_points or source.n_points
            source = source.source
        self.changes: tuple[Change, ...] = earlier if change is None else (*earlier, change)
        self.source: Any = source
        self.start, known = _starter(source)
        self.n_points: int | None = optional_positive_int("Stream", "n_points", n_points) or known
        self.progress = progress_of(progress)
        self.passes = 0
        self.n_variables: int | None = None
        self.counted = False

    def peek(self) -> tuple[int, torch.device]:
        """Return the number of variables and the device of the points, from the first batch."""
        for batch in self.start():
            points = self._checked(batch)
            return points.shape[1], points.device
        raise ValueError(NO_POINTS)

    def batches(self, stage: str) -> Iterator[Tensor]:
        """Make one pass: yield float tensors (b, n), checked."""
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
        """Make one pass in tensors of at most ``rows`` rows."""
        for batch in self.batches(stage):
            yield from batch.split(rows)

    def _checked(self, batch: Any) -> Tensor:
        if isinstance(batch, (tuple, list)) and len(batch) == 2:
            batch = batch[0]
        if not isinstance(batch, Tensor):  # a file that is mapped may not be written to
            batch = torch.from_numpy(np.require(batch, requirements="W"))
        points = batch.detach()
        if points.ndim != 2 or points.shape[1] == 0 or points.is_complex():
            got = points.dtype, tuple(points.shape)
            raise parameter_error("Stream", "source", "batches of real numbers, shape (b, n)", got)
        if self.n_variables not in (None, points.shape[1]):
            accepted = f"batches of the same number of columns, {self.n_variables}"
            raise parameter_error("Stream", "source", accepted, points.shape[1])
        self.n_variables = points.shape[1]
        if not points.is_floating_point():
            points = points.double()
        for change in self.changes:
            points = change(points)
        # one number tells of all: a sum of finite numbers that overflows is looked at again
        if not bool(torch.isfinite(points.sum())) and not bool(torch.isfinite(points).all()):
            raise ValueError("a batch contains NaN or infinity. Drop or impute those rows.")
        return points


def _starter(source: Any) -> tuple[Callable[[], Iterable[Any]], int | None]:
    """Return what starts a pass over a source, and how many points it has, if it can tell."""
    if isinstance(source, (np.ndarray, Tensor)) and source.ndim == 2:
        rows = rows_within(READ_BYTES, source[:1].nbytes)

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
    accepted = "a two-dimensional array, which may be mapped from a file, a LatentStore, a list of "
    accepted += "batches (b, n), or a function that starts a new pass over batches"
    raise parameter_error("Stream", "source", accepted, source)


def scale_stream(
    source: Any, *, n_points: int | None = None, progress: Progress | str | None = None
) -> tuple[Stream, MinMaxScaler]:
    """Scale every variable to [-1, 1]; return these points and the scaler. Takes one pass.

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

    def change(points: Tensor) -> Tensor:
        return points.double() * factor.to(points.device) + shift.to(points.device)

    return Stream(stream, change=change, progress=progress), scaler


class MomentsTooCoarse(Exception):
    """Moments are too coarse for points as large as these."""


class StreamTerms:
    """Values of terms by passes over a stream: what the construction asks for.

    ``order`` permutes the variables. The first pass ends in :class:`MomentsTooCoarse` if ``coarse``
    is true of the largest absolute value; it is None where a triangle takes the place of moments.
    """

    def __init__(
        self, stream: Stream, order: Index | None, rule: Rule, coarse: Coarse | None
    ) -> None:
        assert stream.n_variables is not None
        self.stream, self.order, self.rule, self.coarse = stream, order, rule, coarse
        self.n_variables = stream.n_variables
        # a new triangle makes a new factor, though of the same terms
        self.lasting = coarse is not None
        self.top = 0.0  # largest absolute value of a point, after the first pass
        self.parents: list[Index] = []  # parents of the accepted terms, run by run
        self.variables: list[Index] = []
        self.level: object = None  # level of the last pass, and what is held of it
        self.held = slice(0, 0)
        self.rows = torch.empty(0)

    def accept(self, sets: list[PartialIdeal], accepted: list[Index]) -> None:
        """Remember how to evaluate the candidates that have joined O."""
        level, at = sets[0].level, accepted[0]
        self.parents.append(level.parent[at] + sets[0].offset)
        self.variables.append(level.variable[at])

    def width(self, factor: GrowingFactor) -> int:
        """Count the candidates that a matrix of moments within the limit has room for."""
        room = int((self.rule.memory_limit / (3 * 8)) ** 0.5)
        return max(64, room - factor.size)

    def values(
        self, factor: GrowingFactor, sets: list[PartialIdeal], which: slice
    ) -> tuple[Tensor, Tensor]:
        """Return places in the moments or rows of the triangle (1, b, ·), by a pass if need be."""
        level = sets[0].level
        # after the ball has refused a term, those behind it are decided again: they are still here
        if level is not self.level or which.stop > self.held.stop:
            self._pass(factor, sets[0], which)
        rows = self.rows[which.start - self.held.start : which.stop - self.held.start]
        exists = torch.ones(1, len(rows), dtype=torch.bool, device=rows.device)
        return rows[None], exists

    def _pass(self, factor: GrowingFactor, found: PartialIdeal, which: slice) -> None:
        assert isinstance(factor, MomentFactor | TriangleFactor)
        level, o = found.level, factor.counts[0]
        device = factor.lower.device
        count = o + which.stop - which.start
        parents = [*self.parents, level.parent[which] + found.offset]
        variables = [*self.variables, level.variable[which]]
        # run by run: parents stand in an earlier one; the term 1 comes first
        runs = [
            (torch.from_numpy(p).to(device), torch.from_numpy(v).to(device))
            for p, v in zip(parents, variables, strict=True)
            if len(p)
        ]
        memory = torch.empty(0, dtype=STORAGE[self.rule.precision], device=device)
        factor.begin(count)
        # a triangle is made anew with every chunk, which should outweigh it
        least = 4 * count if isinstance(factor, TriangleFactor) else 256
        rows = rows_within(TERM_BYTES, 8 * count, at_least=least)
        degree = level.rows.shape[1]
        first = self.top == 0.0
        for points in self.stream.chunks(f"degree {degree}, {count - o} terms", rows):
            if first:
                self.top = max(self.top, float(points.abs().max()))
            here = points.to(device)
            if self.order is not None:
                here = here[:, torch.as_tensor(self.order, device=device)]
            if memory.numel() < count * len(here):
                memory = memory.new_empty(count * len(here))
            values = memory[: count * len(here)].view(count, len(here))
            columns = here.to(memory.dtype).mT.contiguous()
            values[0], start = 1, 1
            for parent, variable in runs:
                stop = start + len(parent)
                torch.index_select(values[:start], 0, parent, out=values[start:stop])
                values[start:stop] *= columns.index_select(0, variable)
                start = stop
            factor.add(values)
        if first and self.coarse is not None and self.coarse(self.top):
            raise MomentsTooCoarse
        assert self.stream.n_points is not None
        self.rows = factor.finish(self.stream.n_points)
        self.level, self.held = level, which


def correlation_order(stream: Stream) -> Index:
    """Sort variables by their total absolute correlation with the others; takes one pass."""
    count, mean, products = 0, torch.zeros(()), torch.zeros(())
    for batch in stream.batches("correlations of the variables"):
        points = batch.double()
        here = points.mean(0)
        centred = points - here
        own = centred.mT @ centred
        if count == 0:
            count, mean, products = len(points), here, own
            continue
        total = count + len(points)
        shift = here - mean  # Chan's formula: means of both parts differ
        products = products + own + torch.outer(shift, shift) * (count * len(points) / total)
        mean = mean + shift * (len(points) / total)
        count = total
    return by_correlation(products, mean, count)


def by_correlation(products: Tensor, mean: Tensor, count: int) -> Index:
    """Sort variables by their total absolute correlation with the others.

    ``products`` (n, n) are those of ``count`` centred values, and ``mean`` (n,) is what was
    subtracted. A constant correlates with nothing, although its mean is rounded.
    """
    norms = products.diagonal().clamp(min=0).sqrt()
    rounding = 4 * torch.finfo(norms.dtype).eps * count**0.5 * mean.abs()
    norms = torch.where(norms > rounding, norms, torch.inf)
    return by_size((products / norms[:, None] / norms).abs().sum(0))


def by_size(values: Tensor) -> Index:
    """Sort positions by value; those of equal values keep their order, whatever their rounding."""
    return torch.argsort(values.double().round(decimals=9), stable=True).cpu().numpy()


def stream_squares(
    stream: Stream, generators: Polynomials, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return what :func:`~vinets.ideals.base.squares` does, of all points; takes one pass."""
    total = torch.zeros(2, 1, dtype=torch.float64, device=device)
    count = max(1, len(generators))
    rows = rows_within(TERM_BYTES, 8 * count, at_least=256)
    for points in stream.chunks("values of the generators", rows):
        total = total + torch.stack(squares(generators, points.to(device).double()))
    values, largest = total
    return values, largest
