"""What was measured once on this machine, in the user's cache folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from vinets.files import read_json, write_json


def cache_folder() -> Path:
    """``$XDG_CACHE_HOME/vinets``, or ``~/.cache/vinets`` where that is not set."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # a relative path is to be ignored, by the specification of that variable
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "vinets"


def recall(name: str) -> dict[str, Any]:
    """What :func:`remember` kept under a name; nothing if there is none, or it cannot be read."""
    with suppress(OSError, ValueError, RuntimeError):  # the last if there is no home
        kept = read_json(cache_folder() / f"{name}.json")
        if isinstance(kept, dict):
            return kept
    return {}


def remember(name: str, facts: dict[str, Any]) -> None:
    """Keep facts under a name, beside those kept before; without a folder, nothing is kept."""
    with suppress(OSError, ValueError, RuntimeError):
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / f"{name}.json", recall(name) | facts)
