"""What is disturbed: small runs of the commands that write folders, and the files they need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

BUILD = (
    "--data digits --cut relu3 --per-class 40 --components 8 --keep 4 "
    "--monomials 32 --max-degree 2 --epochs 2 --seconds 0.01 --repeats 2 --batch 16 "
    "--baselines --views 1"
)
PAPER = "--quick --backbone resnet18 --seeds 1 --data data --weights weights"


@dataclass(frozen=True)
class Command:
    """One command line; it writes into ``out``, below the folder where it is run."""

    name: str
    line: str
    share: float = 1.0  # of the trials

    @property
    def words(self) -> list[str]:
        return ["vinets", *self.line.split(), "--out", "out", "--device", "cpu", "--quiet"]


COMMANDS = (
    Command("train", "train --model digits_cnn --data digits --epochs 4"),
    Command("build", f"build base {BUILD}"),
    Command(
        "compress",
        "compress base --data digits --budget params=30% --limit 300 --cuts 1 --epochs 2 --no-int8",
    ),
    Command("reproduce", f"reproduce fig-monomials fig-baselines {PAPER}", 0.5),
    Command("reproduce, 2 jobs", f"reproduce fig-monomials fig-baselines {PAPER} --jobs 2", 0.7),
)
BASE = Command("base", "train --model digits_cnn --data digits --epochs 1")


def prepare(folder: Path) -> None:
    """Images in the layout of CIFAR and untrained weights, for ``reproduce``."""
    import torch

    from vinets.models import create_model, save_weights

    binary = folder / "data" / "cifar10" / "cifar-10-batches-bin"
    binary.mkdir(parents=True)
    random = np.random.default_rng(0)
    centre = random.integers(40, 215, size=(10, 3072))
    labels = np.arange(20) % 10
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        images = np.clip(centre[labels] + random.normal(0, 40, (20, 3072)), 0, 255)
        rows = np.concatenate([labels[:, None], images], axis=1).astype(np.uint8)
        (binary / f"{name}.bin").write_bytes(rows.tobytes())
    torch.manual_seed(0)
    save_weights(create_model("resnet18", 10), folder / "weights/resnet18_cifar10.safetensors")
