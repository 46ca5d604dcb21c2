"""What training costs: heads beside their bare matrix products, joint tuning beside a plain loop.

    python -m benchmarks.training [heads] [joint] [--threads N] [--rounds N] [--out DIR]

*Heads* are trained by the loop of :func:`vinets.fine_tune` on cached maps, all of as many stored
numbers as the local VI head, but for the linear ones. The floor of a head is the time of the matrix
products that its training cannot do without: every linear map, the gradients of its weights, and of
its inputs where something trained stands in front; on a CPU a few images at a time, which is
faster, on tensors that lie in the cache.

*Joint* is ``fine_tune(trained="backbone")`` of a truncated ResNet-18 with products of two forms,
against a hand-written SGD loop on a copy of the same network; both read the same batches, cropped
and flipped. On a GPU both run in bfloat16, channels last, and tuning once more with recorded steps.
Time is that of the epochs themselves.

Rounds of everything take turns, ratios are medians over rounds. Time does not depend on the values,
so weights and data are random.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.layer import LOCAL, local_head, products_head
from benchmarks.record import keep
from vinets.core.settings import TrainingOptions
from vinets.data.images import Augmentation, ImageSource, Preprocessing
from vinets.heads import Head, LinearHead, LocalReLUHead, PooledHead, ReLUUnits
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.heads.units import UnitsHead, fitting
from vinets.latent import LatentReader, truncate
from vinets.models import create_model
from vinets.networks import CutNetwork, Record
from vinets.training import fine_tune
from vinets.training.feed import LatentViews

CHANNELS, POSITIONS, CLASSES = 128, 64, 10  # of ResNet-18 at layer2.1.bn2
CUT = "layer2.1.bn2"
BATCH = 256
STEPS = 5  # of an epoch
EPOCHS = 4  # of a round: 12 epochs on three views take each view four times
PART = 16  # images whose products stay in the cache of a CPU

Run = Callable[[], float]
"""One round; gives its seconds."""


def rounds(runs: dict[str, Run], count: int) -> dict[str, list[float]]:
    """Seconds of every round, the runs taking turns; a first round is not counted."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(count + 1):
        for name, run in runs.items():
            taken = run()
            if number:
                found[name].append(taken)
    return found


def median_ratio(over: list[float], under: list[float]) -> float:
    return median(a / b for a, b in zip(over, under, strict=True))


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def heads() -> dict[str, Head]:
    """All heads on maps of 128 channels at 64 positions."""
    shape = CHANNELS, POSITIONS
    local = local_head(shape, CLASSES)
    terms = local.polynomials.monomials.terms
    relu = PolynomialLayer(terms, LOCAL, normalized=True, activation="relu")
    size = sum(local.folded().parts().values())
    products = {f"products of {d}": products_head(shape, CLASSES, size, d) for d in (2, 3)}
    rank = len(products["products of 2"].spatial.weight)
    count = fitting(shape, CLASSES, rank, 1, size)
    return {
        "local VI": local,
        "local ReLU": LocalReLUHead.like(local, relu),
        **products,
        "ReLU units": ReLUUnits(*shape, CLASSES, count=count, rank=rank),
        "linear, flat": LinearHead(CHANNELS * POSITIONS, CLASSES),
        "linear, pooled": PooledHead(CHANNELS, CLASSES),
    }


def product(a: Tensor, b: Tensor) -> Callable[[], Tensor]:
    """A product of matrices, or of batches of them, into memory that lies ready."""
    out = torch.matmul(a, b)
    return lambda: torch.matmul(a, b, out=out)


def linear(rows: int, inputs: int, outputs: int, *, first: bool) -> list[Callable[[], Tensor]]:
    """Products of a linear map; the first needs no gradients of its inputs."""
    x, weight, grad = (torch.randn(s) for s in ((rows, inputs), (outputs, inputs), (rows, outputs)))
    made = [product(x, weight.mT), product(grad.mT, x)]
    return made if first else [*made, product(grad, weight)]


def floor(head: Head, images: int) -> list[Callable[[], Tensor]]:
    """The products of one step of training, those at positions for so many images at a time."""
    if isinstance(head, LinearHead):
        return linear(BATCH, CHANNELS * POSITIONS, CLASSES, first=True)
    if isinstance(head, PooledHead):
        return linear(BATCH, CHANNELS, CLASSES, first=True)
    if isinstance(head, UnitsHead):
        rank, count = head.spatial.weight.shape
        y, grad = torch.randn(images, POSITIONS, count), torch.randn(images, rank, count)
        patterns = torch.randn(rank, POSITIONS).expand(images, -1, -1)
        local = [
            *linear(images * POSITIONS, CHANNELS, head.factors * count, first=True),
            product(patterns, y),
            product(grad, y.mT),
            product(patterns.mT, grad),
        ]
    else:  # its sums have a weight for every polynomial and position: no product of matrices
        count = LOCAL
        local = linear(images * POSITIONS, CHANNELS, count, first=True)
    return BATCH // images * local + linear(BATCH, count, CLASSES, first=False)


def head_rows(steps: int, count: int, device: torch.device) -> list[dict[str, Any]]:
    """Images per second of every head on cached maps, beside its floor."""
    examples = steps * BATCH
    maps = torch.randn(examples, CHANNELS, POSITIONS, device=device)
    labels = torch.randint(CLASSES, (examples,), device=device)
    none = maps[:0], labels[:0]
    views = LatentViews((maps,), labels, (), *none)
    recipe = TrainingOptions(epochs=EPOCHS, batch_size=BATCH, validation=0.0)
    made = heads()
    runs: dict[str, Run] = {}

    def training(head: Head) -> Run:
        network = CutNetwork(nn.Identity(), LatentReader(), head, Record(CUT, {})).to(device)

        def run() -> float:
            begin = clock(device)
            fine_tune(network, views, recipe=recipe, progress=None)
            return clock(device) - begin

        return run

    def bare(head: Head) -> Run:
        with device:
            products = floor(head, PART if device.type == "cpu" else BATCH)

        def run() -> float:
            begin = clock(device)
            for _ in range(EPOCHS * steps):
                for each in products:
                    each()
            return clock(device) - begin

        return run

    for name, head in made.items():
        runs[name] = training(head)
        runs[f"{name}, floor"] = bare(head)
    taken = rounds(runs, count)
    return [
        {
            "head": name,
            "numbers": sum(head.folded().parts().values()),
            "images_per_second": EPOCHS * examples / median(taken[name]),
            "floor_images_per_second": EPOCHS * examples / median(taken[f"{name}, floor"]),
            "cost_ratio": median_ratio(taken[name], taken[f"{name}, floor"]),
            "seconds": taken[name],
            "floor_seconds": taken[f"{name}, floor"],
        }
        for name, head in made.items()
    ]


def joint_rows(images: int, batch: int, count: int, device: torch.device) -> list[dict[str, Any]]:
    """Joint tuning against the plain loop, without a teacher and with one."""
    pixels = torch.randint(256, (images, 3, 32, 32), dtype=torch.uint8)
    source = ImageSource(
        pixels.to(device),
        torch.randint(CLASSES, (images,)),
        [str(k) for k in range(CLASSES)],
        Preprocessing.from_images(pixels),
        Augmentation.for_size((32, 32)),
    )
    model = create_model("resnet18", CLASSES).to(device)
    example = torch.zeros(1, 3, 32, 32, device=device)
    head = products_head((CHANNELS, POSITIONS), CLASSES, 180_000)
    record = Record(CUT, {"": {"shape": [3, 32, 32], "dtype": "float32"}})
    network = CutNetwork(truncate(model, CUT, example), LatentReader(), head, record).to(device)
    half = device.type == "cuda"
    recipe = TrainingOptions(
        epochs=1,
        batch_size=batch,
        nesterov=True,
        weight_decay=1e-3,
        precision="bfloat16" if half else "float32",
        validation=0.0,
    )

    def tuned(teacher: nn.Module | None, recorded: bool = False) -> Run:
        own = copy.deepcopy(network)
        # a step is recorded in the first epoch
        longer = replace(recipe, epochs=2 if recorded else 1)
        options: dict[str, Any] = {"trained": "backbone", "teacher": teacher, "recorded": recorded}

        def run() -> float:
            history = fine_tune(own, source, recipe=longer, progress=None, **options)
            return history.epochs[-1].seconds

        return run

    def plain(teacher: nn.Module | None) -> Run:
        own = copy.deepcopy(network)
        own.thaw()
        layout: Any = {"memory_format": torch.channels_last} if half else {}
        own.to(**layout)
        if teacher is not None:
            teacher = copy.deepcopy(teacher).to(**layout).eval()
        optimizer = torch.optim.SGD(
            own.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True
        )

        def run() -> float:
            own.train()
            begin = clock(device)
            order = torch.randperm(images)[: images // batch * batch]
            draws = torch.Generator().manual_seed(0)
            for x, labels in source.batches(batch, order=order, augment=draws, device=device):
                x = x.to(**layout)
                with torch.autocast(device.type, torch.bfloat16, enabled=half):
                    logits = own(x).float()
                loss = F.cross_entropy(logits, labels)
                if teacher is not None:
                    with (
                        torch.no_grad(),
                        torch.autocast(device.type, torch.bfloat16, enabled=half),
                    ):
                        taught = teacher(x).float()
                    gap = F.kl_div(
                        F.log_softmax(logits / 2, 1),
                        F.log_softmax(taught / 2, 1),
                        reduction="batchmean",
                        log_target=True,
                    )
                    loss = 0.3 * loss + 0.7 * 4 * gap
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return clock(device) - begin

        return run

    cases = {"no": None, "yes": model}
    runs = {}
    for name, teacher in cases.items():  # side by side
        runs |= {f"{name} tuned": tuned(teacher), f"{name} plain": plain(teacher)}
        if half:
            runs[f"{name} recorded"] = tuned(teacher, recorded=True)
    taken = rounds(runs, count)
    seen = images // batch * batch
    return [
        {
            "teacher": name,
            "batch": batch,
            "images_per_second": seen / median(taken[f"{name} tuned"]),
            "plain_images_per_second": seen / median(taken[f"{name} plain"]),
            "speed_ratio": median_ratio(taken[f"{name} plain"], taken[f"{name} tuned"]),
            "seconds": taken[f"{name} tuned"],
            "plain_seconds": taken[f"{name} plain"],
        }
        | (_recorded(seen, taken[f"{name} plain"], taken[f"{name} recorded"]) if half else {})
        for name in cases
    ]


def _recorded(seen: int, plain: list[float], recorded: list[float]) -> dict[str, Any]:
    return {
        "recorded_images_per_second": seen / median(recorded),
        "recorded_ratio": median_ratio(plain, recorded),
        "recorded_seconds": recorded,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="heads, joint, or both")
    parser.add_argument("--threads", type=int, help="of a CPU; all, if not given")
    parser.add_argument(
        "--rounds", type=int, default=20, help="of four epochs; a quarter for joint"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    given = {k: v for k, v in vars(options).items() if k in ("threads", "rounds") and v}
    command = " ".join(["python -m benchmarks.training", *(f"--{k} {v}" for k, v in given.items())])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = device.type == "cuda"
    suffix = "_gpu" if on_gpu else ""
    torch.manual_seed(0)
    parts = options.parts or ["heads", "joint"]
    if "heads" in parts:
        rows = head_rows(STEPS, options.rounds, device)
        keep(f"training{suffix}", rows, options.out, command=command, batch=BATCH)
    if "joint" in parts:
        images, batch = (12_800, 256) if on_gpu else (256, 64)
        rows = joint_rows(images, batch, -(-options.rounds // 4), device)
        keep(f"training_joint{suffix}", rows, options.out, command=command, cut=CUT)


if __name__ == "__main__":
    main()
