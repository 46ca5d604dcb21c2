"""The training loop: once, for heads on frozen latents and for whole networks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import SGD

from vinets.progress import Progress, progress_of
from vinets.running import call, logits_of
from vinets.settings import Recipe
from vinets.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from vinets.training.feed import Feed, Step
from vinets.training.history import Epoch, History


def fit(
    module: nn.Module,
    feed: Feed,
    recipe: Recipe,
    *,
    parameters: Iterable[nn.Parameter] | None = None,
    directory: str | Path | None = None,
    device: torch.device | str = "cpu",
    stage: str = "training",
    progress: Progress | str | None = None,
) -> History:
    """Train ``module``, which lies on ``device``, and leave it with the weights of its best epoch.

    Only ``parameters`` are trained; None means all. With a directory, a checkpoint is written there
    after every epoch, and training goes on from one that is there. The result is the same as
    without the interruption.
    """
    trained = [p for p in (parameters or module.parameters()) if p.requires_grad]
    optimizer = SGD(
        trained,
        lr=recipe.learning_rate,
        momentum=recipe.momentum,
        weight_decay=recipe.decay,
        nesterov=recipe.nesterov,
    )
    steps = feed.steps(recipe.batch_size)
    facts = asdict(recipe) | {
        "steps": steps,
        "numbers": sum(p.numel() for p in trained),
        "data": feed.fingerprint(),
    }
    folder = None if directory is None else Path(directory)
    state = Checkpoint([], 0, {})
    if folder is not None:
        state = read_checkpoint(folder, module, optimizer, facts) or state
    watch = progress_of(progress)
    watch.start(stage, recipe.epochs * steps)
    watch.advance(len(state.epochs) * steps)
    for number in range(len(state.epochs) + 1, recipe.epochs + 1):
        with _products(recipe):
            epoch = _epoch(module, feed, recipe, optimizer, number, watch, torch.device(device))
        state.epochs.append(epoch)
        if _better(state):
            state.best_epoch = number
            state.best_state = {k: t.detach().clone() for k, t in module.state_dict().items()}
        if folder is not None:
            write_checkpoint(folder, state, module, optimizer, facts)
    module.load_state_dict(state.best_state)
    module.eval()
    return History(tuple(state.epochs), state.best_epoch, recipe)


@contextmanager
def _products(recipe: Recipe) -> Iterator[None]:
    """Let matrix products on a GPU round to TensorFloat-32 where the recipe says so."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = before or recipe.precision == "tf32"
    try:
        yield
    finally:  # ideals, which need every bit, are found between trainings
        torch.backends.cuda.matmul.allow_tf32 = before


def _epoch(
    module: nn.Module,
    feed: Feed,
    recipe: Recipe,
    optimizer: SGD,
    number: int,
    watch: Progress,
    device: torch.device,
) -> Epoch:
    begin = time.perf_counter()
    module.train()
    steps = feed.steps(recipe.batch_size)
    losses: list[Tensor] = []
    hits: list[Tensor] = []
    seen = 0
    for index, (inputs, labels, taught) in enumerate(feed.epoch(number, recipe.batch_size)):
        rate = recipe.rate((number - 1) * steps + index, recipe.epochs * steps)
        optimizer.param_groups[0]["lr"] = rate
        with torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bfloat16"):
            logits = logits_of(call(module, inputs))
        loss = _loss(logits.float(), labels, taught, recipe)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if recipe.clip is not None:
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], recipe.clip)
        optimizer.step()
        losses.append(loss.detach())
        hits.append((logits.detach().argmax(1) == labels).sum())
        seen += len(labels)
        watch.advance(1, "")
    loss_mean = float(torch.stack(losses).mean())
    if not loss_mean < float("inf"):
        raise ValueError(
            f"the loss is {loss_mean} in epoch {number}: the training diverged. Lower "
            "learning_rate or pass clip=1.0."
        )
    accuracy = float(torch.stack(hits).sum()) / seen
    held = _held_out(module, feed.held_out(recipe.batch_size), recipe, device)
    note = f"loss {loss_mean:.3f}" + ("" if held is None else f", held out {held[1]:.2%}")
    watch.advance(0, note)
    seconds = time.perf_counter() - begin
    held_loss, held_accuracy = held if held is not None else (None, None)
    return Epoch(number, loss_mean, accuracy, held_loss, held_accuracy, seconds)


def _loss(logits: Tensor, labels: Tensor, taught: Tensor | None, recipe: Recipe) -> Tensor:
    loss = F.cross_entropy(logits, labels, label_smoothing=recipe.label_smoothing)
    if taught is None or not recipe.distill:
        return loss
    t = recipe.temperature
    gap = F.kl_div(
        F.log_softmax(logits / t, 1),
        F.log_softmax(taught.float() / t, 1),
        reduction="batchmean",
        log_target=True,
    )
    return (1 - recipe.distill) * loss + recipe.distill * t * t * gap


@torch.no_grad()
def _held_out(
    module: nn.Module, steps: Iterable[Step], recipe: Recipe, device: torch.device
) -> tuple[float, float] | None:
    module.eval()
    total, hits, seen = 0.0, 0, 0
    for inputs, labels, _ in steps:
        with torch.autocast(device.type, torch.bfloat16, enabled=recipe.precision == "bfloat16"):
            logits = logits_of(call(module, inputs)).float()
        total += float(F.cross_entropy(logits, labels, reduction="sum"))
        hits += int((logits.argmax(1) == labels).sum())
        seen += len(labels)
    return None if seen == 0 else (total / seen, hits / seen)


def _better(state: Checkpoint) -> bool:
    """Whether the last epoch is the best so far on the held-out part; of equals the later one.

    The loss would be no better judge: a backbone that has seen the held-out examples makes it
    small early, while the learning rate is still high.
    """
    last = state.epochs[-1].validation_accuracy
    if state.best_epoch == 0 or last is None:
        return True
    best = state.epochs[state.best_epoch - 1].validation_accuracy
    return best is None or last >= best
