"""Files for other runtimes: what every export format can do, and such a file as a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import torch
from torch import Tensor, nn

from vinets.core.device import logits_of
from vinets.core.files import parse_json
from vinets.core.registry import Registry
from vinets.core.tensors import facts_of
from vinets.data.images import Preprocessing
from vinets.models.facts import Record, remember_training
from vinets.models.libraries.base import import_optional
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

    Of formats with the same suffix, the one whose name comes first in the alphabet is taken where
    none is named.
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
    backwards = sorted(EXPORT_FORMATS, reverse=True)  # the first of a suffix is written last
    names = {EXPORT_FORMATS[name].suffix: name for name in backwards}
    return dict(sorted(names.items(), key=lambda pair: pair[1]))


class ExportedNetwork(nn.Module):
    """A file that its runtime runs on the CPU, with as many threads as torch has.

    Parameters
    ----------
    runtime, precision : str
        What runs it, and in which numbers: float32, float16 or int8.
    inputs : dict
        Shapes and dtypes; see :func:`vinets.models.facts.input_fields`.
    notes : dict of str to str
        JSON that the file holds about its ``classes``, its ``preprocessing`` and the ``data`` that
        it was trained on. Anybody may have written it.
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
        notes: Mapping[str, str],
        size: int,
        start: Callable[[int], Runner],
    ) -> None:
        super().__init__()
        self.runtime, self.precision, self.size = runtime, precision, size
        self.inputs = dict(inputs)
        try:
            self.classes = classes_of(parse_json(notes.get("classes", "[]")))
            values = parse_json(notes.get("preprocessing", "null"))
            self.preprocessing = None if values is None else Preprocessing.from_dict(values)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"its notes on classes or preprocessing are broken, {error}") from None
        remember_training(self, facts_of(notes, "data"))
        self._start = start
        self._threads = torch.get_num_threads()
        self._run = start(self._threads)

    def forward(self, x: Tensor | None = None, **named: Tensor) -> Tensor:
        if torch.get_num_threads() != self._threads:
            self._threads = torch.get_num_threads()
            self._run = self._start(self._threads)
        inputs = tuple(named[name] for name in self.inputs) if x is None else (x,)
        logits = self._run(tuple(tensor.cpu().contiguous() for tensor in inputs))
        return logits.to(inputs[0].device)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a runtime cannot be copied, and a run does not change it


def classes_of(values: Any) -> tuple[str, ...]:
    """Return the names of classes that a file holds, or raise."""
    if not isinstance(values, list) or not all(isinstance(name, str) for name in values):
        raise ValueError("the classes are no names")
    return tuple(values)


def open_exported(path: str | Path) -> ExportedNetwork:
    """Open a file of a format that can be read without running code from it.

    ValueError says in one sentence what is wrong with a file.
    """
    path = Path(path)
    kind = EXPORT_FORMATS[suffixes()[path.suffix.lower()]]()
    kind.require()
    return kind.open(path)
