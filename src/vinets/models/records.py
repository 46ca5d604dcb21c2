"""The record of how a network was made: what it may hold, and what is refused.

A record holds no weights and no code. It may come from a file that nobody vouches for: the library
is one that is registered here, the name is a plain word that the library looks up in its own list,
and options that would fetch weights or code are refused.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterator
from typing import Any, TypeAlias

from vinets.checks import parameter_error
from vinets.models.libraries.base import LIBRARIES, libraries

__all__ = ["ModelRecord", "checked_record", "nested_items", "plain", "without_fetching"]

ModelRecord: TypeAlias = dict[str, Any]
"""The keys library, name and options; plain JSON values."""

DEEPEST = 20  # nesting of options

# Options that name weights, files or code to fetch. They shape no network: records go without.
FETCHING = frozenset(
    {
        *("weights", "weights_backbone", "progress", "checkpoint_path", "cache_dir", "model_args"),
        *("backbone", "use_pretrained_backbone", "use_timm_backbone", "backbone_kwargs"),
        *("auto_map", "trust_remote_code", "name_or_path", "_name_or_path"),
        *("quantization_config", "attn_implementation", "_attn_implementation"),
        *("experts_implementation", "_experts_implementation"),
    }
)


def checked_record(source: Any) -> ModelRecord:
    """A copy of ``source`` if it is a record that may be built, else one sentence."""

    def refused(accepted: str, got: Any, remedy: str = "") -> ValueError:
        return parameter_error("rebuild", "source", accepted, reprlib.repr(got), remedy)

    if not isinstance(source, dict) or set(source) != {"library", "name", "options"}:
        raise refused(
            "a dict with the keys library, name and options", source, "See source_of(model)."
        )
    library, name, options = source["library"], source["name"], source["options"]
    if not isinstance(library, str) or library not in LIBRARIES:
        known = ", ".join(each.name for each in libraries())
        raise refused(f"a record whose library is one of {known}", library)
    if not isinstance(name, str) or not name.replace("_", "").replace(".", "").isalnum():
        raise refused("a record whose name has letters, digits, dots and underscores only", name)
    kept = plain(options)
    if not isinstance(kept, dict):
        raise refused("a record whose options are a dict of plain JSON values", options)
    for key, value in nested_items(kept):
        if _fetches(key) and value:
            raise refused("a record without options that fetch weights or code", key)
    return {"library": library, "name": name, "options": kept}


def plain(value: Any) -> Any:
    """``value`` as JSON gives it back; None where JSON cannot hold it."""
    try:
        return json.loads(json.dumps(value)) if _depth(value) <= DEEPEST else None
    except (TypeError, ValueError):
        return None


def _depth(value: Any, level: int = 0) -> int:
    if level > DEEPEST or not isinstance(value, dict | list | tuple):
        return level
    inner = value.values() if isinstance(value, dict) else value
    return max((_depth(v, level + 1) for v in inner), default=level)


def _fetches(key: str) -> bool:
    return key in FETCHING or key.startswith("pretrained")


def without_fetching(value: Any) -> Any:
    """``value`` less the options, at any depth, that :func:`checked_record` refuses."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not (isinstance(k, str) and _fetches(k))}
        return {key: without_fetching(inner) for key, inner in kept.items()}
    if isinstance(value, list | tuple):
        return [without_fetching(inner) for inner in value]
    return value


def nested_items(value: Any) -> Iterator[tuple[str, Any]]:
    """Every key and value of nested dicts and lists, from the outside in."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from nested_items(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from nested_items(inner)
