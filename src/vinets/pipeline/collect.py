"""Cut a network and run the training data through what is left."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vinets.data.sources import Source, as_source, choose_per_class
from vinets.fingerprint import fingerprint
from vinets.latent.collect import collect_latents
from vinets.latent.cut import resolve_cut, truncate
from vinets.latent.reader import LatentReader
from vinets.latent.store import LatentStore
from vinets.models.sources import source_of
from vinets.nn.network import Record, input_fields
from vinets.progress import Progress, progress_of
from vinets.running import device_of, each

__all__ = ["Latents", "collect"]


@dataclass(frozen=True, eq=False)
class Latents:
    """A truncated network with latents of its training data, ready for any head.

    Parameters
    ----------
    backbone : Module
        The truncated network.
    reader : LatentReader
        What is read from its output.
    store : LatentStore
        Latents (m, C, P) and labels.
    fit : Tensor of shape (m,)
        True for the examples that ideals are fitted to, False for those that score them.
    record : Record
        What the network is made of.
    original_parameters : int
        Parameters of the uncut network.
    seconds : float
        Wall-clock time.
    """

    backbone: nn.Module
    reader: LatentReader
    store: LatentStore
    fit: Tensor
    record: Record
    original_parameters: int
    seconds: float

    @property
    def shape(self) -> tuple[int, int]:
        """Channels and positions."""
        channels, positions = self.store.shape
        return channels, positions

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.record.classes)

    @property
    def device(self) -> torch.device:
        """Where the backbone lies."""
        return device_of(self.backbone)


def collect(
    model: nn.Module,
    train_data: Any,
    cut: str | int,
    *,
    per_class: int | None = 512,
    read: str = "auto",
    pool: int | None = None,
    channels_last: bool = False,
    batch_size: int = 256,
    device: torch.device | str = "cpu",
    memory_limit: int = 4 << 30,
    directory: str | Path | None = None,
    seed: int = 0,
    progress: Progress | str | None = "auto",
) -> Latents:
    """Truncate ``model`` and run training data through it; parameters as in :func:`build`."""
    source = as_source(train_data)
    example = source.example()
    model = model.to(device)
    on_device = each(example, lambda tensor: tensor.to(device))
    name = resolve_cut(model, cut, on_device)
    backbone = truncate(model, name, on_device)
    reader = LatentReader(read, pool=pool, channels_last=channels_last)
    # a quarter as many again, to score the generators on points they were not fitted to
    chosen = choose_per_class(source.labels, per_class and per_class + -(-per_class // 4), seed)
    part = source.subset(chosen)
    facts = {
        "cut": name,
        "reader": reader.config(),
        "weights": _weights(backbone),
        "data": _content(part, chosen),
    }
    watch = progress_of(progress)
    watch.start("latents", len(part))
    begin, done = time.perf_counter(), 0

    def advance(total: int) -> None:
        nonlocal done
        watch.advance(total - done)
        done = total

    store = collect_latents(
        _Read(backbone, reader),
        part.batches(batch_size, device=device),
        memory_limit=memory_limit,
        directory=directory,
        fingerprint=json.dumps(facts),
        progress=advance,
    )
    record = Record(
        name, input_fields(example), source_of(model), tuple(source.classes), _preprocessing(source)
    )
    original = sum(p.numel() for p in model.parameters())
    seconds = time.perf_counter() - begin
    fit = _fitted(store.labels.cpu(), seed)
    return Latents(backbone, reader, store, fit, record, original, seconds)


class _Read(nn.Module):
    """Backbone and reader as one network, for a tensor or for tensors by name."""

    def __init__(self, backbone: nn.Module, reader: LatentReader) -> None:
        super().__init__()
        self.backbone, self.reader = backbone, reader

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        return self.reader(self.backbone(*inputs, **named))


def _fitted(labels: Tensor, seed: int) -> Tensor:
    """Four fifths of every class, at least one example."""
    fit = torch.zeros(len(labels), dtype=torch.bool)
    for k in labels.unique().tolist():
        members = (labels == k).nonzero()[:, 0]
        count = max(1, len(members) * 4 // 5)
        draw = torch.randperm(len(members), generator=torch.Generator().manual_seed(seed))
        fit[members[draw[:count]]] = True
    return fit


def _weights(network: nn.Module) -> str:
    """Tells networks with different weights apart, without reading them all to the CPU."""
    sums = [t.detach().double().sum() for t in (*network.parameters(), *network.buffers())]
    return fingerprint(torch.stack(sums)) if sums else ""


def _content(source: Source, positions: Tensor) -> str:
    """Tells data apart by the positions chosen and by the inputs at some of them."""
    some = torch.linspace(0, len(source) - 1, 16).round().long().unique()
    inputs, labels = next(source.subset(some).batches(len(some)))
    tensors = inputs.values() if isinstance(inputs, Mapping) else [inputs]
    return fingerprint(positions, *tensors, labels)


def _preprocessing(source: Source) -> dict[str, Any] | None:
    given = getattr(source, "preprocessing", None)
    return None if given is None else given.to_dict()
