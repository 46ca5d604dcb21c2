"""Early exit: accuracy against the mean time of an image, beside an exit with a pooled linear head.

    python -m benchmarks.cascade --weights W.safetensors --data cifar10:DIR --cut layer2.1

Behind one cut, a VI head and a linear head on the means of the channels (an exit as in BranchyNet)
are trained alike, with the backbone as it is. Images of which a head is not sure, by its largest
probability, go through the rest of the uncut network. Thresholds are chosen on a part of the test
images, for a loss of accuracy against the uncut network; accuracy, the share that leaves early, and
time are those of the others. Time is that of one image at a time on one thread, as a ratio to the
uncut network in the same run; images of all networks take turns.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.faithful import without_folders
from benchmarks.record import keep
from vinets import build, fine_tune
from vinets.data import choose_per_class
from vinets.nn import Cascade, CutNetwork
from vinets.nn.heads import PooledHead
from vinets.pipeline.opening import open_with_data
from vinets.running import evaluating
from vinets.settings import BEST


def heads(args: argparse.Namespace) -> tuple[nn.Module, dict[str, CutNetwork], Any]:
    """The uncut network, the networks that may answer early, and the test images."""
    torch.manual_seed(args.seed)
    opened, data = open_with_data(args.model, args.data, weights=args.weights)
    model = opened.network
    train = data.train.subset(choose_per_class(data.train.labels, args.train, args.seed))
    net, _ = build(
        model, train, args.cut, placing=BEST.placing, collecting=BEST.collecting, progress=None
    )
    with torch.no_grad():
        shape = net.latents(data.test.example()).shape
    head = PooledHead(shape[1], len(data.train.classes))
    found = {"VI-Net": net, "pooled": CutNetwork(net.backbone, net.reader, head, net.record)}
    recipe = replace(BEST.recipe, epochs=args.epochs, batch_size=args.batch_size)
    for one in found.values():
        fine_tune(one, train, recipe=recipe, teacher=model, views=1, progress=None)
    return model, {name: one.folded() for name, one in found.items()}, data.test


def timed(networks: dict[str, nn.Module], images: Tensor) -> dict[str, float]:
    """Mean seconds of an image; networks take turns."""
    spent: dict[str, list[float]] = {name: [] for name in networks}
    for i, x in enumerate(images.split(1)):
        for name, network in networks.items():
            begin = time.perf_counter()
            network(x)
            if i >= 3:  # the first ones warm up
                spent[name].append(time.perf_counter() - begin)
    return {name: mean(times) for name, times in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--cut", default="layer2.1")
    parser.add_argument("--train", type=int, default=150, help="training examples of every class")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch_size", type=int, default=50)
    parser.add_argument("--images", type=int, default=1000, help="test images, half to calibrate")
    parser.add_argument("--timed", type=int, default=100, help="of these, timed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="cascade")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, early, test = heads(args)
    half = args.images // 2
    held = test.subset(torch.arange(half))
    images, labels = next(test.subset(torch.arange(half, 2 * half)).batches(half))

    def accuracy(network: nn.Module) -> float:
        logits = torch.cat([network(part) for part in images.split(100)])
        return float((logits.argmax(1) == labels).double().mean())

    rows: list[dict[str, Any]] = []
    with evaluating(model):
        rows.append({"exit": "none, uncut", "accuracy_points": 100 * accuracy(model)})
        rows[0] |= {"early_share": 0.0, "speed_ratio": 1.0}
        for name, one in early.items():
            with evaluating(one):
                alone = 100 * accuracy(one)
            rows.append({"exit": f"{name} alone", "accuracy_points": alone, "early_share": 1.0})
        for loss in (0.0, 0.01, 0.02):
            made: dict[str, nn.Module] = {"uncut": model}
            for name, one in early.items():
                cascade = Cascade.of(one, model)
                cascade.calibrate(held, loss)
                made[name] = cascade
            took = timed(made, images[: args.timed])
            for name in early:
                cascade = made[name]
                assert isinstance(cascade, Cascade)
                sure = torch.cat([cascade.answers(part)[1] for part in images.split(100)])
                rows.append(
                    {
                        "exit": f"{name}, to lose {loss:.0%}",
                        "accuracy_points": 100 * accuracy(cascade),
                        "early_share": float(sure.double().mean()),
                        "speed_ratio": took["uncut"] / took[name],
                    }
                )
    given = [a for a in vars(args) if getattr(args, a) != parser.get_default(a) and a != "out"]
    words = [w for a in given for w in (f"--{a}", without_folders(str(getattr(args, a))))]
    command = " ".join(["python -m benchmarks.cascade", *words])
    facts = {key: getattr(args, key) for key in ("model", "cut", "train", "epochs", "images")}
    keep(args.name, rows, args.out, **facts, command=command)


if __name__ == "__main__":
    main()
