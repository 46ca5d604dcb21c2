"""Early exit: accuracy against the mean time of an image, by exits and gates.

    python -m benchmarks.cascade --weights W.safetensors --data cifar10:DIR

Behind one cut, three heads are trained alike, with the backbone as it is: products of forms (the
VI-Net), ReLU units at every position, as in the branches of BranchyNet and with as many
multiply-adds as the products, and a linear layer on the means of the channels. Images of which a
head is not sure, by a gate, go through the rest of the uncut network. Thresholds are chosen on one
half of the test images, for a loss of accuracy against the uncut network; accuracy and the share
that leaves early are those of the other half. Time is the mean processor time of one image, one at
a time on one thread, as a share of that of the uncut network in the same run; every image goes
through all networks in turn.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from time import thread_time
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.faithful import without_folders
from benchmarks.record import keep
from vinets import attach_distances, build, fine_tune
from vinets.data import choose_per_class
from vinets.measure import flops
from vinets.nn import Cascade, CutNetwork
from vinets.nn.cascade import GATES, choose_threshold
from vinets.nn.heads import PooledHead, ProductsHead, ReLUUnits
from vinets.pipeline.cascading import mean_seconds
from vinets.pipeline.opening import open_with_data
from vinets.running import evaluating
from vinets.settings import BEST

LOSSES = (0.0, 0.005, 0.01)


def exits(args: argparse.Namespace) -> tuple[nn.Module, dict[str, CutNetwork], Any]:
    """The uncut network, the networks that may answer early, and the test images."""
    torch.manual_seed(args.seed)
    opened, data = open_with_data(args.model, args.data, weights=args.weights)
    model = opened.network
    train = data.train.subset(choose_per_class(data.train.labels, args.train, args.seed))
    options = {"placing": BEST.placing, "collecting": BEST.collecting, "seed": args.seed}
    net, _ = build(model, train, args.cut, **options, progress=None)
    assert isinstance(net.head, ProductsHead)
    channels, positions = net.head.shape
    classes, width = len(train.classes), net.head.count * net.head.factors
    relu = ReLUUnits(channels, positions, classes, count=width, rank=16)
    found = {"VI-Net": net}
    for name, head in (("ReLU units", relu), ("pooled linear", PooledHead(channels, classes))):
        found[name] = CutNetwork(net.backbone, net.reader, head, net.record)
    recipe = replace(BEST.recipe, epochs=args.epochs, batch_size=args.batch_size)
    for name, one in found.items():
        fine_tune(one, train, recipe=recipe, teacher=model, views=1, progress=None)
        found[name] = attach_distances(one.folded(), train, seed=args.seed)
    return model, found, data.test


@torch.no_grad()
def answers(model: nn.Module, early: dict[str, CutNetwork], source: Any) -> dict[str, Tensor]:
    """Whether networks are right, and under (exit, gate) how sure they are, image by image."""
    found: dict[Any, list[Tensor]] = {}
    for x, labels in source.batches(200):
        made = {"uncut": model(x).argmax(1) == labels}
        for name, net in early.items():
            latents = net.latents(x)
            logits = net.head(latents)
            made[name] = logits.argmax(1) == labels
            for gate, sure in GATES.items():
                made[name, gate] = sure(net, latents, logits)
        for key, values in made.items():
            found.setdefault(key, []).append(values.double())
    return {key: torch.cat(values) for key, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--cut", default="layer2.1")
    parser.add_argument("--train", type=int, default=300, help="training examples of every class")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch_size", type=int, default=50)
    parser.add_argument("--images", type=int, default=10_000, help="test images, half to calibrate")
    parser.add_argument("--timed", type=int, default=200, help="of these, timed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="cascade")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, early, test = exits(args)
    half = min(args.images, len(test)) // 2
    order = torch.randperm(len(test), generator=torch.Generator().manual_seed(args.seed))
    with evaluating(model):
        seen = answers(model, early, test.subset(order[: 2 * half]))
        held, rest = ({key: v[part] for key, v in seen.items()} for part in _halves(half))
        made: dict[Any, nn.Module] = {"uncut": model, **early}
        for loss in LOSSES:
            for name, net in early.items():
                for gate in GATES:
                    found = choose_threshold(held[name, gate], held[name], held["uncut"], loss)
                    limit = {"threshold": found.threshold, "gate": gate}
                    made[loss, name, gate] = Cascade.of(net, model, **limit)
        images, _ = next(test.subset(order[half : half + args.timed]).batches(args.timed))
        took = mean_seconds(made, images, thread_time)
        cost = {name: flops(net, images[:1]) for name, net in early.items()}
    uncut = rest["uncut"]
    rows = [_row("none, uncut", "", None, uncut, uncut, 0.0, 1.0)]
    for name in early:
        rows.append(
            _row(name, "all leave", None, rest[name], uncut, 1.0, took[name] / took["uncut"])
        )
    for loss in LOSSES:
        for name in early:
            for gate in GATES:
                one = made[loss, name, gate]
                assert isinstance(one, Cascade)
                leaves = rest[name, gate] >= one.threshold
                right = torch.where(leaves, rest[name], uncut)
                time, share = took[loss, name, gate] / took["uncut"], float(leaves.double().mean())
                rows.append(_row(name, gate, 100 * loss, right, uncut, share, time))
    given = [a for a in vars(args) if getattr(args, a) != parser.get_default(a) and a != "out"]
    words = [w for a in given for w in (f"--{a}", without_folders(str(getattr(args, a))))]
    command = " ".join(["python -m benchmarks.cascade", *words])
    facts = {key: getattr(args, key) for key in ("model", "cut", "train", "epochs", "timed")}
    costs = {"flops_of_an_early_answer": cost, "measured_on": half}
    keep(args.name, rows, args.out, **facts, **costs, command=command)


def _halves(half: int) -> tuple[slice, slice]:
    return slice(half), slice(half, 2 * half)


def _row(
    exit: str,
    gate: str,
    allowed: float | None,
    right: Tensor,
    uncut: Tensor,
    early: float,
    time: float,
) -> dict[str, Any]:
    """One line; what is lost, image by image, has a smaller error than the two accuracies."""
    lost = 100 * (uncut - right)
    row = {"exit": exit, "gate": gate, "allowed_points": allowed}
    row |= {"accuracy_points": 100 * float(right.mean()), "lost_points": float(lost.mean())}
    row |= {"lost_points_se": float(lost.std() / len(lost) ** 0.5)}
    return row | {"early_share": early, "time_share": time}


if __name__ == "__main__":
    main()
