"""The last linear layer of an uncut network, and what it sees."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from vinets.core.device import Inputs, call, evaluating, logits_of


def classifier_of(model: nn.Module, example: Inputs) -> nn.Linear:
    """The linear layer whose outputs are the logits of ``model``."""
    outputs: list[tuple[nn.Linear, Tensor]] = []

    def watch(module: nn.Module, _: object, output: Tensor) -> None:
        if isinstance(module, nn.Linear):
            outputs.append((module, output))

    with evaluating(model), register_module_forward_hook(watch):
        logits = logits_of(call(model, example))
    for module, output in reversed(outputs):
        if output.shape == logits.shape and torch.equal(output, logits):
            return module
    raise ValueError(
        "The network has no linear layer whose outputs are its logits, so its classifier cannot be "
        "taken over. Choose another head."
    )


def sees_negative(model: nn.Module, example: Inputs) -> bool:
    """Whether what that layer sees may be negative, as behind a layer norm; not behind ReLUs."""
    with evaluating(model):
        return bool((call(Penultimate(model), example) < 0).any())


class Penultimate:
    """Runs a network, and returns what its last linear layer saw instead of the logits."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.classifier: nn.Linear | None = None

    def __call__(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        if self.classifier is None:
            self.classifier = classifier_of(self.model, inputs[0] if inputs else named)
        seen: list[Tensor] = []
        with self.classifier.register_forward_pre_hook(lambda _, args: seen.append(args[0])):
            self.model(*inputs, **named)
        return seen[0]
