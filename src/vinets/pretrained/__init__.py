"""Networks that come with the package: ``vinets/NAME``, found without a download.

Each one is a folder here, of :meth:`vinets.CutNetwork.save_pretrained` in half precision, named by
its uncut network, its data and its head. In the folder, ``card.json`` has the digests of the files
and the facts of the card, ``README.md``. What recipes of uncut networks reached is in
``recipes.json``. ``python -m benchmarks.pretrained`` writes all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from vinets.core.files import read_bytes, read_json
from vinets.core.plain import nearest

PREFIX = "vinets/"
HERE = Path(__file__).parent
CARD, RECIPES, EXAMPLE = "card.json", "recipes.json", "example.png"
MAX_FILE_BYTES = 32 << 20
RENAMED = {  # names of vinets 0.2
    "vinets/digits-cnn-best": "vinets/digits-cnn-products",
    "vinets/resnet18-cifar10-best": "vinets/resnet18-cifar10-products",
    "vinets/resnet18-cifar10-small": "vinets/resnet18-cifar10-products-small",
    "vinets/resnet34-cifar100-best": "vinets/resnet34-cifar100-products",
}


def names() -> tuple[str, ...]:
    """Return the names of the networks."""
    return tuple(_cards())


def is_name(spec: str | Path) -> bool:
    """Say whether ``spec`` means a network of the package; a folder of that name comes first."""
    return isinstance(spec, str) and spec.startswith(PREFIX) and not Path(spec).exists()


def facts(name: str) -> Mapping[str, Any]:
    """Return the facts on the card of a network: data, head, accuracy, parameters, speed, command.

    Examples
    --------
    >>> facts("vinets/digits-cnn-products")["head"]
    'products'
    """
    return dict(_entry(name)["facts"])


def find(name: str) -> Path:
    """Return the folder of a network, all of whose files are as they were made."""
    entry, folder = _entry(name), HERE / name.removeprefix(PREFIX)
    for file, digest in entry["files"].items():
        path = folder / file
        if not path.is_file():
            raise ValueError(f"{path} is missing. Install vinets again.")
        if hashlib.sha256(read_bytes(path, MAX_FILE_BYTES)).hexdigest() != digest:
            raise ValueError(f"{path} is not as {name} was published. Install vinets again.")
    return folder


def example(name: str) -> Path | None:
    """Return a picture to try the network with, where there is one."""
    return find(name) / EXAMPLE if EXAMPLE in _entry(name)["files"] else None


def expected(recipe: str) -> Mapping[str, Any] | None:
    """Return what training by a recipe gave: accuracies on the test part, and on which machine."""
    return read_json(HERE / RECIPES).get(recipe)


def expectation(recipe: str) -> str:
    """Return the accuracy that a recipe reached, in words; empty where it was not measured."""
    known = expected(recipe)
    if known is None:
        return ""
    percent = [100 * one for one in known["accuracies"]]
    spread = f" ± {stdev(percent):.2f}" if len(percent) > 1 else ""
    seeds = f"{len(percent)} seeds" if len(percent) > 1 else "one seed"
    return f"{fmean(percent):.2f}%{spread} on the test part, {seeds}"


def _entry(name: str) -> Mapping[str, Any]:
    known = _cards()
    if name in RENAMED:
        raise FileNotFoundError(f"{name} is called {RENAMED[name]} since vinets 0.3.")
    if name not in known:
        raise FileNotFoundError(
            f"No folder is called {name}, and no network of the package is.{nearest(name, known)} "
            f"There are: {', '.join(known)}."
        )
    return known[name]


@cache
def _cards() -> dict[str, dict[str, Any]]:
    return {PREFIX + card.parent.name: read_json(card) for card in sorted(HERE.glob(f"*/{CARD}"))}
