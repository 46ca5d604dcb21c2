"""Small results that are kept from one program to the next, in the user's cache folder.

Whatever lies there can be deleted at any time. ``VINETS_CACHE`` names another folder; where it is
empty, nothing is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from vinets.files import read_json, write_json

MOST = 1_000  # results of a kind; the oldest ones go

Value = TypeVar("Value", str, float)


def cache_folder() -> Path | None:
    """Where results are kept; None if they are not."""
    given = os.environ.get("VINETS_CACHE")
    if given is not None:
        return Path(given).expanduser() if given else None
    above = os.environ.get("XDG_CACHE_HOME", "")
    try:  # a relative one is to be ignored, says the XDG specification
        return (Path(above) if os.path.isabs(above) else Path.home() / ".cache") / "vinets"
    except RuntimeError:  # nobody's home
        return None


def remembered(
    kind: str, key: str, compute: Callable[[], Value], sound: Callable[[Any], bool]
) -> Value:
    """What ``compute`` gave for ``key`` before, in any program; what it gives now otherwise.

    What is kept and not ``sound`` is computed again. A cache that cannot be read or written is as
    good as none.
    """
    folder = cache_folder()
    if folder is None:
        return compute()
    path = folder / kind / f"{key}.json"
    with suppress(OSError, ValueError):
        found: Any = read_json(path)
        if sound(found):
            kept: Value = found
            return kept
    value = compute()
    with suppress(OSError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, value)
        _prune(path.parent)
    return value


def _prune(folder: Path) -> None:
    """Delete the oldest half of too many results."""
    kept = list(folder.glob("*.json"))
    if len(kept) > MOST:
        for path in sorted(kept, key=lambda one: one.stat().st_mtime_ns)[: len(kept) // 2]:
            path.unlink(missing_ok=True)
