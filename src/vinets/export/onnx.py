"""ONNX files."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vinets.core.files import read_bytes
from vinets.networks.exported import ExportedNetwork, broken
from vinets.networks.formats import ExportFormat, Network, Runner, metadata_of, program_of

BATCH = "batch"
MOST_BYTES = 1 << 31  # of a file; the format allows no more


class Onnx(ExportFormat):
    """One file with its weights inside; the first axis of inputs and logits is called ``batch``."""

    name = "onnx"
    title = "ONNX"
    suffix = ".onnx"
    packages = ("onnx", "onnxscript", "onnxruntime")
    extra = "onnx"
    takes_opset = True

    def write(self, network: Network, path: Path, opset: int | None) -> int:
        onnx = importlib.import_module("onnx")
        names = [name or "input" for name in network.record.inputs]
        made = torch.onnx.export(
            program_of(network),
            input_names=names,
            output_names=["logits"],
            dynamic_shapes=(tuple({0: BATCH} for _ in names),),  # only names, the graph is made
            opset_version=opset,
            dynamo=True,
            verbose=False,
        )
        assert made is not None  # only the old exporter returns nothing
        model = made.model_proto
        _name_batch(model.graph)
        _forget_origin(model)
        told = {key: json.dumps(value) for key, value in metadata_of(network).items()}
        onnx.helper.set_model_props(model, told)
        onnx.save(model, str(path))
        return next(int(one.version) for one in model.opset_import if one.domain == "")

    def runner(self, path: Path) -> Runner:
        return _session(path.read_bytes(), torch.get_num_threads())

    def open(self, path: Path) -> ExportedNetwork:
        onnx = importlib.import_module("onnx")
        content = read_bytes(path, MOST_BYTES)
        try:
            model = onnx.load_model_from_string(content)
            # The runtime would read any file that is named there, from the folder it runs in.
            if any(_stored_outside(onnx, message) for message in _messages(model)):
                raise ValueError("its weights lie in other files, which are not opened")
            told = {one.key: one.value for one in model.metadata_props}
            return ExportedNetwork(
                "onnxruntime",
                _precision(onnx, model),
                _inputs(onnx, model),
                told,
                len(content),
                lambda threads: _session(content, threads),
            )
        except Exception as error:  # whatever protobuf and the runtime say about a broken file
            raise broken(path, error) from None


def _session(content: bytes, threads: int) -> Runner:
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors alone; those are raised as well
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    required = [given.name for given in session.get_inputs()]
    first = session.get_outputs()[0].name

    def run(inputs: tuple[Tensor, ...]) -> Tensor:
        values = {name: t.numpy() for name, t in zip(required, inputs, strict=True)}
        try:
            return torch.from_numpy(session.run([first], values)[0])
        except Exception as error:  # its errors are of no common class
            raise RuntimeError(str(error)) from None

    return run


def _name_batch(graph: Any) -> None:
    """Call the first axis ``batch`` wherever it stands; torch may have called it ``s21``."""
    ends = [value.type.tensor_type.shape.dim for value in (*graph.input, *graph.output)]
    old = {dims[0].dim_param for dims in ends} - {"", BATCH}
    for dims in ends:
        dims[0].dim_param = BATCH
    for value in graph.value_info:
        for dim in value.type.tensor_type.shape.dim:
            for symbol in old:
                if symbol in dim.dim_param:
                    dim.dim_param = re.sub(rf"\b{re.escape(symbol)}\b", BATCH, dim.dim_param)


def _forget_origin(model: Any) -> None:
    """Drop what the exporter notes down: lines and paths of the code that made the network."""
    graph = model.graph
    functions = [node for function in model.functions for node in function.node]
    tensors = (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
    for one in (graph, *graph.node, *functions, *model.functions, *tensors):
        one.doc_string = ""
        del one.metadata_props[:]


def _messages(message: Any) -> Iterator[Any]:
    """A protobuf message and all inside of it."""
    waiting = [message]
    while waiting:
        one = waiting.pop()
        yield one
        for field, value in one.ListFields():
            if field.message_type is not None:
                waiting.extend([value] if hasattr(value, "ListFields") else value)


def _stored_outside(onnx: Any, message: Any) -> bool:
    if not isinstance(message, onnx.TensorProto):
        return False
    return bool(message.data_location == onnx.TensorProto.EXTERNAL or message.external_data)


def _precision(onnx: Any, model: Any) -> str:
    """In which numbers most of the file computes, told by its graph."""
    if any(node.op_type == "DequantizeLinear" for node in model.graph.node):
        return "int8"
    kinds = {tensor.data_type for tensor in model.graph.initializer if len(tensor.dims)}
    return "float16" if onnx.TensorProto.FLOAT16 in kinds else "float32"


def _inputs(onnx: Any, model: Any) -> dict[str, Any]:
    """Shapes without the batch and dtypes, as a network's record has them."""
    constants = {tensor.name for tensor in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in constants]
    found = {}
    for value in given:
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim][1:]
        if not all(shape) or not kind.shape.dim:
            raise ValueError(f"its input {value.name!r} has axes of no size besides the batch")
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
        found[value.name] = {"shape": shape, "dtype": dtype}
    return {"": found["input"]} if list(found) == ["input"] else found
