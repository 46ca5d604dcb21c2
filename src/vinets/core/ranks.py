"""Several processes as one, started by ``torchrun``: what each does, and what they add up.

A batch is divided among the ranks, and everything that one process would sum over it is summed
over the ranks: gradients, losses, moments of batch normalisation, hits. So two ranks take the
steps that one takes, up to rounding.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from fractions import Fraction
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from vinets.core.files import follower

T = TypeVar("T")

LOST = (
    "Another process of this job has ended, and this one cannot go on without it. Run the same "
    "command again, with any number of processes: it goes on behind the last checkpoint."
)

_joined = False  # whether the work of this process is a part of that of all ranks
_sharing = False  # whether the batches that modules see are parts of one
_parts: Fraction | None = None  # of which this is the size of the whole, in those of this rank's


class RankLostError(OSError):
    """Another process of the job has ended."""


def rank() -> int:
    """Number of this process among those that work together; 0 for one alone."""
    return distributed.get_rank() if _joined else 0


def size() -> int:
    """How many processes work together."""
    return distributed.get_world_size() if _joined else 1


@contextmanager
def joined(timeout: float = 1800.0) -> Iterator[None]:
    """Work together with the other processes that ``torchrun`` started; alone without it.

    Trainings, evaluations and the collection of latents within are divided among them, and of files
    only the first writes any. Gloo adds
    up tensors on a CPU, NCCL those on GPUs, of which every process takes the one of its local
    rank. A process group that is there is used.

    Parameters
    ----------
    timeout : float, default=1800
        Seconds to wait for a process that says nothing; one that has ended is noticed at once.
    """
    global _joined
    if _joined or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    ours = not distributed.is_initialized()
    if ours:
        on_gpus = torch.cuda.is_available()
        if on_gpus:
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        backend = "cpu:gloo,cuda:nccl" if on_gpus else "gloo"
        distributed.init_process_group(backend, timeout=timedelta(seconds=timeout))
    _joined = True
    try:
        with follower(rank() > 0), _ended_in_words():
            yield
            wait()  # a rank that leaves first would take its connections from the others
    finally:
        _joined = False
        if ours:
            distributed.destroy_process_group()


@contextmanager
def _ended_in_words() -> Iterator[None]:
    """Where a rank is lost, ``torchrun`` ends the others, which say so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise RankLostError(LOST)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# --- a part for every rank --------------------------------------------------------------------


def part(values: Tensor) -> Tensor:
    """The rows of a batch that are this rank's: every one belongs to one rank."""
    return values[rank() :: size()] if _joined else values


def turns(things: Iterable[T]) -> Iterator[T]:
    """The things that are this rank's, which take turns."""
    return (thing for place, thing in enumerate(things) if place % size() == rank())


def in_turns(mine: list[T]) -> list[T]:
    """What all ranks made of their :func:`turns`, in the order of the things."""
    if not _joined:
        return mine
    found: list[Any] = [None] * size()
    with _told():
        distributed.all_gather_object(found, mine)
    return [found[k % size()][k // size()] for k in range(sum(map(len, found)))]


def wait() -> None:
    """Wait until all ranks are here."""
    if _joined:
        with _told():
            distributed.barrier()


# --- sums over the ranks ----------------------------------------------------------------------


def summed(values: Tensor) -> Tensor:
    """The sum over all ranks, without gradients; the tensor itself for one alone."""
    if not _joined:
        return values
    total = values.detach().clone()
    with _told():
        distributed.all_reduce(total)
    return total


def most(values: Tensor) -> Tensor:
    """The largest of all ranks, entry by entry."""
    if not _joined:
        return values
    found = values.detach().clone()
    with _told():
        distributed.all_reduce(found, distributed.ReduceOp.MAX)
    return found


def merged(count: int, mean: Tensor, squares: Tensor) -> tuple[int, Tensor, Tensor]:
    """Count, mean and sum of squared deviations of the rows of all ranks, from those of each."""
    if not _joined:
        return count, mean, squares
    total = int(summed(torch.tensor(count)))
    whole = summed(mean * (count / total))
    return total, whole, summed(squares + count * (mean - whole).square())


def rows_of_all(mine: Tensor) -> Tensor:
    """The rows (m, ...) of all ranks, those of the first rank first."""
    if not _joined:
        return mine
    counts = torch.zeros(size(), dtype=torch.int64)
    counts[rank()] = len(mine)
    lengths = summed(counts).tolist()
    whole = mine.new_zeros(sum(lengths), *mine.shape[1:])
    start = sum(lengths[: rank()])
    whole[start : start + len(mine)] = mine
    return summed(whole)  # of which every row is zero on all ranks but one


def same(module: nn.Module) -> None:
    """Give all ranks the weights and buffers of the first."""
    if _joined:
        with _told():
            for tensor in module.state_dict().values():
                distributed.broadcast(tensor, 0)


def add_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace gradients by their sum over the ranks, each of which has that of its share."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    if not _joined or not gradients:
        return
    total = summed(torch.cat([g.flatten() for g in gradients]))  # one message for all
    for g, new in zip(gradients, total.split([g.numel() for g in gradients]), strict=True):
        g.copy_(new.view_as(g))


@contextmanager
def _told() -> Iterator[None]:
    """Say in one sentence that a rank is gone."""
    try:
        yield
    except RuntimeError as error:  # that of gloo, and DistBackendError
        raise RankLostError(LOST) from error


# --- batches of which every rank sees a part --------------------------------------------------


@contextmanager
def shared_batches(module: nn.Module) -> Iterator[None]:
    """Let batch normalisation in ``module`` see the moments of the whole batch.

    For its own layers, :func:`batch_moments` does that. torch's SyncBatchNorm does the same on
    GPUs only.
    """
    global _sharing, _parts
    if not _joined:
        yield
        return
    norms = [one for one in module.modules() if isinstance(one, nn.modules.batchnorm._BatchNorm)]
    with ExitStack() as stack:
        for norm in norms:
            norm.__dict__["forward"] = _BatchNormForward(norm)  # hides that of its class
            stack.callback(norm.__dict__.pop, "forward")
        _sharing, _parts = True, None
        try:
            yield
        finally:
            _sharing = False


def share(examples: int) -> float:
    """The share of a batch that ``examples``, the part of this rank, are.

    Within :func:`shared_batches`, all batches are of one size.
    """
    global _parts
    if not _sharing:
        return 1.0
    if _parts is None:
        _parts = Fraction(int(summed(torch.tensor(examples))), examples)
    return float(1 / _parts)


def _whole(rows: int) -> int:
    """How many rows all parts of the batch have together, if this one has ``rows``."""
    assert _parts is not None  # a step asks for its share first
    return int(rows * _parts)


def batch_moments(rows: Tensor) -> tuple[Tensor, Tensor, int]:
    """Mean (n,), covariance (n, n) and number of the rows (m, n) of a batch, of all its parts."""
    if not _sharing:
        mean = rows.mean(0)
        centred = rows - mean  # a difference of two sums would lose digits
        return mean, centred.mT @ centred / len(rows), len(rows)
    count = _whole(len(rows))
    mean = _added(rows.sum(0)) / count
    centred = rows - mean
    return mean, _added(centred.mT @ centred) / count, count


class _Added(torch.autograd.Function):
    """The sum over all ranks: what all losses together gain by it is a sum, too."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return summed(values.contiguous())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return summed(gradients[0].contiguous())


def _added(values: Tensor) -> Tensor:
    apply: Any = _Added.apply  # untyped
    total: Tensor = apply(values)
    return total


class _BatchNormForward:
    """Batch normalisation by moments of the whole batch."""

    def __init__(self, norm: nn.modules.batchnorm._BatchNorm) -> None:
        self.norm = norm

    def __call__(self, x: Tensor) -> Tensor:
        norm = self.norm
        if not norm.training and norm.running_mean is not None:
            plain: Tensor = type(norm).forward(norm, x)
            return plain
        axes = [0, *range(2, x.ndim)]
        shape = [1, -1, *[1] * (x.ndim - 2)]
        with torch.autocast(x.device.type, enabled=False):
            values = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
            count = _whole(values.numel() // values.shape[1])
            mean = _added(values.sum(axes)) / count
            centred = values - mean.view(shape)
            variance = _added(centred.square().sum(axes)) / count
            self._remember(mean.detach(), variance.detach(), count)
            gain = (variance + norm.eps).rsqrt()
            if norm.affine:
                gain = gain * norm.weight
            y = centred * gain.view(shape)
            return (y + norm.bias.view(shape) if norm.affine else y).to(x.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor, count: int) -> None:
        norm = self.norm
        if norm.running_mean is None or norm.running_var is None:
            return
        assert norm.num_batches_tracked is not None
        norm.num_batches_tracked += 1
        share = norm.momentum
        if share is None:  # the mean of all batches so far
            share = 1.0 / float(norm.num_batches_tracked)
        norm.running_mean.lerp_(mean.to(norm.running_mean), share)
        unbiased = variance * (count / max(1, count - 1))
        norm.running_var.lerp_(unbiased.to(norm.running_var), share)
