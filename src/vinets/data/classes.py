"""Match the classes of data with the classes of a network, by their names."""

from __future__ import annotations

import re
import reprlib
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from vinets.core.checks import parameter_error
from vinets.core.files import read_bytes
from vinets.data.conversion import TensorSource
from vinets.data.images import ImageSource
from vinets.data.source import DataSplit, Source

MAX_LIST_BYTES = 1 << 24
NAMES_IN_MESSAGE = 3


def read_classes(classes: str | Path | Sequence[str]) -> tuple[str, ...]:
    """Return names of classes, which a file lists one a line, or with commas in between."""
    if isinstance(classes, str | Path):
        text = read_bytes(classes, MAX_LIST_BYTES).decode("utf-8-sig", "replace").strip()
        lines = text.splitlines() if len(text.splitlines()) > 1 else text.split(",")
        names = tuple(line.strip() for line in lines if line.strip())
    else:
        names = tuple(classes)
    if len(names) < 2:
        accepted = "two or more names, one a line, in the order of the outputs of the network"
        raise parameter_error("read_classes", "classes", accepted, str(classes))
    return names


def relabel(
    data: DataSplit, classes: str | Path | Sequence[str], network: str = "the network"
) -> DataSplit:
    """Give data the classes of a network: names are matched, and labels follow them.

    The ``classes`` are those of the outputs of the ``network``, or a file that lists them; the data
    may have a part of them. Case does not matter, "_" and "-" are blanks, and the first name is
    enough of "tench, Tinca tinca". If either side has mere numbers, as many, places are kept.

    Examples
    --------
    >>> part = TensorSource(torch.eye(2), [1, 0], ("Great Dane", "pug"))
    >>> relabel(DataSplit("dogs", part, part), ["Pug", "beagle", "great_dane"]).test.labels
    tensor([0, 2])
    """
    own, names = data.train.classes, read_classes(classes)
    if own == names:
        return data
    matched = match_names(own, names)
    if None in matched and len(own) == len(names) and (numbered(own) or numbered(names)):
        matched, names = list(range(len(names))), own if numbered(names) else names
    unknown = [name for name, place in zip(own, matched, strict=True) if place is None]
    if unknown:
        left = [name for place, name in enumerate(names) if place not in matched]
        some = [", ".join(map(reprlib.repr, side[:NAMES_IN_MESSAGE])) for side in (unknown, left)]
        raise ValueError(
            f"{len(unknown)} of the {len(own)} classes of {data.name} ({some[0]}) are not clearly "
            f"among those of {network}, and {len(left)} of the {len(names)} of {network} "
            f"({some[1]}) not in {data.name}. Rename the former, or pass --classes FILE, which "
            f"lists the classes of {network} by their names in {data.name}, one a line, in the "
            "order of its outputs."
        )
    places, parts = torch.tensor(matched), list[Source]()
    for part in (data.train, data.test):
        if (places.diff() < 0).any() and (part.labels.diff() >= 0).all():
            # They are sorted by class, as they were when the network was trained.
            part = part.subset(torch.argsort(places[part.labels], stable=True))
        labels = places[part.labels]
        if isinstance(part, ImageSource):
            parts.append(part.changed(labels=labels, classes=names))
        elif isinstance(part, TensorSource):
            parts.append(TensorSource(part.inputs, labels, names))
        else:
            accepted = "of images or tensors, if its classes are not those of the network"
            raise parameter_error("relabel", "data", accepted, type(part).__name__)
    return replace(data, train=parts[0], test=parts[1])


def numbered(names: Sequence[str]) -> bool:
    """Tell whether names are numbers from 0 on, or what transformers writes for these."""
    return all(name in (str(k), f"LABEL_{k}") for k, name in enumerate(names))


def match_names(wanted: Sequence[str], names: Sequence[str]) -> list[int | None]:
    """Return the place of every wanted class among ``names``; None where it is not clear."""
    places: list[int | None] = [None] * len(wanted)

    def plain(name: str) -> str:
        return re.sub(r"[\s_-]+", " ", unicodedata.normalize("NFKC", name).casefold()).strip()

    for form in (str, plain, lambda name: plain(name.partition(",")[0])):
        theirs, mine = [form(name) for name in names], [form(name) for name in wanted]
        # A name that stands twice on a side says nothing, and a class is taken once.
        twice = {name for side in (theirs, mine) for name, n in Counter(side).items() if n > 1}
        taken = {*places}
        free = {name: k for k, name in enumerate(theirs) if name not in twice and k not in taken}
        places = [free.get(m) if p is None else p for m, p in zip(mine, places, strict=True)]
    return places
