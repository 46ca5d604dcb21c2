"""A training step that a GPU records once and replays, for networks whose kernels are short."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from vinets.core.device import Inputs, each, on_side_stream, record_graph, tensors_of

TrainingStep: TypeAlias = Callable[[Inputs, Tensor, Tensor | None], tuple[Tensor, Tensor]]
"""Takes inputs, labels and what the teacher says; gives the loss and how many are right."""

EAGER = 3  # steps before the recording, in which libraries choose their kernels


class Replay:
    """Runs a step as a CUDA graph, after a few as it is.

    A small network takes longer to launch than to compute. A replay launches all kernels at once.
    What Python decides in a step is decided when it is recorded. Learning rates are tensors that
    change in place, and a batch of another shape than the recorded one runs as it is.
    """

    def __init__(self, step: TrainingStep) -> None:
        self.step = step
        self.eager = EAGER
        self.graph: torch.cuda.CUDAGraph | None = None
        self._given: list[Tensor] = []  # where the graph reads, and where it leaves its results
        self._results: tuple[Tensor, Tensor] | None = None

    def __call__(
        self, inputs: Inputs, labels: Tensor, taught: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        as_it_is = partial(self.step, inputs, labels, taught)
        if self.eager:
            self.eager -= 1
            return on_side_stream(as_it_is)
        if self.graph is None:
            self._record(inputs, labels, taught)
        assert self.graph is not None and self._results is not None
        given = _flat(inputs, labels, taught)
        if [kept.shape for kept in self._given] != [new.shape for new in given]:
            return on_side_stream(as_it_is)
        for kept, new in zip(self._given, given, strict=True):
            kept.copy_(new)
        self.graph.replay()
        loss, hits = self._results
        return loss.clone(), hits.clone()

    def _record(self, inputs: Inputs, labels: Tensor, taught: Tensor | None) -> None:
        """Record without running: the first replay is the step."""
        kept = each(inputs, torch.clone), labels.clone(), None if taught is None else taught.clone()
        self._given = _flat(*kept)
        remedy = "train it with recorded=False"
        self.graph, self._results = record_graph(partial(self.step, *kept), remedy)


def _flat(inputs: Inputs, labels: Tensor, taught: Tensor | None) -> list[Tensor]:
    return [*tensors_of(inputs), labels, *([] if taught is None else [taught])]
