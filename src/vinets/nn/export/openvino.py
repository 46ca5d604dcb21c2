"""OpenVINO files."""

from __future__ import annotations

import importlib
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vinets.nn.export.formats import ExportFormat, Network, Runner, metadata_of
from vinets.nn.export.onnx import Onnx
from vinets.nn.export.opened import ExportedNetwork, broken

NOTES = "vinets"  # the section of the file that holds what it tells


class OpenVino(ExportFormat):
    """The graph as XML, made of the ONNX file, and its weights in a ``.bin`` beside it."""

    name = "openvino"
    title = "OpenVINO"
    suffix = ".xml"
    beside = (".bin",)
    packages = (*Onnx.packages, "openvino")
    extra = "openvino"
    takes_opset = True

    def write(self, network: Network, path: Path, opset: int | None) -> int:
        openvino = importlib.import_module("openvino")
        with tempfile.TemporaryDirectory() as folder:
            plain = Path(folder) / "plain.onnx"
            version = Onnx().write(network, plain, opset)
            # Not convert_model, which reports its use over the network.
            model = openvino.Core().read_model(str(plain))
            for key, value in metadata_of(network).items():
                model.set_rt_info(json.dumps(value), [NOTES, key])
            openvino.save_model(model, str(path), compress_to_fp16=False)
        return version

    def runner(self, path: Path) -> Runner:
        openvino = importlib.import_module("openvino")
        return _compiled(openvino, openvino.Core().read_model(str(path)), torch.get_num_threads())

    def open(self, path: Path) -> ExportedNetwork:
        openvino = importlib.import_module("openvino")
        weights = path.with_suffix(self.beside[0])
        if not weights.is_file():
            raise broken(path, f"its weights, {weights.name}, are not beside it")
        try:
            model = openvino.Core().read_model(str(path), str(weights))
            told = ("classes", "preprocessing", "data")
            keys = [key for key in told if model.has_rt_info([NOTES, key])]
            return ExportedNetwork(
                "OpenVINO",
                _precision(model),
                _inputs(model),
                {key: str(model.get_rt_info([NOTES, key]).value) for key in keys},
                path.stat().st_size + weights.stat().st_size,
                lambda threads: _compiled(openvino, model, threads),
            )
        except Exception as error:  # whatever the runtime says about a broken file
            raise broken(path, error) from None


def _compiled(openvino: Any, model: Any, threads: int) -> Runner:
    # It would choose bfloat16 by itself where the processor has it.
    options = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(model, "CPU", options).create_infer_request()

    def run(inputs: tuple[Tensor, ...]) -> Tensor:
        found = request.infer([tensor.numpy() for tensor in inputs], share_inputs=True)
        return torch.from_numpy(found[0].copy())  # the memory is the request's, and used again

    return run


def _precision(model: Any) -> str:
    kinds = {operation.get_type_name() for operation in model.get_ops()}
    return "int8" if "FakeQuantize" in kinds else "float32"  # see _compiled


def _inputs(model: Any) -> dict[str, Any]:
    found = {}
    for port in model.inputs:
        axes = list(port.get_partial_shape())
        if not axes or not all(axis.is_static for axis in axes[1:]):
            raise ValueError(f"its input {port.get_any_name()!r} has axes of no size")
        dtype = str(port.get_element_type().to_dtype())
        shape = [axis.get_length() for axis in axes[1:]]
        found[port.get_any_name()] = {"shape": shape, "dtype": dtype}
    return {"": found["input"]} if list(found) == ["input"] else found
