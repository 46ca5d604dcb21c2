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
from vinets.nn.network import CutNetwork, Record, example_inputs
from vinets.running import device_of, evaluating, logits_of

FORMAT, VERSION = "vinets.cascade", 1
FACTS, EARLY, WEIGHTS = "cascade.json", "early", "late.safetensors"

Gate = Callable[[CutNetwork, Tensor, Tensor], Tensor]
"""How sure a network is: of its latents (B, C, P) and logits (B, K), values (B,); more is surer."""


def largest_softmax(network: CutNetwork, latents: Tensor, logits: Tensor) -> Tensor:
    """The probability of the likeliest class."""
    return logits.softmax(1).amax(1)


def low_entropy(network: CutNetwork, latents: Tensor, logits: Tensor) -> Tensor:
    """The entropy of the probabilities, times -1: the gate of BranchyNet."""
    logs = logits.log_softmax(1)
    return (logs.exp() * logs).sum(1)


def distance_margin(network: CutNetwork, latents: Tensor, logits: Tensor) -> Tensor:
    """How much farther the nearest other class is than the answer, by log K.

    Below 0 where another class is nearer than the one that the head names.
    """
    logs = network.distance_of(latents).log().to(logits)
    answer = logits.argmax(1, keepdim=True)
    others = logs.scatter(1, answer, torch.inf).amin(1)
    return others - logs.gather(1, answer)[:, 0]


GATES: dict[str, Gate] = {
    "softmax": largest_softmax,
    "entropy": low_entropy,
    "distance": distance_margin,
}


@dataclass(frozen=True)
class Calibration:
    """What a threshold gave on the examples that it was chosen by."""

    threshold: float
    early: float  # share of the examples that leave at the cut
    accuracy: float  # of the cascade
    late_accuracy: float  # of the uncut network
    examples: int


def choose_threshold(sure: Tensor, first: Tensor, second: Tensor, loss: float) -> Calibration:
    """The lowest threshold with which no more than a share ``loss`` of right answers is lost.

    Parameters
    ----------
    sure, first, second : Tensor of shape (m,)
        Of every example what the gate says, and whether the early and the late network are right.

    Examples
    --------
    >>> sure, first = torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([1, 1, 0, 1])
    >>> found = choose_threshold(sure, first, torch.ones(4), 0.0)
    >>> round(found.threshold, 3), found.early, found.accuracy
    (0.75, 0.5, 1.0)
    """
    order = sure.argsort(descending=True)
    sure, first, second = (one[order].double() for one in (sure, first, second))
    # right answers that are won if the k surest leave early, k = 0, ..., m
    won = torch.cat([torch.zeros(1).double(), (first - second).cumsum(0)])
    # images of equal confidence leave together
    ends = torch.cat([torch.ones(1).bool(), sure[1:] < sure[:-1], torch.ones(1).bool()])
    count = len(sure)
    k = int((ends & (won >= -loss * count - 1e-9)).nonzero().max())
    # between the last that leaves and the first that stays, for other batches round otherwise
    threshold = float(sure[k - 1 : k + 1].mean()) if k else float("inf")
    late = float(second.mean())
    return Calibration(threshold, k / count, late + float(won[k]) / count, late, count)


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
        ``"softmax"``, the largest probability; ``"entropy"``, that of the probabilities times -1;
        ``"distance"``, how much farther the next class is than the answer, for networks with
        distances (:func:`vinets.attach_distances`); or a :data:`Gate` of your own.
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
        if set(early.record.inputs) != {""}:
            raise ValueError("A cascade takes networks with one tensor as their input, no others.")
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

    @property
    def record(self) -> Record:
        """What the early network was made of; classes and inputs are those of both."""
        return self.early.record

    def forward(self, x: Tensor) -> Tensor:
        return self.answers(x)[0]

    def answers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, K), and whether each image left early (B,)."""
        logits, confidence, passed = self.first(x)
        sure = confidence >= self.threshold
        rest = (~sure).nonzero()[:, 0]
        if len(rest):
            logits = logits.index_copy(0, rest, self.second(passed[rest]).to(logits))
        return logits, sure

    def first(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (B, K) of the early network, how sure it is (B,), and what goes on."""
        return self.judged(x, self.early.backbone(x))

    def judged(self, x: Tensor, made: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The same, where the output of the backbone is known."""
        latents = self.early.reader(made)
        logits = self.early.head(latents)
        gate = GATES[self.gate] if isinstance(self.gate, str) else self.gate
        return logits, gate(self.early, latents, logits), made if self.shared else x

    def second(self, passed: Tensor) -> Tensor:
        """Logits of the late network, of what :meth:`first` passed on."""
        return logits_of(self.late(passed))

    def folded(self) -> Self:
        """The cascade for inference: statistics of training folded into plain coefficients."""
        options: Any = {"threshold": self.threshold, "gate": self.gate}
        return type(self)(self.early.folded(), self.late, shared=self.shared, **options).eval()

    def calibrate(self, data: Any, loss: float = 0.0, *, batch_size: int = 256) -> Calibration:
        """Choose the lowest threshold with which no more than ``loss`` of accuracy is lost.

        ``data`` are examples that neither network was trained on; ``loss`` is a share of them, and
        counts against the accuracy of the uncut network there. On other examples somewhat more may
        be lost, for the threshold was chosen on these.
        """
        source, device = as_source(data), device_of(self)
        found: list[Tensor] = []
        with evaluating(self):
            for x, labels in source.batches(batch_size, device=device):
                assert isinstance(x, Tensor)
                logits, sure, passed = self.first(x)
                late = self.second(passed)
                right = [(one.argmax(1) == labels).double() for one in (logits, late)]
                found.append(torch.stack([sure.double(), *right], 1).cpu())
        sure, first, second = torch.cat(found).unbind(1)
        chosen = choose_threshold(sure, first, second, loss)
        self.threshold = chosen.threshold
        return chosen

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
        load_weights(late, folder / WEIGHTS, inside=folder)
        limit = float("inf") if threshold is None else float(threshold)
        return cls(early, late, shared=shared, threshold=limit, gate=str(gate)).eval()
