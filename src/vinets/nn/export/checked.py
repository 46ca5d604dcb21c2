"""Write a network for another runtime, and keep the file only if it computes the same."""

from __future__ import annotations

import copy
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vinets.checks import one_of, optional_positive_int, parameter_error
from vinets.nn.export.formats import EXPORT_FORMATS, ExportFormat, Runner, suffixes
from vinets.nn.network import CutNetwork, example_inputs
from vinets.plain import as_plain
from vinets.running import call, each, tensors_of

TOLERANCE = 1e-4  # of the largest logit; float32 in another order of summation stays far below
LOGGERS = ("torch.export", "torch.onnx", "onnxscript", "onnx_ir")


@dataclass(frozen=True)
class ExportReport:
    """A file that was written, and how well it agrees with the network."""

    path: Path
    format: str  # a key of EXPORT_FORMATS
    size: int  # in bytes
    largest_difference: float  # of the logits on random inputs, relative to the largest logit
    batch_sizes: tuple[int, ...]  # that were compared
    opset: int | None  # version of the operators, where the format has versions

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return dict(as_plain(self))


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

    A file that exists is replaced. ValueError is raised if the network cannot be exported, or the
    file computes something else; then nothing is written.

    Parameters
    ----------
    format : str or None, default=None
        A name of :data:`EXPORT_FORMATS`: ``"onnx"``, or ``"torch"`` for :func:`torch.export.load`,
        whose program takes its inputs by position. None goes by the suffix, ``.onnx`` or ``.pt2``.
    opset : int or None, default=None
        Version of the ONNX operators; None is the exporter's own choice.
    batch_sizes : sequence of int, default=(1, 2, 7)
        Batches of random inputs on which file and network are compared.
    device : str, default="cpu"
        Where the network runs for the comparison; the file runs on the CPU.
    """
    if not isinstance(network, CutNetwork):
        raise parameter_error("export_network", "network", "a CutNetwork", type(network).__name__)
    target, kind = Path(path), _format(Path(path), format)
    sizes = tuple(batch_sizes) if isinstance(batch_sizes, Sequence) else ()
    if not sizes or not all(type(size) is int and size > 0 for size in sizes):
        accepted = "a sequence of positive integers"
        raise parameter_error("export_network", "batch_sizes", accepted, batch_sizes)
    optional_positive_int("export_network", "opset", opset)
    if opset is not None and not kind.takes_opset:
        some = " or ".join(sorted(name for name, f in EXPORT_FORMATS.items() if f.takes_opset))
        raise parameter_error("export_network", "opset", f"None unless the format is {some}", opset)
    if target.is_dir():
        raise parameter_error("export_network", "path", "the name of a file", str(path))
    kind.require()
    # A copy, since folding shares the backbone, and moving it to the CPU would move the network's.
    plain = copy.deepcopy(network.folded()).cpu().eval()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, for a file can be renamed into place on the same file system only.
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as folder, _quiet():
        made = Path(folder) / f"network{kind.suffix}"
        try:
            version = kind.write(plain, made, opset)
            run = kind.runner(made)
            reference = plain if str(device) == "cpu" else copy.deepcopy(plain).to(device)
            difference = max(_difference(reference, run, size, device, seed) for size in sizes)
        except Exception as error:  # exporters raise whatever comes to their minds
            raise _failed(kind, error) from error
        if not difference <= TOLERANCE:  # also catches NaN
            raise ValueError(
                f"The exported network differs from the network by {difference:.2g} of the largest "
                f"logit, more than {TOLERANCE:g}. Nothing was written."
            )
        report = ExportReport(target, kind.name, made.stat().st_size, difference, sizes, version)
        os.replace(made, target)
    return report


@torch.no_grad()
def _difference(
    network: CutNetwork, run: Runner, size: int, device: torch.device | str, seed: int
) -> float:
    """Largest difference of the logits on a random batch, relative to the largest logit."""
    generator = torch.Generator().manual_seed(seed + size)

    def drawn(like: Tensor) -> Tensor:
        if like.is_floating_point():
            return torch.randn(like.shape, generator=generator).to(like.dtype)
        # 0 or 1 suits identifiers and masks alike; a mask that hides all means nothing.
        values = torch.randint(2, like.shape, generator=generator)
        values[(slice(None),) + (0,) * (like.ndim - 1)] = 1
        return values.to(like.dtype)

    inputs = each(example_inputs(network.record.inputs, batch=size), drawn)
    expected = call(network, each(inputs, lambda tensor: tensor.to(device))).cpu()
    got = run(tuple(tensors_of(inputs)))
    if got.shape != expected.shape:
        raise ValueError(f"its logits have shape {tuple(got.shape)}, not {tuple(expected.shape)}")
    scale = expected.abs().max().clamp_min(torch.finfo(expected.dtype).tiny)
    return float((got - expected).abs().max() / scale)


def _format(path: Path, format: str | None) -> ExportFormat:
    known = suffixes()
    if format is not None:
        one_of("export_network", "format", format, sorted(EXPORT_FORMATS))
    elif path.suffix.lower() not in known:
        accepted = f"a file name that ends in {' or '.join(known)}"
        remedy = f"Other names need {' or '.join(f'format={name!r}' for name in known.values())}."
        raise parameter_error("export_network", "path", accepted, str(path), remedy)
    return EXPORT_FORMATS[format or known[path.suffix.lower()]]()


def _failed(format: ExportFormat, error: BaseException) -> ValueError:
    cause = error
    while cause.__cause__ is not None:  # exporters wrap what went wrong in advice
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    reason = lines[0].rstrip(".") if lines else type(cause).__name__
    return ValueError(f"The network could not be exported to {format.title}: {reason}.")


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings and no messages of the exporters: what matters is checked."""
    levels = {logger: logger.level for logger in map(logging.getLogger, LOGGERS)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
