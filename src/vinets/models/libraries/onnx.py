"""Networks in ONNX files, converted by onnx2torch and compared with onnxruntime.

A file holds no code. It is read because the user named it, and a record names it by a digest of its
content. What comes out has the layers of the graph for modules: exporters fold the normalisation
of a batch into the convolution before it, and call layers as they like.
"""

from __future__ import annotations

import copy
import hashlib
import importlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vinets.core.checks import parameter_error, reason_of
from vinets.core.files import open_regular, read_bytes
from vinets.models.libraries.base import Library, Options, UnnamedFile, import_optional
from vinets.models.libraries.torchvision import import_torchvision

MAX_FILE_BYTES = 1 << 31  # the format allows no more
MAX_DIFFERENCE = 1e-4  # of the outputs from those of onnxruntime, relative to the largest
RECORD_NAME = re.compile(r"[\w .+-]+\.onnx:([0-9a-f]{16})")  # a name without folders, and a digest
ANY_BATCH = 127  # a prime by which shapes tell that they depend on the size of a batch
PROVIDERS: dict[str, Any] = {"providers": ["CPUExecutionProvider"]}
# Left out, because a batch normalisation and a linear layer should stay what they are.
FUSIONS = ["ConvBNFusion", "ConvMulFusion", "ConvAddFusion", "MatMulAddFusion"]
NEEDING = "Networks in ONNX files need"

_named: dict[str, nn.Module] = {}  # by the digest of the file


class OnnxFile(Library):
    """``path/net.onnx``, which needs the extras ``onnx`` and ``vision``."""

    name = "onnx"
    prefix = "FILE.onnx"
    written = "FILE.onnx"

    def parse(self, spec: str) -> str | None:
        return use_onnx(spec) if spec.endswith(".onnx") else None

    def check(self, name: str) -> None:
        written = RECORD_NAME.fullmatch(name)
        if written is None:
            raise parameter_error(
                "rebuild", "source", "a record whose name is FILE.onnx:DIGEST", repr(name[:80])
            )
        if written[1] not in _named:
            raise UnnamedFile(name)

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

    Returns
    -------
    str
        ``"net.onnx:DIGEST"``, by which records know it.
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
        lines = str(error).strip().splitlines()
        reason = reason_of(lines[0] if lines else type(error).__name__)
        raise ValueError(f"{spec} does not become a network of torch: {reason}.") from None
    return f"{path.name}:{digest}"


def read_onnx(path: Path) -> tuple[Any, str]:
    """Read an ONNX file and the weights that lie in other files of its folder; return a digest."""
    onnx = importlib.import_module("onnx")
    content = read_bytes(path, MAX_FILE_BYTES)
    model, digest = onnx.load_model_from_string(content), hashlib.sha256(content)
    room: dict[
        str, int
    ] = {}  # bytes left to read of every file: a few bytes may ask for any amount
    for tensor in _messages(model):
        if not isinstance(tensor, onnx.TensorProto):
            continue
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


def _messages(message: Any) -> Iterator[Any]:
    """Give a protobuf message and all inside of it."""
    waiting = [message]
    while waiting:
        one = waiting.pop()
        yield one
        for field, value in one.ListFields():
            if field.message_type is not None:
                waiting.extend([value] if hasattr(value, "ListFields") else value)


def _converted(model: Any, digest: str) -> nn.Module:
    """Convert a graph, and compare the network with the graph on random inputs."""
    onnx, converter = importlib.import_module("onnx"), importlib.import_module("onnx2torch")
    _teach_versions()
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString()
    inputs = _inputs(model.graph)
    batches = {value.type.tensor_type.shape.dim[0].dim_value for value in inputs}
    if batches - {0, 1} or len(batches) > 1:
        raise ValueError(f"it is made for {max(batches)} inputs at once, and one or any is wanted")
    batch = 1 if batches == {1} else ANY_BATCH
    graph = _folded(onnx, model, inputs, batch)
    inputs = _inputs(graph)
    own = {node.domain for node in graph.node} - {"", "ai.onnx"}
    if own:
        raise ValueError(f"it has operators of {', '.join(sorted(own))}, and ONNX has others")
    fixed = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        graph.initializer.extend(_simplify(onnx, node, fixed, batch))
    for value in inputs:
        value.type.tensor_type.shape.dim[0].dim_param = "batch"
    names = all(value.name.isidentifier() for value in inputs)
    with torch.random.fork_rng(devices=[]):  # the seed must not move
        network = converter.convert(model, save_input_names=names)
        _finish(network)
        _compare(network.eval(), content, inputs)
    for part in network.modules():  # every part, because the network may be cut
        vars(part)["vinets_code"] = digest
    return network


def _inputs(graph: Any) -> list[Any]:
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def _options(runtime: Any) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors alone; those are raised as well
    return options


def _folded(onnx: Any, model: Any, inputs: list[Any], batch: int) -> Any:
    """Let onnxruntime work out all that is constant for one size of a batch; return the graph."""
    del model.graph.output[1:], model.graph.value_info[:]  # the first output has the logits
    model.graph.output[0].type.tensor_type.ClearField("shape")
    for value in inputs:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    runtime = importlib.import_module("onnxruntime")
    options = _options(runtime)
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/folded.onnx"
        runtime.InferenceSession(
            model.SerializeToString(), options, **PROVIDERS, disabled_optimizers=FUSIONS
        )
        model.CopyFrom(onnx.load(options.optimized_model_filepath))
    del model.graph.value_info[:]
    return model.graph


@cache
def _teach_versions() -> None:
    """Let onnx2torch read newer versions of its operators like those that it knows, and GELU.

    What they do otherwise shows in the comparison.
    """
    registry = importlib.import_module("onnx2torch.node_converters.registry")
    common = importlib.import_module("onnx2torch.utils.common")

    @registry.add_converter("Gelu", 20)
    def gelu(node: Any, graph: Any) -> Any:
        layer = nn.GELU(node.attributes.get("approximate", "none"))
        return common.OperationConverterResult(layer, common.onnx_mapping_from_node(node))

    schemas = importlib.import_module("onnx").defs.get_all_schemas_with_history()
    known: dict[str, Any] = {}
    for schema in sorted(schemas, key=lambda one: one.since_version):
        if schema.domain:
            continue
        try:
            known[schema.name] = registry.get_converter(schema.name, schema.since_version)
        except NotImplementedError:
            if schema.name in known:
                registry.add_converter(schema.name, schema.since_version)(known[schema.name])


def _simplify(onnx: Any, node: Any, constants: Mapping[str, Any], batch: int) -> list[Any]:
    """Write a node as onnx2torch reads it; return new constants, of shapes for any batch."""
    fixed = constants.get(node.input[1]) if len(node.input) > 1 else None
    values = [] if fixed is None else onnx.numpy_helper.to_array(fixed)
    if node.op_type == "Reshape":
        kept = [one for one in node.attribute if one.name != "allowzero"]  # no axis has size zero
        del node.attribute[:]
        node.attribute.extend(kept)
        wanted = [*values]
        for k in [
            k
            for k, n in enumerate(wanted)
            if (n == 1 and k == 0 if batch == 1 else n and n % batch == 0)
        ]:
            wanted[k] = 0 if -1 in wanted else -1
        node.input[1] = f"{node.output[0]} shape"  # other nodes may share the constant
        return [onnx.numpy_helper.from_array(np.array(wanted, dtype=np.int64), node.input[1])]
    if re.fullmatch("Reduce(?!Sum$).+", node.op_type) and fixed is not None:
        node.attribute.append(onnx.helper.make_attribute("axes", values.tolist()))
        del node.input[1:]
    return []


class Fixed(nn.Module):
    """A function with plain numbers, which tracing and exporting know, unlike those in tensors."""

    def __init__(self, function: Callable[..., Any], *numbers: Any) -> None:
        super().__init__()
        self.function, self.numbers = function, numbers

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(*inputs, *self.numbers)


def _reshape(x: Tensor, shape: list[int]) -> Tensor:
    return x.reshape([x.shape[k] if n == 0 else n for k, n in enumerate(shape)])


def _slice(x: Tensor, starts: list[int], ends: list[int], axes: list[int], *steps: Any) -> Tensor:
    for k, axis in enumerate(axes):
        x = torch.ops.aten.slice(x, axis, starts[k], ends[k], *(one[k] for one in steps))
    return x


def _put_before(token: Tensor, x: Tensor, axis: int, others: int) -> Tensor:
    """Put the same token before those of every input; it has so many axes besides the batch."""
    return torch.cat((token.expand(x.shape[0], *[-1] * others), x), axis)


def _finish(network: Any) -> None:
    """Give layers plain numbers, make linear ones of products, and parameters of all weights."""
    network.graph.eliminate_dead_code()
    for node in [one for one in network.graph.nodes if one.op == "call_module"]:
        layer, given = network.get_submodule(node.target), node.args[1:]
        kind = type(layer).__name__
        if kind == "OnnxConcat" and node.args[0].op == "get_attr" and len(given) == 1:
            owner, _, own = node.args[0].target.rpartition(".")
            token = getattr(network.get_submodule(owner), own)
            setattr(network.get_submodule(owner), own, token[:1])  # it was repeated for a batch
            setattr(network, node.target, Fixed(_put_before, layer.axis, token.ndim - 1))
        if node.kwargs or not given or any(one.op != "get_attr" for one in given):
            continue
        values = [network.get_buffer(one.target) for one in given]
        if kind == "OnnxReshape":
            layer = Fixed(_reshape, values[0].tolist())
        elif kind == "OnnxSlice" and len(values) > 2:
            layer = Fixed(_slice, *(value.tolist() for value in values))
        elif kind == "OnnxSqueezeDynamicAxes":
            layer = Fixed(torch.squeeze, tuple(values[0].tolist()))
        elif kind == "OnnxSplit13":
            layer = Fixed(torch.split, values[0].tolist(), layer.axis)
        elif kind == "OnnxMatMul" and values[0].ndim == 2:
            layer = nn.Linear(*values[0].shape, bias=False)
            layer.weight = nn.Parameter(values[0].T.contiguous())
        else:
            continue
        setattr(network, node.target, layer)
        node.args = node.args[:1]
    network.graph.eliminate_dead_code()
    network.delete_all_unused_submodules()
    network.recompile()
    used = {node.target for node in network.graph.nodes if node.op == "get_attr"}
    for name, value in [*network.named_buffers()]:
        owner, _, own = name.rpartition(".")
        if owner == "initializers":
            weight = value.is_floating_point() and value.numel() > 1
            delattr(network.initializers, own)
            if name in used and weight:
                network.initializers.register_parameter(own, nn.Parameter(value))
            elif name in used:
                network.initializers.register_buffer(own, value)


def _compare(network: nn.Module, content: bytes, inputs: list[Any]) -> None:
    """Raise unless the network gives for three inputs at once what the file gives for each."""
    runtime, onnx = importlib.import_module("onnxruntime"), importlib.import_module("onnx")
    session = runtime.InferenceSession(content, _options(runtime), **PROVIDERS)
    generator, given = torch.Generator().manual_seed(0), {}
    for value in inputs:
        kind = value.type.tensor_type
        drawn = torch.randn(3, *(dim.dim_value for dim in kind.shape.dim[1:]), generator=generator)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        given[value.name] = (drawn if dtype.kind == "f" else drawn > 0).numpy().astype(dtype)
    each = ({name: some[k : k + 1] for name, some in given.items()} for k in range(3))
    wanted = torch.cat([torch.from_numpy(session.run(None, one)[0]) for one in each])
    with torch.no_grad():
        got = network(*(torch.from_numpy(value) for value in given.values()))
    if got.shape != wanted.shape:
        raise ValueError(f"three inputs give {tuple(got.shape)}, and should give three outputs")
    difference = float((got - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30))
    if not difference <= MAX_DIFFERENCE:
        raise ValueError(
            f"on random inputs it differs from onnxruntime by {difference:.1e} of the largest "
            f"output, and at most {MAX_DIFFERENCE:.0e} is right"
        )
