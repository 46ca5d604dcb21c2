"""Exported files as networks, to be measured beside others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from vinets.core.checks import reason_of
from vinets.core.files import parse_json
from vinets.core.tensors import facts_of
from vinets.data.images import Preprocessing
from vinets.models.facts import remember_training
from vinets.networks.formats import EXPORT_FORMATS, Runner, suffixes


class ExportedNetwork(nn.Module):
    """A file that its runtime runs on the CPU, with as many threads as torch has.

    Parameters
    ----------
    runtime, precision : str
        What runs it, and in which numbers: float32, float16 or int8.
    inputs : dict
        Shapes and dtypes; see :func:`vinets.networks.network.input_fields`.
    told : dict of str to str
        JSON that the file holds about its ``classes``, its ``preprocessing`` and the ``data`` that
        it was trained on.
    size : int
        Bytes of the file.
    start : function
        From a number of threads to a runner.
    """

    def __init__(
        self,
        runtime: str,
        precision: str,
        inputs: Mapping[str, Any],
        told: Mapping[str, str],
        size: int,
        start: Callable[[int], Runner],
    ) -> None:
        super().__init__()
        self.runtime, self.precision, self.size = runtime, precision, size
        self.inputs = dict(inputs)
        self.classes, self.preprocessing = _told(told)
        remember_training(self, facts_of(told, "data"))
        self._start = start
        self._threads = torch.get_num_threads()
        self._run = start(self._threads)

    def forward(self, x: Tensor | None = None, **named: Tensor) -> Tensor:
        if torch.get_num_threads() != self._threads:
            self._threads = torch.get_num_threads()
            self._run = self._start(self._threads)
        given = tuple(named[name] for name in self.inputs) if x is None else (x,)
        logits = self._run(tuple(tensor.cpu().contiguous() for tensor in given))
        return logits.to(given[0].device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a runtime cannot be copied, and a run does not change it


def open_exported(path: str | Path) -> ExportedNetwork:
    """Open a file of a format that can be read without running code from it.

    ValueError says in one sentence what is wrong with a file.
    """
    path = Path(path)
    kind = EXPORT_FORMATS[suffixes()[path.suffix.lower()]]()
    kind.require()
    return kind.open(path)


def broken(path: Path, error: BaseException | str) -> ValueError:
    """The error for a file that its runtime does not take."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return ValueError(f"{path} cannot be run: {reason_of(lines[0] if lines else error)}.")


def _told(told: Mapping[str, str]) -> tuple[tuple[str, ...], Preprocessing | None]:
    """Classes and preprocessing, as far as the file names them; the file may be anybody's."""
    try:
        classes = parse_json(told.get("classes", "[]"))
        given = parse_json(told.get("preprocessing", "null"))
        if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
            raise ValueError("the classes are no names")
        return tuple(classes), None if given is None else Preprocessing.from_dict(given)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its notes on classes or preprocessing are broken, {error}") from None
