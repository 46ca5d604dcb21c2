"""Files for other runtimes: what every export format can do, and such a file as a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import torch
from torch import Tensor, nn

from vinets.core.device import logits_of
from vinets.core.files import parse_json
from vinets.core.plain import from_plain
from vinets.core.registry import Registry
from vinets.core.tensors import facts_of
from vinets.data.images import Preprocessing
from vinets.models.libraries.base import import_optional
from vinets.models.origin import Record
from vinets.networks.network import CutNetwork

Runner: TypeAlias = Callable[[tuple[Tensor, ...]], Tensor]
"""From inputs by position, on the CPU, to logits."""

EXPORT_FORMATS: Registry[type[ExportFormat]] = Registry("export format", "vinets.export")


class WholeNetwork(nn.Module):
    """An uncut network with the record that a cut one has; it returns logits."""

    def __init__(self, model: nn.Module, record: Record) -> None:
        super().__init__()
        self.model, self.record = model, record

    def forward(self, x: Tensor | None = None, **named: Tensor) -> Tensor:
        return logits_of(self.model(**named) if x is None else self.model(x))


Network: TypeAlias = CutNetwork | WholeNetwork
"""What can be exported."""


class ExportFormat(ABC):
    """A kind of file; a subclass with a ``name`` is known to ``export_network``.

    Where none is named, the first by the alphabet of those with the suffix of the file is taken.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # in a sentence
    suffix: ClassVar[str]  # the end of the names of its files, with the dot
    packages: ClassVar[tuple[str, ...]] = ()  # that have to be installed,
    extra: ClassVar[str] = ""  # and the extra of this package that installs them
    takes_opset: ClassVar[bool] = False  # whether its operators have versions to choose from
    precision: ClassVar[str] = "float32"  # others are judged by their accuracy on test data
    calibrated: ClassVar[bool] = False  # whether it needs examples to choose its ranges

    examples: Sequence[tuple[Tensor, ...]] = ()  # batches of training inputs, to calibrate on

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "name" in vars(cls):
            EXPORT_FORMATS.add(cls.name, cls)

    @abstractmethod
    def write(self, network: Network, path: Path, opset: int | None) -> int | None:
        """Write a folded network in eval mode on the CPU; return the version of the operators.

        Whatever this raises becomes one sentence.
        """

    @abstractmethod
    def runner(self, path: Path) -> Runner:
        """Read the file, and run it: what :meth:`write` wrote is checked by this."""

    def open(self, path: Path) -> ExportedNetwork:
        """Open a file that anybody may have written; this must not run code from it."""
        raise ValueError(
            f"{path} is not opened, for a file of {self.title} may hold code. "
            "Pass the folder that it was made from, or an ONNX file."
        )

    def require(self) -> None:
        """Raise, with what to install, unless all packages are there."""
        for package in self.packages:
            import_optional(package, f"{self.title} needs", self.extra)


def suffixes() -> dict[str, str]:
    """Return the names of the formats by suffix, the same whichever file was imported first."""
    names: dict[str, str] = {}
    for name in sorted(EXPORT_FORMATS):
        names.setdefault(EXPORT_FORMATS[name].suffix, name)
    return names


class ExportedNetwork(nn.Module):
    """A file that its runtime runs on the CPU, with as many threads as torch has."""

    def __init__(
        self,
        runtime: str,  # what runs it
        precision: str,  # in which numbers: float32, float16 or int8
        inputs: Mapping[str, Any],  # shapes and dtypes, as of vinets.models.origin.input_fields
        notes: Mapping[str, str],  # JSON on classes, preprocessing and data; not trusted
        size: int,  # bytes of the file
        start: Callable[[int], Runner],  # from a number of threads
    ) -> None:
        super().__init__()
        self.runtime, self.precision, self.size = runtime, precision, size
        try:
            known = {n: parse_json(notes[n]) for n in ("classes", "preprocessing") if n in notes}
            self.record = from_plain(Record, {"cut": "", "inputs": dict(inputs), **known})
            if self.record.preprocessing is not None:
                Preprocessing.from_dict(self.record.preprocessing)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"its notes on classes or preprocessing are broken, {error}") from None
        self.record = replace(self.record, data=facts_of(notes, "data"))
        self._start = start
        self._threads = torch.get_num_threads()
        self._run = start(self._threads)

    def forward(self, x: Tensor | None = None, **named: Tensor) -> Tensor:
        if torch.get_num_threads() != self._threads:
            self._threads = torch.get_num_threads()
            self._run = self._start(self._threads)
        inputs = tuple(named[name] for name in self.record.inputs) if x is None else (x,)
        logits = self._run(tuple(tensor.cpu().contiguous() for tensor in inputs))
        return logits.to(inputs[0].device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a runtime cannot be copied, and a run does not change it


def open_exported(path: str | Path) -> ExportedNetwork:
    """Open a file of a format that can be read without running code from it."""
    path = Path(path)
    kind = EXPORT_FORMATS[suffixes()[path.suffix.lower()]]()
    kind.require()
    return kind.open(path)
