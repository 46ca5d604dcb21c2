"""How faithful the maps of ``vinets explain`` are, beside those of gradients.

    python -m benchmarks.faithful
    python -m benchmarks.faithful --model resnet18 --weights W.safetensors --data cifar10:DIR \
        --cut layer2.1.bn2 --train 200 --epochs 6 --images 64 --name faithful_cifar10

A product head is made and trained behind the cut, and test images that it has right are explained.
*Deletion* takes pixels away from the image, the most important first: the probability of the answer
should fall early. *Insertion* puts them into an image of nothing: it should rise early (Petsiuk,
Das and Saenko, 2018). The figures are areas under these curves, less is better for deletion and
more for insertion; pixels are replaced by the mean pixel or by the blurred image.
Gradients are those of the same margin, with respect to pixels; ``on the grid`` sums them over the
squares of our map, and draws them as we draw ours: then only the values differ, not the resolution.
Intervals are one standard error over the images.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.record import keep
from vinets import build, fine_tune, train_classifier
from vinets.core.device import evaluating
from vinets.core.settings import TrainingOptions
from vinets.data import choose_per_class
from vinets.explanations.sums import HeadSum, head_sum
from vinets.heads import ProductsHead
from vinets.heads.pieces import integrated_gradients, margin_gradient
from vinets.networks import CutNetwork
from vinets.runs.on_data import open_with_data

Maps = Callable[[Tensor, Tensor, Tensor], Tensor]  # images, answers, next classes to (B, H, W)


def trained(args: argparse.Namespace, seed: int) -> tuple[CutNetwork, Any]:
    """A network with a product head, and its data."""
    torch.manual_seed(seed)
    opened, data = open_with_data(args.model, args.data, weights=args.weights)
    model, train = opened.network, data.train
    if args.weights is None:
        train_classifier(model, train, epochs=args.epochs, progress=None)
    if args.train is not None:
        train = train.subset(choose_per_class(train.labels, args.train, seed))
    net, _ = build(model, train, args.cut, head=args.head, seed=seed, progress=None)
    recipe = replace(
        TrainingOptions(**ProductsHead.training_defaults),
        epochs=args.epochs,
        batch_size=args.batch_size,
        trained="coefficients",
        views=args.views,
    )
    fine_tune(net, train, recipe=recipe, teacher=model, progress=None)
    return net.folded(), replace(data, train=train)


class Ours:
    """Contributions of positions, less those of a middle."""

    def __init__(self, net: CutNetwork, data: Any, per_class: int = 100) -> None:
        self.net, self.total = net, head_sum(net.head)
        self.means = class_values(net, self.total, data.train, per_class)

    def grid(self, images: Tensor, answers: Tensor, nexts: Tensor, middle: str) -> Tensor:
        """Contributions (B, H, W) by position."""
        with torch.no_grad():
            latents = self.net.latents(images)
            v = self.total.values(self.total.variables(latents))
            weight = self.total.weight[answers] - self.total.weight[nexts]  # (B, N)
            before: Tensor | float = 0.0
            if middle == "pair":
                before = (self.means[answers] + self.means[nexts]) / 2
            elif middle == "all":
                before = self.means.mean(0)
            at = torch.einsum("bn,bpn->bp", weight, v - before)
            path = self.total.path(latents)
            assert path is None, "the benchmark has no linear path"
        side = round(at.shape[1] ** 0.5)
        return at.view(len(at), side, side).float()

    def maps(self, middle: str) -> Maps:
        def made(images: Tensor, answers: Tensor, nexts: Tensor) -> Tensor:
            return spread(self.grid(images, answers, nexts, middle), images.shape[2:])

        return made


def class_values(net: CutNetwork, total: HeadSum, source: Any, per_class: int) -> Tensor:
    """Mean values (K, P, N) of every class."""
    sums: list[Any] = [0.0] * len(source.classes)
    counts = [0] * len(source.classes)
    chosen = choose_per_class(source.labels, per_class, 0)
    with evaluating(net):
        for batch, labels in source.batches(64, order=chosen):
            v = total.values(total.variables(net.latents(batch)))
            for k in labels.unique().tolist():
                sums[k] = sums[k] + v[labels == k].sum(0)
                counts[k] += int((labels == k).sum())
    return torch.stack([s / c for s, c in zip(sums, counts, strict=True)])


def spread(grid: Tensor, size: Any) -> Tensor:
    """A map of positions as one of pixels."""
    return F.interpolate(grid[:, None], tuple(size), mode="bilinear", align_corners=False)[:, 0]


def times_input(net: CutNetwork) -> Maps:
    def made(images: Tensor, answers: Tensor, nexts: Tensor) -> Tensor:
        return (margin_gradient(net, images, answers, nexts) * images).sum(1)

    return made


def integrated(net: CutNetwork) -> Maps:
    return partial(integrated_gradients, net)


def on_grid(maps: Maps, side: int) -> Maps:
    def made(images: Tensor, answers: Tensor, nexts: Tensor) -> Tensor:
        return spread(
            F.adaptive_avg_pool2d(maps(images, answers, nexts)[:, None], side)[:, 0],
            images.shape[2:],
        )

    return made


def by_chance(side: int, seed: int) -> Maps:
    draw = torch.Generator().manual_seed(seed)

    def made(images: Tensor, answers: Tensor, nexts: Tensor) -> Tensor:
        return spread(torch.randn(len(images), side, side, generator=draw), images.shape[2:])

    return made


def blurred(images: Tensor) -> Tensor:
    """Gaussian blur, a quarter of the side wide."""
    side = images.shape[-1]
    sigma = side / 8
    steps = torch.arange(-(side // 2), side // 2 + 1)
    kernel = torch.exp(-(steps**2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum()).expand(images.shape[1], 1, -1)
    pad, groups = side // 2, images.shape[1]
    rows = F.conv2d(F.pad(images, (pad, pad, 0, 0), "replicate"), kernel[:, :, None], groups=groups)
    return F.conv2d(F.pad(rows, (0, 0, pad, pad), "replicate"), kernel[..., None], groups=groups)


def measured(args: argparse.Namespace, seed: int) -> tuple[dict[str, dict[str, Tensor]], float]:
    """Areas of every image by method, and the share of test images that is right."""
    net, data = trained(args, seed)
    images, labels = [], []
    right = seen = 0
    with evaluating(net):
        for batch, truth in data.test.batches(64):
            hit = net(batch).argmax(1) == truth
            right, seen = right + int(hit.sum()), seen + len(truth)
            images.append(batch[hit])
            labels.append(truth[hit])
            if args.weights is not None and seen >= max(1000, 2 * args.images):
                break
    x, answers = torch.cat(images)[: args.images], torch.cat(labels)[: args.images]
    with evaluating(net):
        nexts = net(x).scatter(1, answers[:, None], -torch.inf).argmax(1)
    ours = Ours(net, data)
    side = ours.grid(x[:1], answers[:1], nexts[:1], "pair").shape[-1]
    methods = {
        f"{net.head.label}, from the middle of both classes": ours.maps("pair"),
        f"{net.head.label}, from the mean of all classes": ours.maps("all"),
        f"{net.head.label}, from zero": ours.maps("zero"),
        "gradient × input": times_input(net),
        "integrated gradients": integrated(net),
        "gradient × input, on the grid": on_grid(times_input(net), side),
        "integrated gradients, on the grid": on_grid(integrated(net), side),
        "at random, on the grid": by_chance(side, seed),
    }
    blanks = {"mean": torch.zeros_like(x), "blurred": blurred(x)}
    found: dict[str, dict[str, Tensor]] = {}
    with evaluating(net):
        for name, maps in methods.items():
            with torch.enable_grad():
                those = torch.cat(
                    [
                        maps(*part).detach()
                        for part in zip(*(t.split(32) for t in (x, answers, nexts)), strict=True)
                    ]
                )
            areas = {}
            for kind, blank in blanks.items():
                deleted, inserted = faithfulness(net, x, those, answers, blank)
                areas |= {f"deletion_{kind}": deleted, f"insertion_{kind}": inserted}
            found[name] = areas
    return found, right / seen


@torch.no_grad()
def faithfulness(
    network: Callable[[Tensor], Tensor],
    images: Tensor,
    maps: Tensor,
    answers: Tensor,
    blank: Tensor,
    steps: int = 16,
) -> tuple[Tensor, Tensor]:
    """Return the areas under the curves of deletion and insertion of every image, (B,) each.

    Pixels of the images (B, C, H, W) are replaced by those of ``blank``, or the other way round, in
    the order of the maps (B, H, W), the largest values first.
    """
    order = maps.flatten(1).argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1]).to(order)[None].expand_as(order)
    )
    place = rank.view(len(images), 1, *images.shape[2:])
    areas = []
    for ones in ((blank, images), (images, blank)):
        curve = []
        for step in range(steps + 1):
            changed = place < round(order.shape[1] * step / steps)
            shares = network(torch.where(changed, *ones)).double().softmax(1)
            curve.append(shares.gather(1, answers[:, None])[:, 0])
        values = torch.stack(curve, 1)
        areas.append((values[:, 1:] + values[:, :-1]).mean(1) / 2)
    return areas[0], areas[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="digits_cnn")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--data", default="digits")
    parser.add_argument("--cut", default="pool")
    parser.add_argument("--head", default="products", choices=("products", "local"))
    parser.add_argument("--train", type=int, help="training examples of every class")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--views", type=int, help="augmented views of the latents to cache")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3, help="networks")
    parser.add_argument("--name", default="faithful_digits")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    runs = [measured(args, seed) for seed in range(args.seeds)]
    rows = []
    for method in runs[0][0]:
        row: dict[str, Any] = {"method": method}
        for area in runs[0][0][method]:
            values = torch.cat([found[method][area] for found, _ in runs])
            row[area] = float(values.mean())
            row[f"{area}_se"] = float(values.std() / len(values) ** 0.5)
        rows.append(row)
    accuracy = sum(right for _, right in runs) / len(runs)
    data = args.data.partition(":")[0]
    given = [a for a in vars(args) if getattr(args, a) != parser.get_default(a) and a != "out"]
    words = [w for a in given for w in (f"--{a}", without_folders(str(getattr(args, a))))]
    command = " ".join(["python -m benchmarks.faithful", *words])
    facts = {"model": args.model, "data": data, "cut": args.cut, "head": args.head}
    counts = {"images": args.images, "networks": args.seeds, "epochs": args.epochs}
    keep(
        args.name,
        rows,
        args.out,
        **facts,
        **counts,
        train=args.train,
        accuracy=accuracy,
        command=command,
    )


def without_folders(word: str) -> str:
    """What is said of a file or of data, without where it lies here."""
    kind, colon, _ = word.partition(":")
    return f"{kind}:DIR" if colon else Path(kind).name


if __name__ == "__main__":
    main()
