"""What every export format can do, and the graph that they start from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from vinets.core.device import logits_of, tensors_of
from vinets.core.registry import Registry
from vinets.latent.cut import StoppedNetwork
from vinets.latent.reader import first_tensor
from vinets.models.facts import Record, example_inputs
from vinets.models.libraries.base import import_optional
from vinets.networks.network import CutNetwork

if TYPE_CHECKING:
    from vinets.networks.exported import ExportedNetwork

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
    suffix: ClassVar[str]  # of its files, with the dot
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
        """A file that anybody may have written as a network; this must not run code from it."""
        raise ValueError(
            f"{path} is not opened, for a file of {self.title} may hold code. "
            "Pass the folder that it was made from, or an ONNX file."
        )

    def require(self) -> None:
        """Raise, with what to install, unless all packages are there."""
        for package in self.packages:
            import_optional(package, f"{self.title} needs", self.extra)


def suffixes() -> dict[str, str]:
    """Names of the formats by suffix, the same whichever file was imported first."""
    backwards = sorted(EXPORT_FORMATS, reverse=True)  # the first of a suffix is written last
    found = {EXPORT_FORMATS[name].suffix: name for name in backwards}
    return dict(sorted(found.items(), key=lambda pair: pair[1]))


def metadata_of(network: Network) -> dict[str, Any]:
    """What a file should tell about the network, for JSON; the ``data`` it was trained on, too."""
    told = network.record
    return {"classes": list(told.classes), "preprocessing": told.preprocessing, "data": told.data}


def program_of(network: Network) -> torch.export.ExportedProgram:
    """The network as a graph of tensor operations, its inputs by position, of any batch size."""
    # Two examples, for a batch of one would be taken for a constant.
    inputs = tuple(tensors_of(example_inputs(network.record.inputs, batch=2)))
    with torch.no_grad():
        module = _Positional(network, inputs).eval()
        batch = torch.export.Dim("batch")
        shapes = (tuple({0: batch} for _ in inputs),)  # one argument, *inputs
        return torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False)


def tensor_backbone(network: CutNetwork, inputs: tuple[Tensor, ...]) -> nn.Module:
    """The backbone as a function of tensors, for exporters."""
    module = _Backbone(network.backbone, tuple(network.record.inputs))
    if not isinstance(network.backbone, StoppedNetwork):
        return module
    # Its pass is ended by an exception. Exporters keep a stack of the modules that they
    # are in, and would lose count, so they get the operations of one pass instead.
    return make_fx(
        module,
        tracing_mode="symbolic",
        pre_dispatch=True,  # whole operators, such as attention
        _allow_non_fake_inputs=True,  # the weights
    )(*inputs)


class _Positional(nn.Module):
    """The network as a function of tensors."""

    def __init__(self, network: Network, inputs: tuple[Tensor, ...]) -> None:
        super().__init__()
        if isinstance(network, CutNetwork):
            self.backbone = tensor_backbone(network, inputs)
            self.reader: nn.Module = network.reader
            self.head: nn.Module = network.head
            return
        self.backbone = _Backbone(network, tuple(network.record.inputs))
        self.reader, self.head = nn.Identity(), nn.Identity()

    def forward(self, *inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.reader(self.backbone(*inputs)))
        return logits


class _Backbone(nn.Module):
    """The backbone as a function of tensors, given in the order of their ``names``."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        if self.names == ("",):
            return first_tensor(self.model(*inputs))
        return first_tensor(self.model(**dict(zip(self.names, inputs, strict=True))))
