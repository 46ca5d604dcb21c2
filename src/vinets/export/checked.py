"""Write a network for another runtime, and keep the file only if it is as good as the network."""

from __future__ import annotations

import copy
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets.core.checks import first_reason_of, parameter_error
from vinets.core.device import Inputs, call, each, tensors_of
from vinets.core.files import check_name, refuse_foreign
from vinets.core.options import flat
from vinets.core.plain import as_plain
from vinets.core.settings import ExportOptions
from vinets.data import DataSplit, ImageSource, Source
from vinets.models.origin import Record, example_inputs, input_fields, trained_on
from vinets.networks.network import CutNetwork, refuse_seen
from vinets.networks.runtimes import EXPORT_FORMATS, ExportFormat, Network, WholeNetwork, suffixes

# Share of the largest logit; float32 in another order of summation stays far below.
TOLERANCE = 1e-4
TESTED_AT_ONCE = 256
CALIBRATED_AT_ONCE = 32


@dataclass(frozen=True)
class ExportReport:
    """A file that was written, and how well it agrees with the network."""

    path: Path
    format: str  # a key of EXPORT_FORMATS
    precision: str  # the form of its numbers: float32, float16, int8
    size: int  # in bytes
    largest_difference: float  # between logits, relative to the largest one
    batch_sizes: tuple[int, ...]  # that were compared
    opset: int | None  # version of the operators, where the format has versions
    calibrated_on: int = 0  # training examples that ranges were taken from
    tested_on: int = 0  # test examples; 0 where there was no data, and no accuracies
    accuracy: float | None = None  # what the file reaches on these, in [0, 1]
    network_accuracy: float | None = None  # what the network reaches on the same

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return dict(as_plain(self))


@flat(exporting=ExportOptions)
def export_network(
    network: nn.Module,
    path: str | Path,
    *,
    exporting: ExportOptions,
    data: DataSplit | None = None,
    example: Inputs | None = None,
    batch_sizes: Sequence[int] = (1, 2, 7),
    device: torch.device | str = "cpu",
    seed: int = 0,
) -> ExportReport:
    """Write a network to a file that takes batches of any size.

    A cut network is folded. The inputs keep their names and their order; a single tensor is called
    ``input``, and the output ``logits``. The file also holds the names of the classes and the
    preprocessing, as JSON: in the metadata of an ONNX file, or in the extra file ``metadata.json``
    of a program.

    A file of an earlier export is replaced. ValueError is raised if the network cannot be exported,
    or the file computes something else, or is wrong too often; then nothing is written.

    Parameters
    ----------
    network : Module
        A network of :func:`vinets.build`, or any other with ``data`` or an ``example``.
    exporting : ExportOptions
        Or its fields as keywords. The ``format`` is ``"onnx"``, ``"onnx-float16"``,
        ``"onnx-int8"``, or ``"torch"`` for :func:`torch.export.load`, whose program takes its
        inputs by position; None goes by the suffix, ``.onnx`` or ``.pt2``.
    data : DataSplit or None
        File and network are compared on its test part; formats that round need it.
    example : Tensor, dict of Tensor or None
        A batch of inputs of an uncut network, where there is no data.
    batch_sizes : sequence of int
        Batches on which the logits of file and network are compared: random ones, or test examples
        where the format rounds.
    device : str
        Where the network runs for the comparison; the file runs on the CPU.
    seed : int
        For what is drawn: random inputs, and the examples that int8 is calibrated on.
    """
    target = Path(path)
    refuse_foreign(target)
    kind = _format(target, exporting, data)
    plain = _network(network, data, example)
    if data is not None:
        refuse_seen("The network", plain, data)
    sizes = tuple(batch_sizes) if isinstance(batch_sizes, Sequence) else ()
    if not sizes or not all(type(size) is int and size > 0 for size in sizes):
        accepted = "a sequence of positive integers"
        raise parameter_error("export_network", "batch_sizes", accepted, batch_sizes)
    kind.require()
    if kind.calibrated and data is not None:
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(data.train), generator=generator)[: exporting.calibration]
        batches = data.train.batches(CALIBRATED_AT_ONCE, order=order)
        kind.examples = [tuple(tensors_of(inputs)) for inputs, _ in batches]
    # A copy, since folding shares the backbone, and moving it to the CPU would move the network's.
    plain = copy.deepcopy(plain.folded() if isinstance(plain, CutNetwork) else plain).cpu().eval()
    exact = kind.precision == "float32"
    target.parent.mkdir(parents=True, exist_ok=True)
    # Next to the target, because a file can be renamed into place on the same file system only.
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as folder, _quiet():
        written = Path(folder) / f"network{kind.suffix}"
        try:
            version = kind.write(plain, written, exporting.opset)
            run = kind.runner(written)
            reference = plain if str(device) == "cpu" else copy.deepcopy(plain).to(device)

            @torch.no_grad()
            def both(inputs: Inputs) -> tuple[Tensor, Tensor]:
                """Return the logits of the file and of the network."""
                expected = call(reference, each(inputs, lambda tensor: tensor.to(device))).cpu()
                return run(tuple(tensors_of(inputs))), expected

            differences = []  # the largest in each batch, as shares of the largest logit
            for size in sizes:
                if exact or data is None:
                    batch = _random(plain, size, seed)
                else:
                    batch = data.test.example(size)
                got, wanted = both(batch)
                if got.shape != wanted.shape:
                    shapes = f"{tuple(got.shape)}, not {tuple(wanted.shape)}"
                    raise ValueError(f"its logits have shape {shapes}")
                scale = wanted.abs().max().clamp_min(torch.finfo(wanted.dtype).tiny)
                differences.append((got - wanted).abs().max() / scale)
            difference = float(torch.stack(differences).max())  # NaN wins
            tested = (0, None, None) if data is None else _tested(both, data.test)
        except Exception as error:  # exporters raise whatever comes to their minds
            cause: BaseException = error
            while cause.__cause__ is not None:  # exporters wrap what went wrong in advice
                cause = cause.__cause__
            reason = first_reason_of(cause)
            message = f"The network could not be exported to {kind.title}: {reason}."
            raise ValueError(message) from error
        if exact and not difference <= TOLERANCE:  # also catches NaN
            raise ValueError(
                f"The exported network differs from the network by {difference:.2g} of the largest "
                f"logit, more than {TOLERANCE:g}. Nothing was written."
            )
        _, accuracy, expected = tested
        lost = 100 * ((expected or 0) - (accuracy or 0))  # both are None without data
        if lost > exporting.most_lost + 1e-9:  # the difference of two shares is rounded
            raise ValueError(
                f"{kind.title} is right on {accuracy:.2%} of the test examples and the network on "
                f"{expected:.2%}, so that {lost:.2f} points are lost, more than "
                f"{exporting.most_lost:g}. Nothing was written; raise most_lost (--most-lost) to "
                "have the file all the same."
            )
        size = written.stat().st_size
        os.replace(written, target)
    calibrated = sum(len(batch[0]) for batch in kind.examples)
    return ExportReport(
        target, kind.name, kind.precision, size, difference, sizes, version, calibrated, *tested
    )


def _format(target: Path, exporting: ExportOptions, data: DataSplit | None) -> ExportFormat:
    """Choose the format; raise for what does not go together, before any work is done."""
    known = suffixes()
    name = exporting.format or known.get(target.suffix.lower())
    if name is None:
        accepted = f"a file name that ends in {' or '.join(known)}"
        remedy = f"Other names need {' or '.join(f'format={name!r}' for name in known.values())}."
        raise parameter_error("export_network", "path", accepted, str(target), remedy)
    kind = EXPORT_FORMATS[name]()
    check_name(target)
    if exporting.opset is not None and not kind.takes_opset:
        some = " or ".join(sorted(name for name, f in EXPORT_FORMATS.items() if f.takes_opset))
        accepted = f"None unless the format is {some}"
        raise parameter_error("export_network", "opset", accepted, exporting.opset)
    if data is None and kind.precision != "float32":
        raise ValueError(
            f"Export to {kind.title} rounds, so that its accuracy has to be measured. Pass data "
            "(--data)."
        )
    if target.is_dir():
        raise parameter_error("export_network", "path", "the name of a file", str(target))
    return kind


def _network(network: nn.Module, data: DataSplit | None, example: Inputs | None) -> Network:
    """Return the network with what is known about it."""
    if isinstance(network, CutNetwork | WholeNetwork):
        return network
    inputs = example if data is None else data.test.example()
    if not isinstance(network, nn.Module) or inputs is None:
        accepted = "a CutNetwork, or any network with data or an example"
        raise parameter_error("export_network", "network", accepted, type(network).__name__)
    record = Record("", input_fields(inputs), data=trained_on(network))
    if data is not None:
        reading = data.test.preprocessing if isinstance(data.test, ImageSource) else None
        values = None if reading is None else reading.to_dict()
        record = replace(record, classes=data.test.classes, preprocessing=values)
    return WholeNetwork(network, record)


def _tested(
    both: Callable[[Inputs], tuple[Tensor, Tensor]], source: Source
) -> tuple[int, float | None, float | None]:
    """Count the examples, and return how often the file and the network are right."""
    right = torch.zeros(2, dtype=torch.int64)
    for inputs, labels in source.batches(TESTED_AT_ONCE):
        for index, logits in enumerate(both(inputs)):
            # where one logit is NaN there is no answer, and none is counted as right
            answered = logits.isfinite().all(1)
            right[index] += ((logits.argmax(1) == labels) & answered).sum()
    ours, theirs = right.tolist()
    return len(source), ours / len(source), theirs / len(source)


def _random(network: Network, size: int, seed: int) -> Inputs:
    """Draw a batch."""
    generator = torch.Generator().manual_seed(seed + size)

    def drawn(like: Tensor) -> Tensor:
        if like.is_floating_point():
            return torch.randn(like.shape, generator=generator).to(like.dtype)
        # 0 or 1 suits identifiers and masks alike, and a mask that hides all means nothing.
        values = torch.randint(2, like.shape, generator=generator)
        values[(slice(None),) + (0,) * (like.ndim - 1)] = 1
        return values.to(like.dtype)

    return each(example_inputs(network.record.inputs, batch=size), drawn)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings and messages of the exporters, because what matters is checked."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)
