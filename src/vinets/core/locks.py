"""One writer to a folder at a time."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vinets.core.files import check_name, following

try:
    import fcntl
except ImportError:  # Windows has no such locks: there, folders are not guarded
    fcntl = None  # type: ignore[assignment]

PAUSE = 0.2  # seconds between two looks at a lock
_held: dict[tuple[int, int, Path], int] = {}  # by process, thread and folder: how often


@contextmanager
def locked(folder: str | Path, *, wait: bool = False) -> Iterator[None]:
    """Have ``folder``, which is made if need be, to oneself.

    Another process or thread that holds it makes this an error, or, with ``wait``, a pause. The
    system ends the lock with the process, however that ends, and no file is left. Within a lock,
    the same thread may ask again.
    """
    path = Path(folder)
    check_name(path)  # now, and not when the first file is written
    path.mkdir(parents=True, exist_ok=True)
    if following():  # the process that it follows holds the lock
        yield
        return
    # a forked process is another one, though it has a copy of this
    key = os.getpid(), threading.get_ident(), path.resolve()
    if key not in _held:
        handle = _acquire(path, wait)
        _held[key] = 0
    else:
        handle = None
    _held[key] += 1
    try:
        yield
    finally:
        _held[key] -= 1
        if not _held[key]:
            del _held[key]
        if handle is not None:
            os.close(handle)  # which ends the lock


def _acquire(path: Path, wait: bool) -> int | None:
    """A handle of the folder that holds the lock; None where folders cannot be locked."""
    if fcntl is None:
        return None
    handle = os.open(path, os.O_RDONLY)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return handle
            except BlockingIOError:
                if not wait:
                    raise ValueError(
                        f"Another process is writing into {path}. Wait until it is done (--wait "
                        "does that), or choose another folder."
                    ) from None
                time.sleep(PAUSE)  # and not in the lock itself, where Ctrl-C would have to wait
    except OSError:  # some network file systems lock no folders
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
