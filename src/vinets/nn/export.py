"""Networks for other runtimes: ONNX files and programs of :mod:`torch.export`.

A file is run before it is kept: its logits have to agree with those of the network, at several
batch sizes, or nothing is left on the disk.
"""

from __future__ import annotations

import copy
import importlib
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from vinets.checks import one_of, optional_positive_int, parameter_error
from vinets.latent.cut import StoppedNetwork
from vinets.latent.reader import first_tensor
from vinets.nn.network import CutNetwork, example_inputs

__all__ = ["FORMATS", "ExportReport", "export_network"]

FORMATS = ("onnx", "torch")
SUFFIXES = {".onnx": "onnx", ".pt2": "torch"}
TOLERANCE = 1e-4  # of the largest logit; float32 in another order of summation stays far below
PACKAGES = ("onnx", "onnxscript", "onnxruntime")
LOGGERS = ("torch.export", "torch.onnx", "onnxscript", "onnx_ir")

Runner = Callable[[tuple[Tensor, ...]], Tensor]


@dataclass(frozen=True)
class ExportReport:
    """A file that was written, and how well it agrees with the network.

    Attributes
    ----------
    path : Path
        The file.
    format : {"onnx", "torch"}
        What it is.
    size : int
        Its length in bytes.
    largest_difference : float
        Largest difference between its logits and those of the network on random inputs, relative
        to the largest logit.
    batch_sizes : tuple of int
        Sizes of the batches that were compared.
    opset : int or None
        Version of the ONNX operators; None for ``"torch"``.
    """

    path: Path
    format: str
    size: int
    largest_difference: float
    batch_sizes: tuple[int, ...]
    opset: int | None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        values = asdict(self) | {"path": str(self.path)}
        return values | {"batch_sizes": list(self.batch_sizes)}


def export_network(
    network: CutNetwork,
    path: str | Path,
    *,
    format: str | None = None,
    opset: int | None = None,
    batch_sizes: Sequence[int] = (1, 2, 7),
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> ExportReport:
    """Fold ``network`` and write it to one file that takes batches of any size.

    The inputs keep their names and their order; a single tensor is called ``input``, and the
    output ``logits``. The file also holds the names of the classes and the preprocessing, as JSON:
    in the metadata of an ONNX file, or in the extra file ``metadata.json`` of a program.

    Parameters
    ----------
    network : CutNetwork
        It is not changed, and may lie on any device.
    path : path
        The file, replaced if it exists.
    format : {"onnx", "torch"} or None, default=None
        ``"torch"`` is for :func:`torch.export.load`; the program takes its inputs by position.
        None goes by the suffix, ``.onnx`` or ``.pt2``.
    opset : int or None, default=None
        Version of the ONNX operators; None is the exporter's own choice.
    batch_sizes : sequence of int, default=(1, 2, 7)
        Batches of random inputs on which file and network are compared.
    device : str, default="cpu"
        Where the network runs for the comparison; the file runs on the CPU.
    seed : int, default=0
        Of the random inputs.

    Returns
    -------
    ExportReport

    Raises
    ------
    ValueError
        If the network cannot be exported, or the file computes something else.
    """
    if not isinstance(network, CutNetwork):
        raise parameter_error("export_network", "network", "a CutNetwork", type(network).__name__)
    target, kind = Path(path), _format(Path(path), format)
    sizes = _sizes(batch_sizes)
    optional_positive_int("export_network", "opset", opset)
    if kind == "torch" and opset is not None:
        raise parameter_error("export_network", "opset", "None unless the format is onnx", opset)
    if target.is_dir():
        raise parameter_error("export_network", "path", "the name of a file", str(path))
    if kind == "onnx":
        _packages()
    plain = copy.deepcopy(network.folded()).cpu().eval()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as folder, _quiet():
        made = Path(folder) / f"network{'.onnx' if kind == 'onnx' else '.pt2'}"
        try:
            version = (_write_onnx if kind == "onnx" else _write_program)(plain, made, opset)
            run = (_run_onnx if kind == "onnx" else _run_program)(made)
            reference = plain if str(device) == "cpu" else copy.deepcopy(plain).to(device)
            difference = max(_difference(reference, run, size, device, seed) for size in sizes)
        except Exception as error:  # exporters raise whatever comes to their minds
            raise _failed(kind, error) from error
        if not difference <= TOLERANCE:  # also catches NaN
            raise ValueError(
                f"The exported network differs from the network by {difference:.2g} of the largest "
                f"logit, more than {TOLERANCE:g}. Nothing was written."
            )
        report = ExportReport(target, kind, made.stat().st_size, difference, sizes, version)
        os.replace(made, target)
    return report


# --- writing ----------------------------------------------------------------------------------


def _write_program(network: CutNetwork, path: Path, opset: int | None) -> None:
    metadata = {"metadata.json": json.dumps(_metadata(network))}
    torch.export.save(_program(network), str(path), extra_files=metadata)


def _write_onnx(network: CutNetwork, path: Path, opset: int | None) -> int:
    names = [name or "input" for name in network.record.inputs]
    onnx = torch.onnx.export(
        _program(network),
        input_names=names,
        output_names=["logits"],
        opset_version=opset,
        dynamo=True,
        verbose=False,
    )
    assert onnx is not None  # only the old exporter returns nothing
    onnx.model.metadata_props.update({k: json.dumps(v) for k, v in _metadata(network).items()})
    onnx.save(str(path), external_data=False)
    return int(onnx.model.opset_imports[""])


def _metadata(network: CutNetwork) -> dict[str, Any]:
    record = network.record
    return {"classes": list(record.classes), "preprocessing": record.preprocessing}


def _program(network: CutNetwork) -> torch.export.ExportedProgram:
    """The network as a graph of tensor operations, its inputs by position, of any batch size."""
    inputs = _by_position(example_inputs(network.record.inputs, batch=2))  # 1 would be specialised
    with torch.no_grad():
        module = _Positional(network, inputs).eval()
        batch = torch.export.Dim("batch")
        shapes = (tuple({0: batch} for _ in inputs),)  # one argument, *inputs
        return torch.export.export(module, inputs, dynamic_shapes=shapes, strict=False)


class _Positional(nn.Module):
    """The network as a function of tensors."""

    def __init__(self, network: CutNetwork, inputs: tuple[Tensor, ...]) -> None:
        super().__init__()
        self.backbone: nn.Module = _Backbone(network.backbone, tuple(network.record.inputs))
        if isinstance(network.backbone, StoppedNetwork):
            self.backbone = _recorded(self.backbone, inputs)
        self.reader, self.head = network.reader, network.head

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.head(self.reader(self.backbone(*inputs)))


class _Backbone(nn.Module):
    """The backbone as a function of tensors, given in the order of their ``names``."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Tensor) -> Tensor:
        if self.names == ("",):
            return first_tensor(self.model(*inputs))
        return first_tensor(self.model(**dict(zip(self.names, inputs, strict=True))))


def _recorded(backbone: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    """The operations of one pass, for a backbone whose pass is ended by an exception.

    Exporters keep a stack of the modules that they are in, and would lose count.
    """
    trace = make_fx(
        backbone,
        tracing_mode="symbolic",
        pre_dispatch=True,  # whole operators, such as attention
        _allow_non_fake_inputs=True,  # the weights
    )
    return trace(*inputs)


# --- checking ---------------------------------------------------------------------------------


def _run_program(path: Path) -> Runner:
    module = torch.export.load(str(path)).module()
    return lambda inputs: module(*inputs)


def _run_onnx(path: Path) -> Runner:
    runtime = importlib.import_module("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [given.name for given in session.get_inputs()]

    def run(inputs: tuple[Tensor, ...]) -> Tensor:
        values = {name: t.numpy() for name, t in zip(names, inputs, strict=True)}
        return torch.from_numpy(session.run(["logits"], values)[0])

    return run


@torch.no_grad()
def _difference(
    network: CutNetwork, run: Runner, size: int, device: torch.device | str, seed: int
) -> float:
    """Largest difference of the logits on a random batch, relative to the largest logit."""
    zeros = example_inputs(network.record.inputs, batch=size)
    generator = torch.Generator().manual_seed(seed + size)
    inputs = tuple(_random(t, generator) for t in _by_position(zeros))
    there = [t.to(device) for t in inputs]
    if isinstance(zeros, Tensor):
        expected = network(*there).cpu()
    else:
        expected = network(**dict(zip(zeros, there, strict=True))).cpu()
    got = run(inputs)
    if got.shape != expected.shape:
        raise ValueError(f"its logits have shape {tuple(got.shape)}, not {tuple(expected.shape)}")
    scale = expected.abs().max().clamp_min(torch.finfo(expected.dtype).tiny)
    return float((got - expected).abs().max() / scale)


def _random(like: Tensor, generator: torch.Generator) -> Tensor:
    """Normal numbers; integers are 0 or 1, which suits identifiers and masks alike."""
    if like.is_floating_point():
        return torch.randn(like.shape, generator=generator).to(like.dtype)
    values = torch.randint(2, like.shape, generator=generator)
    values[(slice(None),) + (0,) * (like.ndim - 1)] = 1  # a mask that hides all means nothing
    return values.to(like.dtype)


# --- the rest ---------------------------------------------------------------------------------


def _by_position(inputs: Tensor | dict[str, Tensor]) -> tuple[Tensor, ...]:
    return (inputs,) if isinstance(inputs, Tensor) else tuple(inputs.values())


def _format(path: Path, format: str | None) -> str:
    if format is not None:
        return one_of("export_network", "format", format, FORMATS)
    if path.suffix.lower() not in SUFFIXES:
        accepted = "a file name that ends in .onnx or .pt2"
        remedy = "Other names need format='onnx' or format='torch'."
        raise parameter_error("export_network", "path", accepted, str(path), remedy)
    return SUFFIXES[path.suffix.lower()]


def _sizes(batch_sizes: Sequence[int]) -> tuple[int, ...]:
    accepted = "a sequence of positive integers"
    if isinstance(batch_sizes, str) or not isinstance(batch_sizes, Sequence) or not batch_sizes:
        raise parameter_error("export_network", "batch_sizes", accepted, batch_sizes)
    if not all(type(size) is int and size > 0 for size in batch_sizes):
        raise parameter_error("export_network", "batch_sizes", accepted, batch_sizes)
    return tuple(batch_sizes)


def _packages() -> None:
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f"Export to ONNX needs {error.name}, which is not installed. "
                'Install it with: pip install "vinets[onnx]".'
            ) from None


def _failed(kind: str, error: BaseException) -> ValueError:
    cause = error
    while cause.__cause__ is not None:  # exporters wrap what went wrong in advice
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    reason = lines[0].rstrip(".") if lines else type(cause).__name__
    name = "ONNX" if kind == "onnx" else "torch.export"
    return ValueError(f"The network could not be exported to {name}: {reason}.")


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings and no messages of the exporters: what matters is checked."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
