"""Early exit: easy images get their answer at the cut, the others from the rest of the network."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from vinets.data.sources import as_source
from vinets.files import read_json, write_json
from vinets.latent.cut import remainder
from vinets.models.guard import room_for
from vinets.models.sources import rebuild
from vinets.models.weights import load_weights, save_weights
from vinets.nn.network import CutNetwork, example_inputs
from vinets.running import device_of, evaluating, logits_of

FORMAT, VERSION = "vinets.cascade", 1
FACTS, EARLY, WEIGHTS = "cascade.json", "early", "late.safetensors"

Gate = Callable[[Tensor, Tensor], Tensor]
"""How sure the head is: from latents (B, C, P) and logits (B, K) to numbers (B,), more is surer."""


def largest_softmax(latents: Tensor, logits: Tensor) -> Tensor:
    """The probability of the likeliest class."""
    return logits.softmax(1).amax(1)


GATES: dict[str, Gate] = {"softmax": largest_softmax}


@dataclass(frozen=True)
class Calibration:
    """What a threshold gave on the examples that it was chosen by."""

    threshold: float
    early: float  # share of the examples that leave at the cut
    accuracy: float  # of the cascade
    late_accuracy: float  # of the uncut network
    examples: int


class Cascade(nn.Module):
    """A VI-Net, and for images of which it is not sure, the uncut network.

    Parameters
    ----------
    early : CutNetwork
        Answers first.
    late : Module
        Answers where that is not sure: what is behind the cut (:func:`vinets.latent.remainder`) if
        ``shared``, else a whole network, which sees the image again.
    shared : bool
        Whether ``late`` takes the output of the backbone of ``early``.
    threshold : float, default=0.9
        Images whose gate is at least this leave early.
    gate : str or callable, default="softmax"
        See :data:`Gate`; or the name of one of :data:`GATES`.
    """

    def __init__(
        self,
        early: CutNetwork,
        late: nn.Module,
        *,
        shared: bool,
        threshold: float = 0.9,
        gate: str | Gate = "softmax",
    ) -> None:
        super().__init__()
        if isinstance(gate, str) and gate not in GATES:
            raise ValueError(f"There is no gate {gate!r}. Pass {', '.join(GATES)} or a function.")
        self.early, self.late, self.shared = early, late, shared
        self.threshold, self.gate = float(threshold), gate

    @classmethod
    def of(cls, early: CutNetwork, model: nn.Module, **options: Any) -> Self:
        """A VI-Net and the network that it was made from.

        The two share what is before the cut, unless that was tuned, or the rest of the network
        needs more than what comes through the cut: then late images go through all of ``model``.
        """
        known = model.state_dict()
        same = all(
            name in known and torch.equal(known[name].to(value), value)
            for name, value in early.backbone.state_dict().items()
        )
        late, shared = model, False
        if same:
            with suppress(ValueError):  # there may be a way around the cut
                late, shared = remainder(model, early.record.cut), True
        return cls(early, late, shared=shared, **options).eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.answers(x)[0]

    def answers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, K), and whether each image left early (B,)."""
        made = self.early.backbone(x)
        latents = self.early.reader(made)
        logits = self.early.head(latents)
        sure = self.confidence(latents, logits) >= self.threshold
        rest = (~sure).nonzero()[:, 0]
        if len(rest):
            given = (made if self.shared else x)[rest]
            logits = logits.index_copy(0, rest, logits_of(self.late(given)).to(logits))
        return logits, sure

    def confidence(self, latents: Tensor, logits: Tensor) -> Tensor:
        """What the gate says, (B,)."""
        gate = GATES[self.gate] if isinstance(self.gate, str) else self.gate
        return gate(latents, logits)

    def calibrate(self, data: Any, loss: float = 0.0, *, batch_size: int = 256) -> Calibration:
        """Choose the lowest threshold with which no more than ``loss`` of accuracy is lost.

        ``data`` are examples that neither network was trained on; ``loss`` is a share of them, and
        counts against the accuracy of the uncut network there.
        """
        source, device = as_source(data), device_of(self)
        found: list[Tensor] = []
        with evaluating(self):
            for x, labels in source.batches(batch_size, device=device):
                assert isinstance(x, Tensor)
                made = self.early.backbone(x)
                latents = self.early.reader(made)
                logits = self.early.head(latents)
                late = logits_of(self.late(made.clone() if self.shared else x))
                sure = self.confidence(latents, logits).double()
                right = [(one.argmax(1) == labels).double() for one in (logits, late)]
                found.append(torch.stack([sure, *right], 1).cpu())
        sure, first, second = torch.cat(found).unbind(1)
        order = sure.argsort(descending=True)
        sure, first, second = sure[order], first[order], second[order]
        # right answers if the k surest leave early, k = 0, ..., m
        gained = torch.cat([torch.zeros(1).double(), (first - second).cumsum(0)])
        total = float(second.sum())
        # images of equal confidence leave together
        ends = torch.cat([torch.ones(1).bool(), sure[1:] < sure[:-1], torch.ones(1).bool()])
        fine = ends & (gained >= -loss * len(sure) - 1e-9)
        k = int(fine.nonzero().max())
        self.threshold = float(sure[k - 1]) if k else float("inf")
        right_now = (total + float(gained[k])) / len(sure)
        return Calibration(self.threshold, k / len(sure), right_now, total / len(sure), len(sure))

    def save_pretrained(self, directory: str | Path) -> None:
        """Write the VI-Net, the late weights and the threshold into ``directory``."""
        if not isinstance(self.gate, str):
            raise ValueError(
                "A gate that is a function cannot be saved. Add it to vinets.nn.cascade.GATES and "
                "pass its name."
            )
        folder = Path(directory)
        self.early.save_pretrained(folder / EARLY)
        save_weights(self.late, folder / WEIGHTS)
        threshold = self.threshold if self.threshold < float("inf") else None
        facts = {"shared": self.shared, "threshold": threshold, "gate": self.gate}
        write_json(folder / FACTS, {"format": FORMAT, "version": VERSION, **facts})

    @classmethod
    def from_pretrained(cls, directory: str | Path, model: nn.Module | None = None) -> Self:
        """Read what :meth:`save_pretrained` wrote.

        Where the class of the uncut network is the user's own, pass one as ``model``; its weights
        do not matter.
        """
        folder = Path(directory)
        facts = read_json(folder / FACTS, inside=folder)
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
            raise ValueError(f"{folder / FACTS} does not describe a cascade of vinets.")
        shared, threshold, gate = (facts.get(name) for name in ("shared", "threshold", "gate"))
        number = threshold is None or isinstance(threshold, float | int)
        if facts.get("version") != VERSION or not isinstance(shared, bool) or not number:
            raise ValueError(f"{folder / FACTS} is not of a version that this release reads.")
        early = CutNetwork.from_pretrained(folder / EARLY, model)
        if model is None:
            assert early.record.source is not None  # else it could not be made again above
            room = room_for((folder / WEIGHTS).stat().st_size) + room_for(
                (folder / EARLY / "model.safetensors").stat().st_size
            )
            model = rebuild(early.record.source, room)
        late = model
        if shared:
            late = remainder(model, early.record.cut, example_inputs(early.record.inputs))
        load_weights(late, folder / WEIGHTS)
        limit = float("inf") if threshold is None else float(threshold)
        return cls(early, late, shared=shared, threshold=limit, gate=str(gate)).eval()
