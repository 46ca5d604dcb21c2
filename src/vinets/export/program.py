"""Programs of :mod:`torch.export`."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from vinets.networks.formats import ExportFormat, Network, Runner, metadata_of, program_of


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
