"""How much faster cut networks are on a CPU, with the heads of the tables.

    python -m benchmarks.speed

ResNet-18 for CIFAR-10 against its Tiny and Small cuts, at batch 256. Windows of all networks take
turns. Speed does not depend on the values, so weights are random.
"""

from __future__ import annotations

from statistics import median

import torch
from torch import nn

from benchmarks.layer import local_head
from benchmarks.layer import network as global_network
from benchmarks.record import keep
from vinets.heads import LinearHead, MLPHead
from vinets.latent import LatentReader, truncate
from vinets.measure import flops, measure_speed
from vinets.models import PRESETS, create_model
from vinets.networks import CutNetwork, Record

BATCH = 256
EXAMPLE = torch.randn(BATCH, 3, 32, 32)


def networks(name: str) -> dict[str, nn.Module]:
    kind, cut = PRESETS[name]
    backbone = truncate(create_model(kind, 10), cut, EXAMPLE[:1])
    reader = LatentReader()
    with torch.no_grad():
        _, channels, positions = reader(backbone(EXAMPLE[:1])).shape
    local = local_head((channels, positions), 10)
    size = sum(local.folded().parts().values())
    heads = {
        "VI-Net, local": local,
        "MLP": MLPHead.matched(channels * positions, 10, parameters=size),
        "linear, flat": LinearHead(channels * positions, 10),
    }
    record = Record(cut, {})
    made = {
        head: CutNetwork(backbone, reader, module, record).folded()
        for head, module in heads.items()
    }
    return {"VI-Net, global": global_network(name), **made}


if __name__ == "__main__":
    rows = []
    for name in ("VI-Net18-Tiny", "VI-Net18-Small"):
        group = {"uncut": create_model("resnet18", 10), **networks(name)}
        speeds = measure_speed(
            group, EXAMPLE, batch_sizes=(BATCH,), repeats=5, seconds=2.0, device="cpu"
        )
        reference = speeds["uncut"][0]
        for head, (speed,) in speeds.items():
            windows = zip(speed.rates, reference.rates, strict=True)
            rows.append(
                {
                    "cut": name.removeprefix("VI-Net18-"),
                    "network": head,
                    "images_per_second": speed.mean,
                    "images_per_second_std": speed.std,
                    "speed_ratio": median(ours / uncut for ours, uncut in windows),
                    "mflops": flops(group[head], EXAMPLE[:1]) / 1e6,
                }
            )
    keep("speed", rows, batch=BATCH)
