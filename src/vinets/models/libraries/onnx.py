"""Networks in ONNX files, converted by onnx2torch and compared with onnxruntime.

A file holds no code. It is read because the user named it, and a record names it by a digest of its
content. What comes out has the layers of the graph for modules: exporters fold the normalisation
of a batch into the convolution before it, and call layers as they like.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets.core.checks import MAX_INPUT_VALUES, first_reason_of
from vinets.core.files import open_regular, read_bytes
from vinets.models.libraries.base import Library, Options, UnnamedFile, import_optional
from vinets.models.libraries.torchvision import import_torchvision

MAX_FILE_BYTES = 1 << 31  # the format allows no more
MAX_DIFFERENCE = 1e-4  # between outputs and those of onnxruntime, relative to the largest
ANY_BATCH = 127  # a prime by which shapes tell that they depend on the size of a batch
DOMAINS = {"", "ai.onnx"}  # where ONNX's own operators are
OWN = "/"  # the domain of layers of this module, which onnx2torch strips off the names
# Left to the file, because batch normalisation and linear layers should stay what they are.
FUSIONS = ["ConvBNFusion", "ConvMulFusion", "ConvAddFusion", "MatMulAddFusion"]
REDUCE: dict[str, Any] = {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax}
NEEDING = "Networks in ONNX files need"

_named: dict[str, nn.Module] = {}  # by the digest of the file
_layers: dict[str, nn.Module] = {}  # by the output of the node, while a graph is converted


class OnnxFile(Library):
    """``path/net.onnx``, which needs the extra ``onnx``."""

    name = "onnx"
    prefix = "FILE.onnx"
    written = "FILE.onnx"
    record_name = re.compile(r"[\w .+-]+\.onnx:[0-9a-f]{16}")  # the name without its folders
    record_form = "FILE.onnx:DIGEST"

    def parse(self, spec: str) -> str | None:
        return use_onnx(spec) if spec.endswith(".onnx") else None

    def check(self, name: str) -> None:
        super().check(name)
        if name.rpartition(":")[2] not in _named:
            raise UnnamedFile(name, self.spec(name))

    def names(self) -> Iterable[str]:
        return ()

    def build(self, name: str, options: Options) -> nn.Module:
        if options:
            raise ValueError("a network in an ONNX file takes no options")
        return copy.deepcopy(_named[name.rpartition(":")[2]])

    def with_classes(self, options: Options, count: int) -> Options:
        return options  # those of its last layer, which is trained

    def spec(self, name: str) -> str:
        return name.rpartition(":")[0]

    def candidates(self, model: nn.Module) -> Iterator[tuple[str | None, Options]]:
        for name in {vars(part).get("vinets_code", "") for part in model.children()} & {*_named}:
            yield f"net.onnx:{name}", {}  # a copy of a graph has no record


def use_onnx(spec: str) -> str:
    """Convert the network in an ONNX file, so that saved networks made of it can be opened.

    Records know it by what is returned, ``"net.onnx:DIGEST"``.
    """
    path = Path(spec).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"{spec} does not exist or is not a file.")
    for package in ("onnx", "onnxscript", "onnxruntime"):
        import_optional(package, NEEDING, "onnx")
    import_torchvision("ONNX files")  # onnx2torch imports it
    import_optional("onnx2torch", NEEDING, "onnx")
    try:
        model, digest = read_onnx(path)
        if digest not in _named:
            _named[digest] = _converted(model, digest)
    except OSError:
        raise
    except Exception as error:  # whatever checker, converter and runtime say about a file
        reason = first_reason_of(error)
        raise ValueError(f"{spec} does not become a network of torch: {reason}.") from None
    return f"{path.name}:{digest}"


def read_onnx(path: Path) -> tuple[Any, str]:
    """Read an ONNX file and the weights that lie in other files of its folder; return a digest."""
    onnx = importlib.import_module("onnx")
    content = read_bytes(path, MAX_FILE_BYTES)
    model, digest = onnx.load_model_from_string(content), hashlib.sha256(content)
    # Bytes left to read of every file, because a few bytes may ask for any amount.
    room: dict[str, int] = {}
    for tensor in _tensors(model):
        if tensor.data_location != tensor.EXTERNAL and not tensor.external_data:
            continue
        facts = {one.key: one.value for one in tensor.external_data}
        name, start = facts.get("location", ""), int(facts.get("offset", 0))
        with open_regular(path.parent / name, inside=path.parent) as file:
            size = os.fstat(file.fileno()).st_size
            length = int(facts.get("length", size - start))
            room[name] = room.get(name, min(size, MAX_FILE_BYTES)) - length
            if min(start, length, room[name]) < 0:
                raise ValueError(f"its tensors ask for more bytes than {name} has")
            file.seek(start)
            tensor.raw_data = file.read(length)
        digest.update(tensor.raw_data)
        del tensor.external_data[:]
        tensor.data_location = tensor.DEFAULT
    return model, digest.hexdigest()[:16]


def inputs_of(graph: Any) -> list[Any]:
    """Return the inputs of a graph, without constants, which older files count among them."""
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def _tensors(message: Any) -> Iterator[Any]:
    """Give the tensors in a protobuf message, at any depth."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in [value] if hasattr(value, "ListFields") else value:
                yield from _tensors(one)


def _converted(model: Any, digest: str) -> nn.Module:
    """Convert a graph, and compare the network with the graph on random inputs."""
    onnx, onnx2torch = importlib.import_module("onnx"), importlib.import_module("onnx2torch")
    onnx.checker.check_model(model, full_check=True)
    if next(one.version for one in model.opset_import if one.domain in DOMAINS) < 13:
        convert = importlib.import_module("onnx.version_converter").convert_version
        model = convert(model, 13)
    content, graph = model.SerializeToString(), model.graph
    inputs = copy.deepcopy(inputs_of(graph))
    batches = {value.type.tensor_type.shape.dim[0].dim_value for value in inputs}
    sizes = [[dim.dim_value for dim in one.type.tensor_type.shape.dim[1:]] for one in inputs]
    if not all(0 < math.prod(size) <= MAX_INPUT_VALUES for size in sizes):
        raise ValueError(f"its inputs must have 1 to {MAX_INPUT_VALUES:,} values, of a fixed shape")
    if batches not in ({0}, {1}):
        raise ValueError("it is made for several inputs at once, and not for one or for any number")
    batch = max(batches) or ANY_BATCH
    for value in inputs_of(graph):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    del graph.output[1:], graph.value_info[:]  # the first output has the logits
    graph.output[0].type.tensor_type.ClearField("shape")
    with tempfile.TemporaryDirectory() as folder:  # works out all that is constant
        start_session(model.SerializeToString(), target=f"{folder}/folded.onnx")
        model = onnx.load(f"{folder}/folded.onnx")
    model = onnx.shape_inference.infer_shapes(model)  # some layers of torch need shapes
    graph = model.graph
    own = {node.domain for node in graph.node} - DOMAINS
    if own:
        raise ValueError(f"it has operators of {', '.join(sorted(own))}, and ONNX has others")
    constants = {one.name: one for one in graph.initializer}
    for node in graph.node:
        layer = _layer(onnx, node, constants, batch)
        if layer is not None:
            _layers[node.output[0]] = layer
            varying = [name for name in node.input if name not in constants]
            name = node.name or node.op_type
            node.CopyFrom(onnx.helper.make_node("Layer", varying, node.output, name, domain=OWN))
    # Read as of today: where an operator did something else before, the comparison shows it.
    del model.opset_import[:]
    model.opset_import.add(domain="", version=onnx.defs.onnx_opset_version())
    model.opset_import.add(domain=OWN, version=1)
    _register_converters()
    named = all(value.name.isidentifier() for value in inputs)
    with torch.random.fork_rng(devices=[]):  # the seed must not move
        network = onnx2torch.convert(model, save_input_names=named)
    weights = getattr(network, "initializers", nn.Module())
    for name, value in [*weights.named_buffers()]:
        if value.is_floating_point() and value.numel() > 1:
            delattr(weights, name)
            weights.register_parameter(name, nn.Parameter(value))
    _compare(network.eval(), content, inputs)
    for part in network.modules():  # every part, because the network may be cut
        vars(part)["vinets_code"] = digest
    return network


def start_session(content: bytes, threads: int = 0, target: str = "") -> Any:
    """Start onnxruntime on a processor; 0 threads are as many as it has.

    It writes what it makes of the graph into the file ``target``.
    """
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors alone; those are raised as well
    more: dict[str, Any] = {"providers": ["CPUExecutionProvider"]}
    if target:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath, more["disabled_optimizers"] = target, FUSIONS
    return runtime.InferenceSession(content, options, **more)


class NumberedFunction(nn.Module):
    """A function with plain numbers, which tracing and exporting know, unlike those in tensors."""

    def __init__(self, function: Callable[..., Any], *numbers: Any) -> None:
        super().__init__()
        self.function, self.numbers = function, numbers

    def forward(self, x: Tensor) -> Any:
        return self.function(x, *self.numbers)


class Token(nn.Module):
    """The same vector before those of every input."""

    def __init__(self, token: Tensor, axis: int) -> None:
        super().__init__()
        self.token, self.axis = nn.Parameter(token), axis

    def forward(self, x: Tensor) -> Tensor:
        token = self.token.expand(x.shape[0], *self.token.shape[1:])
        return torch.cat((token, x), self.axis)


def _reshape(x: Tensor, shape: list[int]) -> Tensor:
    return x.reshape([x.shape[k] if n == 0 else n for k, n in enumerate(shape)])


def _slice(x: Tensor, starts: list[int], ends: list[int], axes: list[int], *steps: Any) -> Tensor:
    for k, axis in enumerate(axes):
        x = torch.ops.aten.slice(x, axis, starts[k], ends[k], *(one[k] for one in steps))
    return x


def _layer(onnx: Any, node: Any, constants: Mapping[str, Any], batch: int) -> nn.Module | None:
    """Return the layer for an operator whose inputs but one are constants, if it is known here."""
    varying = [name for name in node.input if name not in constants]
    place = int(node.op_type == "Concat")  # a token comes before, all else behind
    if len(varying) != 1 or [*node.input[place : place + 1]] != varying:
        return None
    facts = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    arrays = (onnx.numpy_helper.to_array(constants[n]) for n in node.input if n in constants)
    fixed = [torch.tensor(array) for array in arrays]
    numbers = [value.tolist() for value in fixed if not value.is_floating_point()]
    match node.op_type:
        case "Gelu":
            return nn.GELU(facts.get("approximate", b"none").decode())
        case "Reshape":  # what depends on the size of the batch is left open
            free = 0 if -1 in numbers[0] else -1
            size = [
                free if n and (n % batch == 0 if batch > 1 else n == 1 and k == 0) else n
                for k, n in enumerate(numbers[0])
            ]
            return NumberedFunction(_reshape, size)
        case "Slice" if len(numbers) > 2:
            return NumberedFunction(_slice, *numbers)
        case "Split" if numbers:
            return NumberedFunction(torch.split, numbers[0], facts.get("axis", 0))
        case "Squeeze" if numbers:
            return NumberedFunction(torch.squeeze, tuple(numbers[0]))
        case "ReduceMean" | "ReduceSum" | "ReduceMax" if numbers or "axes" in facts:
            axes = numbers[0] if numbers else facts["axes"]
            keep = bool(facts.get("keepdims", 1))
            return NumberedFunction(REDUCE[node.op_type], tuple(axes), keep)
        case "MatMul" if fixed and fixed[0].ndim == 2:
            layer = nn.Linear(fixed[0].shape[0], fixed[0].shape[1], bias=False)
            layer.weight = nn.Parameter(fixed[0].T.contiguous())
            return layer
        case "Concat" if fixed and fixed[0].ndim > 1 and len(fixed[0]) == batch:
            return Token(fixed[0][:1].clone(), facts["axis"])
    return None


@cache
def _register_converters() -> None:
    """Let onnx2torch take our layers, and newer versions of operators like those it knows."""
    registry = importlib.import_module("onnx2torch.node_converters.registry")
    common = importlib.import_module("onnx2torch.utils.common")

    def take(node: Any, graph: Any) -> Any:
        layer = _layers.pop(node.output_values[0])
        return common.OperationConverterResult(layer, common.onnx_mapping_from_node(node))

    registry.add_converter("Layer", 1, OWN)(take)
    schemas = importlib.import_module("onnx").defs.get_all_schemas_with_history()
    known: dict[str, Any] = {}
    for one in sorted(schemas, key=lambda one: one.since_version):
        try:
            known[one.name] = registry.get_converter(one.name, one.since_version, one.domain)
        except NotImplementedError:
            if one.name in known and not one.domain:
                registry.add_converter(one.name, one.since_version)(known[one.name])


def _compare(network: nn.Module, content: bytes, inputs: list[Any]) -> None:
    """Raise unless the network gives for three inputs at once what the file gives for each."""
    helper = importlib.import_module("onnx").helper
    generator, arrays = torch.Generator().manual_seed(0), {}
    for value in inputs:
        kind = value.type.tensor_type
        drawn = torch.randn(3, *(dim.dim_value for dim in kind.shape.dim[1:]), generator=generator)
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        arrays[value.name] = (drawn if dtype.kind == "f" else drawn > 0).numpy().astype(dtype)
    run, outputs = start_session(content).run, None
    each = ({name: some[k : k + 1] for name, some in arrays.items()} for k in range(3))
    wanted = torch.cat([torch.from_numpy(run(None, one)[0]) for one in each])
    with torch.no_grad(), suppress(RuntimeError, IndexError):  # what layers raise about shapes
        outputs = network(*map(torch.from_numpy, arrays.values()))
    if outputs is None or outputs.shape != wanted.shape:
        raise ValueError("it takes one input at a time; export it with a batch of any size")
    difference = float((outputs - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30))
    if not difference <= MAX_DIFFERENCE:
        raise ValueError(
            f"on random inputs it differs from onnxruntime by {difference:.1e} of the largest "
            f"output, and {MAX_DIFFERENCE:.0e} is allowed"
        )
