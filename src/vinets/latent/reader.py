"""Read one tensor of latents from whatever a module returns; or from the last linear layer."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook

from vinets.core.checks import one_of, optional_positive_int, parameter_error
from vinets.core.device import Inputs, call, evaluating, logits_of
from vinets.core.settings import LATENT_KINDS
from vinets.latent.paths import main_tensor, tensors_in


@dataclass(frozen=True)
class LatentShape:
    """Channels and positions of the output of a module, for one example."""

    channels: int  # length of the descriptor at a position
    height: int  # the grid of positions is 1 x T for T tokens, 1 x 1 for vectors
    width: int

    @property
    def positions(self) -> int:
        """Number of positions, ``height * width``."""
        return self.height * self.width


class LatentReader(nn.Module):
    """Read the output of a module as latents ``(B, C, P)``: ``C`` channels at ``P`` positions.

    The output may be a Tensor; a tuple or list, whose first Tensor counts; or a mapping, whose
    ``last_hidden_state`` or else first Tensor counts. Its shape says what it is: ``(B, D)`` are
    vectors, ``(B, T, C)`` tokens, ``(B, C, H, W)`` maps, and so are volumes ``(B, C, D, H, W)``.

    The kind says what to make of it; vectors are one position under every kind.

    - ``"map"``: the descriptors at all positions, with ``P = H * W``, ``T`` or 1.
    - ``"pool"``: maps averaged down to ``pool x pool``, ``P = pool**2``.
    - ``"class_token"``: the first token, ``P = 1``.
    - ``"mean_token"``: the mean over the positions, ``P = 1``.
    - ``"auto"``: ``"mean_token"`` for tokens, ``"map"`` for everything else.

    With ``channels_last``, maps come as ``(B, H, W, C)``.

    Examples
    --------
    >>> import torch
    >>> maps = torch.arange(8.0).reshape(1, 2, 2, 2)
    >>> LatentReader("pool", pool=1)(maps)
    tensor([[[1.5000],
             [5.5000]]])
    >>> LatentReader("map")((maps, "something else")).shape
    torch.Size([1, 2, 4])
    """

    def __init__(
        self, kind: str = "auto", pool: int | None = None, channels_last: bool = False
    ) -> None:
        super().__init__()
        self.kind = one_of("LatentReader", "kind", kind, LATENT_KINDS)
        self.pool = optional_positive_int("LatentReader", "pool", pool)
        if (kind == "pool") != (self.pool is not None):
            accepted = "a positive integer if kind='pool', and None otherwise"
            raise parameter_error("LatentReader", "pool", accepted, pool, f"The kind is {kind!r}.")
        self.channels_last = bool(channels_last)

    def forward(self, output: Any) -> Tensor:
        # All but averages are views of the output, so that nothing is copied on the way.
        values = _checked(output)
        if values.ndim == 2:
            return values.unsqueeze(2)
        tokens = values.ndim == 3
        wanted = {"pool": 4, "class_token": 3}.get(self.kind, values.ndim)
        if values.ndim != wanted:
            accepted = "maps (B, C, H, W)" if wanted == 4 else "tokens (B, T, C)"
            raise ValueError(
                f"LatentReader(kind={self.kind!r}) reads {accepted} or vectors (B, D). Got shape "
                f"{tuple(values.shape)} instead. Use kind='mean_token' or kind='map'."
            )
        if self.pool is not None:
            maps = values.permute(0, 3, 1, 2) if self.channels_last else values
            if self.pool > min(maps.shape[2:]):
                accepted = f"at most the side of the map, {min(maps.shape[2:])}"
                raise parameter_error("LatentReader", "pool", accepted, self.pool)
            return F.adaptive_avg_pool2d(maps, self.pool).flatten(2)
        if self.kind == "class_token":
            # Not a slice, because torch 2.6 exports that its batch is not the largest integer.
            return values.select(1, 0).unsqueeze(2)
        last = tokens or self.channels_last
        descriptors = values.flatten(1, -2).transpose(1, 2) if last else values.flatten(2)
        averaged = self.kind == "mean_token" or (self.kind == "auto" and tokens)
        return descriptors.mean(2, keepdim=True) if averaged else descriptors

    def describe(self, output: Any) -> LatentShape:
        """Tell channels and positions of ``output`` as it is, before it is pooled or flattened."""
        *grid, channels = _checked(output).shape[1:]
        if len(grid) > 1 and not self.channels_last:
            channels, *grid = *grid, channels
        *rows, width = [1, *grid]  # the layers of a volume lie below each other
        return LatentShape(channels, prod(rows), width)

    def config(self) -> dict[str, Any]:
        """Return the arguments that build this reader again."""
        return {"kind": self.kind, "pool": self.pool, "channels_last": self.channels_last}

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.config().items())


def first_tensor(output: Any) -> Tensor:
    """Return the Tensor in an output: itself, ``last_hidden_state``, or the first one."""
    tensor = main_tensor(output)
    if tensor is None:
        raise ValueError(
            "The module at the cut must return a Tensor, or a tuple, list or mapping that holds "
            f"one. Got {type(output).__name__} instead. Cut at another module."
        )
    return tensor


def channels_come_last(output: Any, inputs: Inputs) -> bool:
    """Tell whether the output for images is a map (B, H, W, C), by the proportions of the images.

    Height and width are the two of its neighbouring sizes that are most like those of an image; a
    map for which both readings fit as well has its channels first.

    Examples
    --------
    >>> images = torch.zeros(1, 3, 64, 32)
    >>> channels_come_last(torch.zeros(1, 8, 4, 96), images)
    True
    >>> channels_come_last(torch.zeros(1, 96, 8, 4), images)
    False
    """
    shape = first_tensor(output).shape
    if len(shape) != 4:
        return False
    height, width = next((t.shape[2:] for t in tensors_in(inputs) if t.ndim == 4), (1, 1))

    def distance(rows: int, columns: int) -> float:
        return abs(log(rows * width / (columns * height)))

    return distance(shape[1], shape[2]) < distance(shape[2], shape[3]) - 1e-6


def _checked(output: Any) -> Tensor:
    values = first_tensor(output)
    if not 2 <= values.ndim <= 5:
        raise ValueError(
            "The output at the cut must have shape (B, D), (B, T, C), (B, C, H, W) or "
            "(B, C, D, H, W). "
            f"Got {tuple(values.shape)} instead. Cut at another module."
        )
    return values


# --- the last linear layer --------------------------------------------------------------------


def classifier_of(model: nn.Module, example: Inputs) -> nn.Linear:
    """Return the linear layer whose outputs are the logits of ``model``."""
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
    """Say whether inputs of that layer may be negative, as behind a layer norm."""
    with evaluating(model):
        return bool((call(Penultimate(model), example) < 0).any())


class Penultimate:
    """A network that returns the inputs of its last linear layer instead of the logits."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.classifier: nn.Linear | None = None

    def __call__(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        if self.classifier is None:
            self.classifier = classifier_of(self.model, inputs[0] if inputs else named)
        features: list[Tensor] = []
        with self.classifier.register_forward_pre_hook(lambda _, args: features.append(args[0])):
            self.model(*inputs, **named)
        return features[0]
