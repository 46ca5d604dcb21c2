"""ONNX files that store and compute eight-bit integers."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

from vinets.export.onnx import Onnx
from vinets.networks.formats import Network


class OnnxInt8(Onnx):
    """Static quantisation by onnxruntime, as pairs of QuantizeLinear and DequantizeLinear.

    Weights are int8 with a scale for each output channel, activations uint8 with the range that
    they have on the examples. Inputs and logits stay float32. Products of values are taken in
    float32 and not rounded from one factor to the next, for that would add up.
    """

    name = "onnx-int8"
    title = "ONNX in int8"
    precision = "int8"
    calibrated = True

    def write(self, network: Network, path: Path, opset: int | None) -> int:
        tools: Any = importlib.import_module("onnxruntime.quantization")
        names = [name or "input" for name in network.record.inputs]
        batches = iter(self.examples)
        reader: Any = tools.CalibrationDataReader

        class Reader(reader):
            def get_next(self) -> dict[str, Any] | None:
                tensors = next(batches, None)
                if tensors is None:
                    return None
                return {name: t.numpy() for name, t in zip(names, tensors, strict=True)}

        with tempfile.TemporaryDirectory() as folder:
            plain, ready = Path(folder) / "plain.onnx", Path(folder) / "ready.onnx"
            version = super().write(network, plain, opset)
            # Folds normalisation into convolutions. Its symbolic shapes need a package more, and
            # nothing here misses them.
            tools.quant_pre_process(str(plain), str(ready), skip_symbolic_shape=True)
            nodes = importlib.import_module("onnx").load(str(ready)).graph.node
            tools.quantize_static(
                str(ready),
                str(path),
                Reader(),
                quant_format=tools.QuantFormat.QDQ,
                activation_type=tools.QuantType.QUInt8,
                weight_type=tools.QuantType.QInt8,
                per_channel=True,
                nodes_to_exclude=[node.name for node in nodes if node.op_type == "Mul"],
            )
        return version
