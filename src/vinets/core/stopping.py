"""A program that can be stopped at any moment, whatever its streams are."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 130  # exit code
SENTENCE = "Stopped. Run the same command again: it goes on after the last step that was kept."

_stoppable = False  # whether someone waits for a KeyboardInterrupt


@contextmanager
def guarded() -> Iterator[None]:
    """Around a program: streams that can be written to, and no traceback for Ctrl-C.

    Enter it before anything large is imported.
    """
    _open_streams()
    signal.signal(signal.SIGINT, _stop)
    try:
        yield
    finally:
        # what is left is the end of the process, of which nobody wants a traceback
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def stoppable() -> Iterator[None]:
    """Around what ends in good order when a KeyboardInterrupt is raised within."""
    global _stoppable
    before, _stoppable = _stoppable, True
    try:
        yield
    finally:
        _stoppable = before


def _stop(signum: int, frame: FrameType | None) -> None:
    """Ctrl-C: an exception where one is awaited, and otherwise, or the second time, the end.

    An exception in the midst of an import would leave half a module behind, and libraries in C++
    make a traceback or an abort of it.
    """
    signal.signal(signal.SIGINT, _end)
    if _stoppable and not _importing(frame):
        raise KeyboardInterrupt
    _end(signum, frame)


def _end(signum: int, frame: FrameType | None) -> None:
    os.write(2, f"{SENTENCE}\n".encode())
    os._exit(STOPPED)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _open_streams() -> None:
    """Closed streams lead nowhere, and what a terminal cannot show is replaced."""
    # A file that is opened later must not get the number of a stream: warnings would go into it.
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
