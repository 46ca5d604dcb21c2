"""ONNX files that store and compute float16."""

from __future__ import annotations

import importlib
from pathlib import Path

from vinets.export.onnx import Onnx
from vinets.networks.formats import Network


class OnnxFloat16(Onnx):
    """Half the size. Inputs and logits stay float32; a processor without float16 casts back."""

    name = "onnx-float16"
    title = "ONNX in float16"
    precision = "float16"

    def write(self, network: Network, path: Path, opset: int | None) -> int:
        version = super().write(network, path, opset)
        onnx = importlib.import_module("onnx")
        float16 = importlib.import_module("onnxruntime.transformers.float16")
        model = float16.convert_float_to_float16(onnx.load(str(path)), keep_io_types=True)
        onnx.save(model, str(path))
        return version
