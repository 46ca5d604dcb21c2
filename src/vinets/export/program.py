"""Networks as graphs of tensor operations: what ONNX files start from, and files of torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets.core.device import tensors_of
from vinets.latent.cut import StoppedNetwork
from vinets.latent.reader import first_tensor
from vinets.models.facts import example_inputs
from vinets.networks.formats import ExportFormat, Network, Runner
from vinets.networks.network import CutNetwork


class Program(ExportFormat):
    """A file for :func:`torch.export.load`; the program takes its inputs by position."""

    name = "torch"
    title = "torch.export"
    suffix = ".pt2"

    def write(self, network: Network, path: Path, opset: int | None) -> None:
        metadata = {"metadata.json": json.dumps(metadata_of(network))}
        torch.export.save(program_of(network), str(path), extra_files=metadata)

    def runner(self, path: Path) -> Runner:
        module = torch.export.load(str(path)).module()
        return lambda inputs: module(*inputs)


def metadata_of(network: Network) -> dict[str, Any]:
    """Return what a file should tell about the network, for JSON; its training ``data``, too."""
    record = network.record
    return {
        "classes": list(record.classes),
        "preprocessing": record.preprocessing,
        "data": record.data,
    }


def program_of(network: Network) -> torch.export.ExportedProgram:
    """Return the network as a graph, its inputs by position, of any batch size."""
    # Two examples, because a batch of one would be taken for a constant.
    inputs = tuple(tensors_of(example_inputs(network.record.inputs, batch=2)))
    with torch.no_grad():
        module = _Positional(network, inputs).eval()
        batch = torch.export.Dim("batch")
        shapes = (tuple({0: batch} for _ in inputs),)  # one argument, *inputs
        return torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False)


class _Positional(nn.Module):
    """A network as a function of tensors."""

    def __init__(self, network: Network, inputs: tuple[Tensor, ...]) -> None:
        super().__init__()
        names = tuple(network.record.inputs)
        self.reader: nn.Module = nn.Identity()
        self.head: nn.Module = nn.Identity()
        if not isinstance(network, CutNetwork):
            self.backbone: nn.Module = _Backbone(network, names)
            return
        self.backbone = _Backbone(network.backbone, names)
        self.reader, self.head = network.reader, network.head
        if isinstance(network.backbone, StoppedNetwork):
            from torch.fx.experimental.proxy_tensor import make_fx

            # Its pass is ended by an exception. Exporters keep a stack of the modules that they
            # are in, and would lose count, so they get the operations of one pass instead.
            self.backbone = make_fx(
                self.backbone,
                tracing_mode="symbolic",
                pre_dispatch=True,  # whole operators, such as attention
                _allow_non_fake_inputs=True,  # the weights
            )(*inputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        logits: Tensor = self.head(self.reader(self.backbone(*inputs)))
        return logits


class _Backbone(nn.Module):
    """A network as a function of tensors in the order of their ``names``."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        if self.names == ("",):
            return first_tensor(self.model(*inputs))
        return first_tensor(self.model(**dict(zip(self.names, inputs, strict=True))))
