"""Files of ``torch.save``, of which nothing is read but tensors and plain values.

Such a file is a pickle that refers to storages, in a zip archive or, before PyTorch 1.6, in front
of them. PyTorch's own list of what a pickle may name has functions whose results may be far larger
than the file, so that the names are compared with a shorter list before anything is read.
"""

from __future__ import annotations

import pickletools
import re
import warnings
import zipfile
from argparse import Namespace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from vinets.core.checks import DoubtWarning, file_error, reason_of
from vinets.core.files import open_regular
from vinets.core.tensors import DTYPES
from vinets.models.records import MAX_TENSORS

SUFFIXES = (".pt", ".pth", ".bin", ".ckpt", ".tar", ".th", ".pkl", ".pickle")
MAX_PICKLE_BYTES = 8 << 20  # a tensor takes about two hundred
MAX_ENTRIES = 4 * MAX_TENSORS  # an optimiser has two or three tensors a parameter
TYPES = re.compile(  # what a pickle may name
    r"collections (OrderedDict|Counter)|argparse Namespace|torch\._utils _rebuild_(parameter|"
    r"tensor(_v2)?)|torch (Size|device|bool|b?float\d+|u?int\d+|\w+Storage)"
)
# Entries with weights, the likeliest first, and with their averages over a training.
PLACES = ("state_dict", "model_state_dict", "model", "net", "weights")
AVERAGED = ("state_dict_ema", "model_ema", "ema")
REMEDY = 'Save the weights alone: torch.save(model.state_dict(), "weights.pth").'


def read_torch_file(path: str | Path) -> dict[str, Tensor]:
    """Read the weights in a file; a warning names the entry that they lie under, if any.

    Tensors are mapped from an archive, so that an optimiser next to them takes no memory.
    """
    with open_regular(path) as file:
        try:
            zipped = file.read(4) == b"PK\x03\x04"  # as PyTorch tells them apart
            file.seek(0)
            _check_names(file, zipped)
            with warnings.catch_warnings(), torch.serialization.safe_globals([Namespace]):
                warnings.simplefilter("ignore")  # about versions of pickles
                content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
        except Exception as error:  # a damaged pickle raises all sorts
            said = f"{path} cannot be read as weights: {reason_of(error)}. {REMEDY}"
            raise ValueError(said) from None
    inner = content if isinstance(content, dict) else {}
    # The entries themselves come last: next to the weights, an accuracy may be a tensor.
    places = {key: _tensors(inner.get(key)) for key in (*PLACES, *AVERAGED)} | {"": _tensors(inner)}
    taken, *others = [key for key, tensors in places.items() if tensors] or [""]
    if not places[taken]:
        got = reason_of(", ".join(map(str, inner)) or type(content).__name__)
        accepted = f"a dict of tensors, alone or under one of {', '.join((*PLACES, *AVERAGED))}"
        raise file_error(path, accepted, got, REMEDY)
    if taken:
        left = ", and not ".join(["", *(repr(key) for key in others if key)])
        averaged = " (averages over a training)" if {taken, *others} & {*AVERAGED} else ""
        said = f"The weights are {taken!r} of {path}{left}{averaged}."
        warnings.warn(said, DoubtWarning, stacklevel=3)
    return places[taken]


def _check_names(file: BinaryIO, zipped: bool) -> None:
    """Raise if a file names a class or a function that no weights need, or is no such file."""
    if zipped:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            # Names in capitals, too, because PyTorch looks them up regardless of case.
            pickles = [one for one in entries if one.filename.lower().endswith(".pkl")]
            if len(pickles) != 1 or any(one.compress_type for one in entries):
                raise ValueError("it is no archive of torch.save; one of torch.jit is not read")
            if len(entries) > MAX_ENTRIES or pickles[0].file_size > MAX_PICKLE_BYTES:
                raise ValueError(f"it has over {MAX_ENTRIES:,} tensors, or too many other values")
            content = archive.read(pickles[0])
    else:
        content = file.read(MAX_PICKLE_BYTES)  # from the first of five pickles on
        if content[:1] != b"\x80":
            raise ValueError("it is no file of torch.save, or a tar archive of the first PyTorch")
    stream = BytesIO(content)
    rounds = (pickletools.genops(stream) for _ in range(1 if zipped else 5))
    for code, name, _ in chain.from_iterable(rounds):
        if code.name in ("GLOBAL", "INST", "STACK_GLOBAL") and not TYPES.fullmatch(str(name)):
            kind = reason_of(str(name or "a class").replace(" ", "."))
            raise ValueError(f"it holds an object of {kind}, which would run code")


def _tensors(value: Any) -> dict[str, Tensor]:
    named = value.items() if isinstance(value, dict) else ()
    tensors = {k: v for k, v in named if isinstance(k, str) and isinstance(v, Tensor)}
    return {name: t.detach() for name, t in tensors.items() if t.dtype in DTYPES.values()}
