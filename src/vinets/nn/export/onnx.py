"""ONNX files."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import torch
from torch import Tensor

from vinets.nn.export.formats import ExportFormat, Runner, metadata_of, program_of
from vinets.nn.network import CutNetwork


class Onnx(ExportFormat):
    """One file with its weights inside; the first axis of every input is called ``batch``."""

    name = "onnx"
    title = "ONNX"
    suffix = ".onnx"
    packages = ("onnx", "onnxscript", "onnxruntime")
    extra = "onnx"
    takes_opset = True

    def write(self, network: CutNetwork, path: Path, opset: int | None) -> int:
        names = [name or "input" for name in network.record.inputs]
        onnx = torch.onnx.export(
            program_of(network),
            input_names=names,
            output_names=["logits"],
            dynamic_shapes=(tuple({0: "batch"} for _ in names),),  # only names, the graph is made
            opset_version=opset,
            dynamo=True,
            verbose=False,
        )
        assert onnx is not None  # only the old exporter returns nothing
        told = {key: json.dumps(value) for key, value in metadata_of(network).items()}
        onnx.model.metadata_props.update(told)
        onnx.save(str(path), external_data=False)
        return int(onnx.model.opset_imports[""])

    def runner(self, path: Path) -> Runner:
        runtime = importlib.import_module("onnxruntime")
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        names = [given.name for given in session.get_inputs()]

        def run(inputs: tuple[Tensor, ...]) -> Tensor:
            values = {name: t.numpy() for name, t in zip(names, inputs, strict=True)}
            return torch.from_numpy(session.run(["logits"], values)[0])

        return run
