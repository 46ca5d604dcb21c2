"""A teacher that is asked once, however many networks learn from it on the same steps."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from torch import Tensor, nn

from vinets.core.tensors import read_file, write_file

LIMIT = 1 << 30  # bytes of answers that are kept
PATIENCE = 120.0  # seconds to wait for another process before its work is done here


class Lessons:
    """Keeps what a teacher says of every epoch; pass it to :func:`fine_tune` as ``teacher``.

    Trainings with the same data, seed and batch size see the same augmented batches, so that the
    teacher's answers to the first serve all others. They are kept in half precision, also for the
    first: all trainings learn from the same numbers.

    Parameters
    ----------
    teacher : Module
        The uncut network.
    directory : path or None, default=None
        To share the answers with other processes; None keeps them in memory.
    limit : int
        Bytes that are kept, at most; beyond that the teacher is asked again.
    """

    def __init__(
        self, teacher: nn.Module, directory: str | Path | None = None, limit: int = LIMIT
    ) -> None:
        self.teacher, self.limit = teacher, limit
        self.directory = None if directory is None else Path(directory)
        self._kept: dict[str, Tensor] = {}

    def answers(self, key: str, ask: Callable[[], Tensor], epochs: int) -> Tensor:
        """The answers to an epoch, (m, K); ``ask`` makes them where they are not there yet."""
        if key in self._kept:
            return self._kept[key]
        if self.directory is not None:
            return self._shared(self.directory / f"{key}.safetensors", ask)
        found = ask().half()
        # all epochs or none: a part of them would be of no use to the next training
        if found.nbytes * epochs <= self.limit:
            if sum(one.nbytes for one in self._kept.values()) + found.nbytes > self.limit:
                self._kept.clear()  # those of other seeds or batches
            self._kept[key] = found
        return found

    def _shared(self, path: Path, ask: Callable[[], Tensor]) -> Tensor:
        """From the file, or from whoever is writing it, or made here and written."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock")
        end = time.monotonic() + PATIENCE
        while not path.exists() and time.monotonic() < end:
            try:
                os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                time.sleep(0.05)
        if path.exists():
            found = read_file(path, inside=path.parent)[0].get("answers")
            if found is None:
                raise ValueError(f"{path} holds no answers of a teacher. Delete it.")
            return found
        try:
            found = ask().half()
            write_file(path, {"answers": found}, {})
        finally:
            with contextlib.suppress(FileNotFoundError):
                lock.unlink()
        return found
