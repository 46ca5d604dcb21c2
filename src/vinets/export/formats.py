"""The files that networks are exported to: programs of torch, and ONNX in three precisions."""

from __future__ import annotations

import copy
import importlib
import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from vinets.core.checks import first_reason_of
from vinets.core.device import tensors_of
from vinets.latent.cut import StoppedNetwork
from vinets.latent.reader import first_tensor
from vinets.models.libraries.onnx import inputs_of, read_onnx, start_session
from vinets.models.origin import example_inputs
from vinets.networks.network import CutNetwork
from vinets.networks.runtimes import ExportedNetwork, ExportFormat, Network, Runner

BATCH = "batch"


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
        exported = torch.onnx.export(
            program_of(network),
            input_names=names,
            output_names=["logits"],
            dynamic_shapes=(tuple({0: BATCH} for _ in names),),  # only names, the graph is made
            opset_version=opset,
            dynamo=True,
            verbose=False,
        )
        assert exported is not None  # only the old exporter returns nothing
        model = exported.model_proto
        graph = model.graph
        _name_batch(graph)
        _keep_zeros(onnx, graph)
        # Drop what the exporter notes down: lines and paths of the code that made the network.
        functions = [node for function in model.functions for node in function.node]
        tensors = (*graph.input, *graph.output, *graph.value_info, *graph.initializer)
        for one in (graph, *graph.node, *functions, *model.functions, *tensors):
            one.doc_string = ""
            del one.metadata_props[:]
        notes = {key: json.dumps(value) for key, value in metadata_of(network).items()}
        onnx.helper.set_model_props(model, notes)
        onnx.save(model, str(path))
        return next(int(one.version) for one in model.opset_import if one.domain == "")

    def runner(self, path: Path) -> Runner:
        return _runner(path.read_bytes(), torch.get_num_threads())

    def open(self, path: Path) -> ExportedNetwork:
        onnx = importlib.import_module("onnx")
        try:
            # The runtime would read any file that is named there, from the folder it runs in.
            model = read_onnx(path)[0]
            content = model.SerializeToString()
            # In which numbers most of the file computes.
            kinds = {tensor.data_type for tensor in model.graph.initializer if len(tensor.dims)}
            precision = "float16" if onnx.TensorProto.FLOAT16 in kinds else "float32"
            if any(node.op_type == "DequantizeLinear" for node in model.graph.node):
                precision = "int8"
            return ExportedNetwork(
                "onnxruntime",
                precision,
                _inputs(onnx, model.graph),
                {one.key: one.value for one in model.metadata_props},
                len(content),
                lambda threads: _runner(content, threads),
            )
        except Exception as error:  # whatever protobuf and the runtime say about a broken file
            raise ValueError(f"{path} cannot be run: {first_reason_of(error)}.") from None


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


class OnnxInt8(Onnx):
    """Static quantisation by onnxruntime, as pairs of QuantizeLinear and DequantizeLinear.

    Weights are int8 with a scale for each output channel, activations uint8 with the range that
    they have on the examples. Inputs and logits stay float32. Products of values are taken in
    float32 and not rounded from one factor to the next, because that would add up.
    """

    name = "onnx-int8"
    title = "ONNX in int8"
    precision = "int8"
    calibrated = True

    def write(self, network: Network, path: Path, opset: int | None) -> int:
        tools: Any = importlib.import_module("onnxruntime.quantization")
        names = [name or "input" for name in network.record.inputs]
        batches = (map(Tensor.numpy, tensors) for tensors in self.examples)
        feeds = (dict(zip(names, arrays, strict=True)) for arrays in batches)
        reader: Any = tools.CalibrationDataReader

        class Reader(reader):
            def get_next(self) -> dict[str, Any] | None:
                return next(feeds, None)

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


# --- graphs of torch --------------------------------------------------------------------------


def metadata_of(network: Network) -> dict[str, Any]:
    """Return what a file should tell about the network, for JSON; its training ``data``, too."""
    told = {name: getattr(network.record, name) for name in ("classes", "preprocessing", "data")}
    return told | {"writer": "vinets"}


def program_of(network: Network) -> torch.export.ExportedProgram:
    """Return the network as a graph, its inputs by position, of any batch size."""
    # Two examples, because a batch of one would be taken for a constant.
    inputs = tuple(tensors_of(example_inputs(network.record.inputs, batch=2)))
    names = tuple(network.record.inputs)
    # A copy, because networks with caches keep what is computed in them, such as symbolic tensors.
    network = copy.deepcopy(network)
    with torch.no_grad(), _attention_of_four_axes():
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


@contextmanager
def _attention_of_four_axes() -> Iterator[None]:
    """Join leading axes in attention, of which ONNX takes two; windows and groups are a third."""
    attention: Any = functional.scaled_dot_product_attention

    def joined(query: Tensor, key: Tensor, value: Tensor, *how: Any, **named: Any) -> Tensor:
        masked = any(argument is not None for argument in (*how[:1], named.get("attn_mask")))
        if query.ndim <= 4 or masked or key.shape[:-2] != query.shape[:-2]:
            return attention(query, key, value, *how, **named)
        parts = (tensor.flatten(0, -4) for tensor in (query, key, value))
        return attention(*parts, *how, **named).unflatten(0, query.shape[:-3])

    functional.scaled_dot_product_attention = joined
    try:
        yield
    finally:
        functional.scaled_dot_product_attention = attention


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


# --- graphs of ONNX ---------------------------------------------------------------------------


def _runner(content: bytes, threads: int) -> Runner:
    session = start_session(content, threads)
    required = [end.name for end in session.get_inputs()]
    first = session.get_outputs()[0].name

    def run(inputs: tuple[Tensor, ...]) -> Tensor:
        values = {name: t.numpy() for name, t in zip(required, inputs, strict=True)}
        try:
            return torch.from_numpy(session.run([first], values)[0])
        except Exception as error:  # its errors are of no common class
            raise RuntimeError(str(error)) from None

    return run


def _keep_zeros(onnx: Any, graph: Any) -> None:
    """Let maxima see the zeros of a padding before them.

    onnxruntime joins both into one operator, whose padding is no value at all, unless the padding
    differs from 0: by the smallest number that is one in float16, too.
    """
    known = {one.name: one for one in graph.initializer}
    pads = {node.output[0]: node for node in graph.node if node.op_type == "Pad"}
    for node in graph.node:
        pad = pads.get(node.input[0]) if node.op_type == "MaxPool" else None
        if pad is None or len(pad.input) < 3 or pad.input[2] not in known:
            continue
        value = onnx.numpy_helper.to_array(known[pad.input[2]])
        if not value.any():
            name, tiny = f"{pad.output[0]}_value", (value + 2.0**-24).astype(value.dtype)
            graph.initializer.append(onnx.numpy_helper.from_array(tiny, name))
            pad.input[2] = name


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


def _inputs(onnx: Any, graph: Any) -> dict[str, Any]:
    """Return shapes without the batch and dtypes, as a network's record has them."""
    inputs = {}
    for value in inputs_of(graph):
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim][1:]
        if not all(shape) or not kind.shape.dim:
            raise ValueError(f"its input {value.name!r} has axes of no size besides the batch")
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
        inputs[value.name] = {"shape": shape, "dtype": dtype}
    return {"": inputs["input"]} if list(inputs) == ["input"] else inputs
