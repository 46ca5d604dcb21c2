"""Files that are written whole or not at all, and names for them."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_text(path: str | Path, text: str) -> Path:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}")  # beside it: only there a rename is atomic
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, target)
    return target


def write_json(path: str | Path, values: Any) -> Path:
    """Write plain values as JSON, whole or not at all."""
    return write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def read_json(path: str | Path) -> Any:
    """The values in a JSON file; what is none is refused in one sentence."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not readable JSON: {error}.") from None


def slugs(names: Iterable[str]) -> dict[str, str]:
    """A name for the file or folder of each; no two are the same, whatever the case of letters.

    Examples
    --------
    >>> slugs(["cat", "dog"])
    {'cat': 'cat', 'dog': 'dog'}
    >>> len(set(slugs(["a b", "A-b", "a.b"]).values()))
    3
    """
    found = {name: slug(name) for name in names}
    taken = Counter(found.values())
    return {n: s if taken[s] == 1 else f"{s}-{_short(n)}" for n, s in found.items()}


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:6]


def slug(name: str) -> str:
    """A name for a file or folder; see :func:`slugs` where several stand beside each other.

    What a plain file name cannot hold is told apart by a short digest; letters are small, and
    blanks, dots and commas become hyphens.

    Examples
    --------
    >>> slug("linear, flat"), slug("layer2.1.bn2")
    ('linear-flat', 'layer2-1-bn2')
    >>> slug("1") == slug("-1")
    False
    """
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if re.fullmatch(r"[a-z0-9]+([-., ]+[a-z0-9]+)*", name.lower()):
        return plain
    return f"{plain}-{_short(name)}" if plain else _short(name)
