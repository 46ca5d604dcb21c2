"""Whether this process follows another one, which writes files and locks folders for both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_following = False


def following() -> bool:
    """Whether another process writes what this one would."""
    return _following


@contextmanager
def follower(follows: bool = True) -> Iterator[None]:
    """Within, this process writes nothing, if it follows one that does."""
    global _following
    before, _following = _following, follows
    try:
        yield
    finally:
        _following = before
