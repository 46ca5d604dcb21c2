"""The training loop, once for heads on frozen latents and for whole networks.

Its state is kept on disk between epochs, in safetensors and never in pickle.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

from vinets.core.device import (
    Inputs,
    call,
    each,
    logits_of,
    on_side_stream,
    record_graph,
    tensors_of,
)
from vinets.core.files import locked
from vinets.core.progress import Progress, progress_of
from vinets.core.settings import TrainingOptions
from vinets.core.tensors import FORMAT, read_tensors, write_tensors
from vinets.models.origin import code_of
from vinets.training.feed import Feed

EAGER_STEPS = 3  # before a recording; in them, libraries choose their kernels
NAME = "checkpoint.safetensors"
MAX_WRITE_SECONDS = 0.2  # seconds of writing, up to which a checkpoint follows every epoch
MAX_SHARE = 0.1  # largest share of the time that goes to checkpoints that take longer

Criterion: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, TrainingOptions], Tensor]
"""The loss of logits and labels, given the logits of a teacher, if there is one."""

TrainingStep: TypeAlias = Callable[[Inputs, Tensor, Tensor | None], tuple[Tensor, Tensor]]
"""Takes inputs, labels and logits of a teacher; gives the loss and how many are right."""


class DivergedError(ValueError):
    """The loss of a training is no longer a number."""


@dataclass(frozen=True)
class Epoch:
    """What one epoch gave: accuracies in [0, 1]; None without a held-out part."""

    epoch: int
    loss: float
    accuracy: float
    validation_loss: float | None
    validation_accuracy: float | None
    seconds: float


@dataclass(frozen=True)
class History:
    """The epochs of a training, and the one whose weights were kept (counted from 1)."""

    epochs: tuple[Epoch, ...]
    best: int
    recipe: TrainingOptions

    @property
    def seconds(self) -> float:
        """Wall-clock time of all epochs."""
        return sum(epoch.seconds for epoch in self.epochs)

    @property
    def kept(self) -> Epoch:
        """The epoch whose weights were kept."""
        return self.epochs[self.best - 1]


@dataclass(frozen=True, eq=False)
class Group:
    """Parameters that are trained alike."""

    parameters: Iterable[nn.Parameter]
    rate: float = 1.0  # their learning rate, as a multiple of the recipe's
    decay: float | None = None  # their weight decay; None is the recipe's


@dataclass(frozen=True, eq=False)
class _Step:
    """A step of a training: forward, loss, backward, new weights."""

    module: nn.Module
    run: Callable[..., Any]  # the module, perhaps compiled
    recipe: TrainingOptions
    criterion: Criterion
    optimizer: SGD
    device: torch.device

    def __call__(
        self, inputs: Inputs, labels: Tensor, taught: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Take the step; return its loss and how many were right, both still on the device."""
        logits = self.logits(inputs)
        loss = self.criterion(logits, labels, taught, self.recipe)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.recipe.clip is not None:
            nn.utils.clip_grad_norm_(parameters_of(self.optimizer), self.recipe.clip)
        self.optimizer.step()
        return loss.detach(), (logits.detach().argmax(1) == labels).sum()

    def logits(self, inputs: Inputs) -> Tensor:
        kind = self.device.type
        with torch.autocast(kind, torch.bfloat16, enabled=self.recipe.half(kind)):
            return logits_of(call(self.run, inputs)).float()


class Replay:
    """A step that is a CUDA graph, after a few that run as they are.

    A small network takes longer to launch than to compute. A replay launches all kernels at once.
    What Python decides in a step is decided when it is recorded. Learning rates are tensors that
    change in place, and a batch of another shape than the recorded one runs as it is.
    """

    def __init__(self, step: TrainingStep) -> None:
        self.step, self.eager = step, EAGER_STEPS
        # The graph, the tensors from which it reads, and the loss and hits that it fills.
        self.recorded: tuple[torch.cuda.CUDAGraph, list[Tensor], tuple[Tensor, ...]] | None = None

    def __call__(
        self, inputs: Inputs, labels: Tensor, taught: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        as_it_is = partial(self.step, inputs, labels, taught)
        if self.eager:
            self.eager -= 1
            return on_side_stream(as_it_is)
        if self.recorded is None:  # without running: the first replay is the step
            answers = None if taught is None else taught.clone()
            kept = each(inputs, torch.clone), labels.clone(), answers
            graph, results = record_graph(partial(self.step, *kept), "train it with recorded=False")
            self.recorded = graph, _flat(*kept), results
        graph, places, (loss, hits) = self.recorded
        tensors = _flat(inputs, labels, taught)
        if [place.shape for place in places] != [new.shape for new in tensors]:
            return on_side_stream(as_it_is)
        for place, new in zip(places, tensors, strict=True):
            place.copy_(new)
        graph.replay()
        return loss.clone(), hits.clone()


def _flat(inputs: Inputs, labels: Tensor, taught: Tensor | None) -> list[Tensor]:
    return [*tensors_of(inputs), labels, *([] if taught is None else [taught])]


def fit(
    module: nn.Module,
    feed: Feed,
    recipe: TrainingOptions,
    *,
    groups: Sequence[Group] | None = None,
    criterion: Criterion | None = None,
    compiled: bool = False,
    directory: str | Path | None = None,
    start: str = "",
    device: torch.device | str = "cpu",
    stage: str = "training",
    progress: Progress | str | None = None,
) -> History:
    """Train ``module``, which lies on ``device``, and leave it with the weights of its best epoch.

    Only parameters in ``groups`` are trained; None means all. With a directory, a checkpoint is
    written there between epochs, and training goes on from one that is there. The result is the
    same as without the interruption. A digest of the backbone to ``start`` from belongs to it.
    """
    device = torch.device(device)
    recorded = recipe.recorded and device.type == "cuda"
    groups = [Group(module.parameters())] if groups is None else groups
    optimizer = _optimizer(groups, recipe, device, recorded)
    steps = feed.steps(recipe.batch_size)
    folder = None if directory is None else Path(directory)
    with nullcontext() if folder is None else locked(folder):
        state, facts = Checkpoint([], 0, {}), dict[str, Any]()
        if folder is not None:
            # Options that do not change the result may differ when a training goes on.
            names = (one.name for one in fields(recipe) if one.metadata.get("result", True))
            facts = {name: getattr(recipe, name) for name in names} | {
                "steps": steps,
                "numbers": sum(p.numel() for p in parameters_of(optimizer)),
                "groups": [[group.rate, group.decay] for group in groups],
                "format": FORMAT,
                **feed.facts(),
            }
            known = {"backbone": start, "code": code_of(module)}
            facts |= {name: value for name, value in known.items() if value}
            state = read_checkpoint(folder, module, optimizer, facts) or state
        run = torch.compile(module) if compiled else module
        step = _Step(module, run, recipe, criterion or distilled, optimizer, device)
        advance = Replay(step) if recorded else step
        watch = progress_of(progress)
        watch.start(stage, recipe.epochs * steps)
        watch.advance(len(state.epochs) * steps)
        exact = not torch.backends.cuda.matmul.allow_tf32
        written, cost = time.perf_counter(), 0.0  # the end of the last checkpoint, and its seconds
        for number in range(len(state.epochs) + 1, recipe.epochs + 1):
            torch.backends.cuda.matmul.allow_tf32 = not exact or recipe.precision == "tf32"
            try:
                epoch = _epoch(step, advance, feed, number, watch)
            finally:  # ideals, which need every bit, are constructed between trainings
                torch.backends.cuda.matmul.allow_tf32 = not exact
            best = state.epochs[state.best_epoch - 1] if state.epochs else epoch
            state.epochs.append(epoch)
            # The last of epochs that are equally accurate on the held-out part is kept. The loss
            # would be no better judge: a backbone that has seen the held-out examples makes it
            # small early, while the learning rate is still high.
            ours, theirs = epoch.validation_accuracy, best.validation_accuracy
            if ours is None or theirs is None or ours >= theirs:
                state.best_epoch = number
                state.best_state = {k: t.detach().clone() for k, t in module.state_dict().items()}
            # Short epochs of large networks on a GPU end sooner than the disk has written them.
            # Then a tenth of the time goes to checkpoints, at most.
            due = cost <= MAX_WRITE_SECONDS or time.perf_counter() - written >= cost / MAX_SHARE
            if folder is not None and (due or number == recipe.epochs):
                begin = time.perf_counter()
                write_checkpoint(folder, state, module, optimizer, facts)
                written = time.perf_counter()
                cost = written - begin
        module.load_state_dict(state.best_state)
        module.eval()
        return History(tuple(state.epochs), state.best_epoch, recipe)


def _optimizer(
    groups: Sequence[Group], recipe: TrainingOptions, device: torch.device, recorded: bool
) -> SGD:
    trained = []
    for group in groups:
        # A recorded step reads its rate from the device.
        rate = torch.tensor(recipe.learning_rate, device=device) if recorded else 0.0
        decay = recipe.weight_decay if group.decay is None else group.decay
        if parameters := [p for p in group.parameters if p.requires_grad]:
            facts = {"params": parameters, "share": group.rate, "lr": rate, "weight_decay": decay}
            trained.append(facts)
    options: Any = {"momentum": recipe.momentum, "nesterov": recipe.nesterov}
    return SGD(trained, weight_decay=recipe.weight_decay, fused=recorded or None, **options)


def _epoch(step: _Step, advance: TrainingStep, feed: Feed, number: int, watch: Progress) -> Epoch:
    """Train for an epoch, and look at the held-out part."""
    begin, recipe, module = time.perf_counter(), step.recipe, step.module
    module.train()
    steps, count = feed.steps(recipe.batch_size), 0
    losses: list[Tensor] = []
    hits: list[Tensor] = []
    for index, (inputs, labels, taught) in enumerate(feed.epoch(number, recipe.batch_size)):
        rate = recipe.rate((number - 1) * steps + index, recipe.epochs * steps)
        for group in step.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate * group["share"])
            else:
                group["lr"] = rate * group["share"]
        loss, right = advance(inputs, labels, taught)
        # Sums stay on the device: asking for their values here would stop it at every step.
        losses.append(loss)
        hits.append(right)
        count += len(labels)
        watch.advance(1, "")
    loss_mean, accuracy = float(torch.stack(losses).mean()), float(torch.stack(hits).sum()) / count
    if not loss_mean < float("inf"):
        raise DivergedError(
            f"the loss is {loss_mean} in epoch {number}: the training diverged. Lower "
            "learning_rate or pass clip=1.0."
        )
    module.eval()
    total, correct, held = 0.0, 0, 0
    with torch.no_grad():
        for inputs, labels, _ in feed.held_out(recipe.batch_size):
            logits = step.logits(inputs)
            total += float(F.cross_entropy(logits, labels, reduction="sum"))
            correct += int((logits.argmax(1) == labels).sum())
            held += len(labels)
    loss_held, accuracy_held = (total / held, correct / held) if held else (None, None)
    note = f", held out {accuracy_held:.2%}" if held else ""
    watch.advance(0, f"loss {loss_mean:.3f}{note}")
    seconds = time.perf_counter() - begin
    return Epoch(number, loss_mean, accuracy, loss_held, accuracy_held, seconds)


def distilled(
    logits: Tensor, labels: Tensor, taught: Tensor | None, recipe: TrainingOptions
) -> Tensor:
    """Return the cross-entropy, mixed with the divergence from the teacher's logits, if any."""
    loss = F.cross_entropy(logits, labels, label_smoothing=recipe.label_smoothing)
    if taught is None or not recipe.distill:
        return loss
    t, both = recipe.temperature, [logits, taught.float()]
    if recipe.standardize:  # a small network need not reach the size of a large one's logits
        both = [one - one.mean(1, keepdim=True) for one in both]
        both = [one / (one.std(1, keepdim=True) + 1e-7) for one in both]
    ours, theirs = (F.log_softmax(one / t, 1) for one in both)
    gap = F.kl_div(ours, theirs, reduction="batchmean", log_target=True)
    return (1 - recipe.distill) * loss + recipe.distill * t * t * gap


# --- checkpoints ------------------------------------------------------------------------------


@dataclass
class Checkpoint:
    """Everything that the next epoch depends on."""

    epochs: list[Epoch]  # those that are done
    best_epoch: int  # the best of them, from 1; 0 before the first
    best_state: dict[str, Tensor]  # weights at that epoch


def write_checkpoint(
    directory: Path, state: Checkpoint, module: nn.Module, optimizer: SGD, facts: dict[str, Any]
) -> None:
    """Write a checkpoint, replacing the last one at once: readers see the old or the new one."""
    tensors = {f"now.{k}": t for k, t in module.state_dict().items()}
    tensors |= {f"best.{k}": t for k, t in state.best_state.items()}
    for index, p in enumerate(parameters_of(optimizer)):
        momentum = optimizer.state.get(p, {}).get("momentum_buffer")
        if momentum is not None:
            tensors[f"momentum.{index}"] = momentum
    tensors = {k: t.detach().cpu().clone() for k, t in tensors.items()}
    kept = {"run": facts, "epochs": [vars(e) for e in state.epochs], "best": state.best_epoch}
    write_tensors(directory / NAME, "checkpoint", tensors, kept)


def read_checkpoint(
    directory: Path, module: nn.Module, optimizer: SGD, facts: dict[str, Any]
) -> Checkpoint | None:
    """Put the last state into ``module`` and ``optimizer``; None if there is no checkpoint yet."""
    path = directory / NAME
    if not path.exists():
        return None
    tensors, kept = read_tensors(path, "checkpoint", inside=directory)
    damaged, theirs = ValueError(f"{path} is damaged. Delete it to start anew."), kept.get("run")
    if not isinstance(theirs, dict):
        raise damaged
    if theirs != facts:
        differ = [k for k in facts.keys() | theirs.keys() if facts.get(k) != theirs.get(k)]
        names = textwrap.shorten(", ".join(sorted(differ)), 200)
        raise ValueError(
            f"{path} belongs to another training: {names} differ. Choose another directory, or "
            "delete the file to start anew."
        )
    parts: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}, "momentum": {}}
    for name, tensor in tensors.items():
        part, _, key = name.partition(".")
        parts.setdefault(part, {})[key] = tensor
    own, now, best = (
        {name: t.shape for name, t in state.items()}
        for state in (module.state_dict(), parts["now"], parts["best"])
    )
    if now != own:
        raise ValueError(f"{path} belongs to another network. Choose another directory.")
    every = enumerate(parameters_of(optimizer))
    momenta = {p: parts["momentum"][str(n)] for n, p in every if str(n) in parts["momentum"]}
    try:
        epochs, best_epoch = [Epoch(**e) for e in kept["epochs"]], kept["best"]
    except (KeyError, TypeError):
        raise damaged from None
    sound = (
        all(isinstance(v, int | float | None) for e in epochs for v in vars(e).values())
        and isinstance(best_epoch, int)
        and 1 <= best_epoch <= len(epochs)
        and best == own
        and all(p.shape == m.shape for p, m in momenta.items())
    )
    if not sound:
        raise damaged
    # Everything has been checked: only now something changes.
    module.load_state_dict(parts["now"])
    for p, momentum in momenta.items():
        # It lies in memory as its parameter does, because fused steps insist on that.
        optimizer.state[p]["momentum_buffer"] = torch.empty_like(p).copy_(momentum)
    return Checkpoint(epochs, best_epoch, parts["best"])


def parameters_of(optimizer: SGD) -> list[nn.Parameter]:
    """Return all parameters that an optimizer changes, in the order of their groups."""
    return [p for group in optimizer.param_groups for p in group["params"]]
