"""What polynomials cost: images per second against a pooled linear layer on the same backbone.

    python -m benchmarks.heads
    python -m benchmarks.heads --device cuda --batch 256 --compile --half
    python -m benchmarks.heads --device cuda --batch 256 --recorded --amp --channels-last

``of_pooled`` is the ratio of networks as they run in use, ``of_pooled_plain`` that of the same
ones with the operations of training. ``of_pooled_floor`` is that of a pooled network which, beside
its own work, multiplies matrices as large as those of the head, and does nothing with the
results: no head that multiplies them in this precision is faster. Windows of all networks behind a
cut take turns. On the CPU one thread runs, and only the time in which it ran counts. Speed does not
depend on the values, so weights are random.
"""

from __future__ import annotations

import argparse
import copy
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.layer import local_head, products_head, vanishing_head
from benchmarks.record import RESULTS, keep
from benchmarks.rivals.speed import CLASSES, thread_rates
from benchmarks.tuning import VARIANT_PARAMETERS
from vinets.heads import Head, PooledHead, units
from vinets.heads.pieces import traced
from vinets.heads.polynomial_head import PolynomialHead
from vinets.heads.units import UnitsHead
from vinets.latent import LatentReader, truncate
from vinets.measure import flops, measure_speed
from vinets.models import create_model
from vinets.models.networks import SIZES
from vinets.networks import CutNetwork, Record

CUTS = (
    ("resnet18", "layer1.1.bn2"),
    ("resnet18", "layer2.0.bn2"),
    ("resnet18", "layer2.1.bn2"),
    ("resnet18", "layer3.1.bn2"),
    ("resnet34", "layer2.1.bn2"),
    ("resnet34", "layer3.5.bn2"),
)
HEADS: dict[str, Callable[[tuple[int, int], int], Head]] = {
    "best": products_head,
    "best, sizes": lambda shape, k: products_head(shape, k, VARIANT_PARAMETERS),
    "paper": lambda shape, k: vanishing_head(shape, k, SIZES["resnet18"]),
    "paper, local": lambda shape, k: local_head(shape, k),
}
POOLED = "pooled"
WAYS = {
    "compile": "by torch.compile",
    "half": "float16 weights and images",
    "amp": "bfloat16 under autocast",
    "recorded": "a pass as a CUDA graph",
    "channels_last": "images in this memory format",
}


class Floor(nn.Module):
    """A pooled network that multiplies the matrices of another head for nothing."""

    def __init__(self, pooled: CutNetwork, head: Head) -> None:
        super().__init__()
        self.pooled = pooled
        self.register_buffer("nothing", torch.zeros(()))
        self.matrices = nn.ParameterList()
        if isinstance(head, UnitsHead):
            self.everywhere = True  # at every position
            self.matrices.append(head.forms.weight)
        else:
            assert isinstance(head, PolynomialHead)
            self.everywhere = head.local
            if head.projection is not None:
                self.matrices.append(head.projection.weight)
            self.matrices.append(head.polynomials.get_parameter("weight"))

    def forward(self, x: Tensor) -> Tensor:
        latents = self.pooled.latents(x)
        logits: Tensor = self.pooled.head(latents)
        if self.everywhere:
            # an image at a time, which stays in the cache of a CPU
            for h in latents.split(1) if latents.is_cpu and not traced() else (latents,):
                for matrix in self.matrices:
                    made = torch.bmm(matrix.expand(len(h), -1, -1), h)
            wasted = made[0]
        else:
            wasted = latents.flatten(1)
            for matrix in self.matrices:
                # monomials are more than their variables: their number counts, not their values
                times = -(-matrix.shape[1] // wasted.shape[1])
                wasted = F.linear(wasted.repeat(1, times)[:, : matrix.shape[1]], matrix)
        # A sum that changes nothing keeps a compiler from leaving the products out; if it knew the
        # zero, it would.
        return logits + self.nothing * wasted[:1, :1].sum()


class Plain(nn.Module):
    """A network that runs as if gradients were wanted, without them: before it is made faster."""

    def __init__(self, network: CutNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor
        with patch.object(units, "in_use", _no):
            logits = self.network(x)
        return logits


def _no() -> bool:
    return False


def networks(
    name: str, cut: str, heads: Sequence[str], *, floors: bool = True
) -> dict[str, nn.Module]:
    """The pooled network, those with polynomials, these as they run in training, their floors."""
    example, reader = torch.randn(1, 3, 32, 32), LatentReader()
    backbone = truncate(create_model(name, CLASSES[name]), cut, example)
    with torch.no_grad():
        _, channels, positions = reader(backbone(example)).shape
    record = Record(cut, {})

    def behind(head: Head) -> CutNetwork:
        return CutNetwork(backbone, reader, head, record).folded()

    pooled = behind(PooledHead(channels, CLASSES[name]))
    made: dict[str, nn.Module] = {POOLED: pooled}
    for kind in heads:
        network = behind(HEADS[kind]((channels, positions), CLASSES[name]))
        made |= {kind: network, f"plain {kind}": Plain(network)}
        if floors:
            made[f"floor of {kind}"] = Floor(pooled, network.head)
    return made


def rates(group: dict[str, nn.Module], batch: int, args: argparse.Namespace) -> dict[str, Any]:
    """Passes or images per second in every window."""
    if args.compile:  # a compiler would not follow the patch
        group = {name: one for name, one in group.items() if not isinstance(one, Plain)}
    example, windows = torch.randn(batch, 3, 32, 32), {"repeats": args.repeats}
    windows["seconds"] = args.seconds
    if args.device == "cpu" and not any(getattr(args, way) for way in WAYS):
        return thread_rates(group, example, **windows)
    if args.half:
        group = {name: copy.deepcopy(network).half() for name, network in group.items()}
        example = example.half()
    options = {way: getattr(args, way) for way in WAYS if way != "half"}
    options["device"] = args.device
    found = measure_speed(group, example, batch_sizes=(batch,), **options, **windows)
    return {name: one.rates for name, (one,) in found.items()}


def row(name: str, cut: str, kind: str, batch: int, found: dict[str, Any]) -> dict[str, Any]:
    """One network, in numbers."""

    def ratio(of: str) -> float:
        return median(a / b for a, b in zip(found[of], found[POOLED], strict=True))

    facts: dict[str, Any] = {"network": name, "cut": cut, "head": kind, "batch": batch}
    wanted = {
        "of_pooled_plain": f"plain {kind}",
        "of_pooled": kind,
        "of_pooled_floor": f"floor of {kind}",
    }
    return facts | {key: ratio(of) for key, of in wanted.items() if of in found}


def main(words: Sequence[str]) -> None:
    """Measure what the command asks for; what is done is kept after every cut."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64])
    for way, meaning in WAYS.items():
        parser.add_argument(f"--{way.replace('_', '-')}", action="store_true", help=meaning)
    parser.add_argument("--heads", nargs="+", default=list(HEADS), choices=list(HEADS))
    parser.add_argument("--cuts", type=int, default=len(CUTS), help="only the first so many")
    parser.add_argument("--no-floors", dest="floors", action="store_false")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args(words)
    where = "" if args.device == "cpu" else f"_{args.device}"
    names = {"compile": "compiled"}
    how = "".join(f"_{names.get(way, way)}" for way in WAYS if getattr(args, way))
    words = list(words)
    if "--out" in words:  # where it is kept changes nothing
        del words[words.index("--out") : words.index("--out") + 2]
    command = shlex.join(["python", "-m", "benchmarks.heads", *words])
    torch.manual_seed(0)
    rows: list[dict[str, Any]] = []
    for name, cut in CUTS[: args.cuts]:
        group = networks(name, cut, args.heads, floors=args.floors)
        work = {kind: flops(one, torch.zeros(1, 3, 32, 32)) for kind, one in group.items()}
        shares = {kind: work[kind] / work[POOLED] - 1 for kind in args.heads}
        for batch in args.batch:
            found = rates(group, batch, args)
            more = {"pooled_images_per_second": median(found[POOLED])} if where else {}
            rows += [
                row(name, cut, kind, batch, found) | {"head_share": shares[kind]} | more
                for kind in args.heads
            ]
        keep(f"heads{where}{how}", rows, args.out, command=command)


if __name__ == "__main__":
    main(sys.argv[1:])
