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
from vinets.models.origin import example_inputs
from vinets.networks.network import CutNetwork
from vinets.networks.runtimes import ExportFormat, Network, Runner


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
    return {name: getattr(network.record, name) for name in ("classes", "preprocessing", "data")}


def program_of(network: Network) -> torch.export.ExportedProgram:
    """Return the network as a graph, its inputs by position, of any batch size."""
    # Two examples, because a batch of one would be taken for a constant.
    inputs = tuple(tensors_of(example_inputs(network.record.inputs, batch=2)))
    names = tuple(network.record.inputs)
    with torch.no_grad():
        module = _Positional(network, names)
        if isinstance(network, CutNetwork):
            module = _Positional(network.backbone, names, network.reader, network.head)
            if isinstance(network.backbone, StoppedNetwork):
                from torch.fx.experimental.proxy_tensor import make_fx

                # Its pass is ended by an exception. Exporters keep a stack of the modules that they
                # are in, and would lose count, so they get the operations of one pass instead.
                graph = make_fx(
                    _Positional(network.backbone, names),
                    tracing_mode="symbolic",
                    pre_dispatch=True,  # whole operators, such as attention
                    _allow_non_fake_inputs=True,  # the weights
                )(*inputs)
                module = _Positional(graph, ("",), network.reader, network.head)
        shapes = (tuple({0: torch.export.Dim("batch")} for _ in inputs),)  # one argument, *inputs
        return torch.export.export(module.eval(), inputs, dynamic_shapes=shapes, strict=False)


class _Positional(nn.Module):
    """A network as a function of tensors in the order of their ``names``, and modules after it."""

    def __init__(self, network: nn.Module, names: tuple[str, ...], *after: nn.Module) -> None:
        super().__init__()
        self.network, self.names, self.after = network, names, nn.Sequential(*after)

    def forward(self, *inputs: Tensor) -> Tensor:
        if self.names == ("",):
            output = self.network(*inputs)
        else:
            output = self.network(**dict(zip(self.names, inputs, strict=True)))
        logits: Tensor = self.after(first_tensor(output))
        return logits
