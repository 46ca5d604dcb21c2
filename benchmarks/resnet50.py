"""A timm ResNet-50 on images of 224 x 224: `compress --dry-run`, and one step of everything.

The weights are random and the images noise: what is measured is whether every stage runs at this
size, how long it takes, and how much memory, with one thread.

    python -m benchmarks.resnet50
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import numpy as np
import torch

from benchmarks.record import keep
from benchmarks.stages import Stages
from vinets import VINet, build, collect, evaluate, fine_tune
from vinets.data.formats import load_data
from vinets.export import export_network
from vinets.models import create_model, save_weights

MODEL, CUT, SIZE, CLASSES = "timm:resnet50", "layer3", 224, 4
TRAIN, TEST = 16, 8  # images
EPOCHS, CUTS, LIMIT = 2, 2, 8  # of the search that is planned


def write_images(folder: Path, size: int) -> str:
    """Noise with a bright corner that depends on the class, as files; how to name them."""
    random = np.random.default_rng(0)
    paths = []
    for part, count in (("train", TRAIN), ("test", TEST)):
        labels = np.arange(count) % CLASSES
        images = random.integers(0, 128, (count, size, size, 3), dtype=np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[: size // 4, : size // 4] += np.uint8(30 * label)
        for name, array in ((f"{part}.npy", images), (f"{part}_labels.npy", labels)):
            np.save(folder / name, array)
            paths.append(str(folder / name))
    return ",".join(paths)


def dry_run(model: str, weights: Path, data: str, out: Path) -> dict[str, Any]:
    """The plan that ``vinets compress --dry-run`` prints."""
    command = [sys.executable, "-m", "vinets", "compress", model, "--weights", str(weights)]
    command += ["--data", data, "--budget", "params=50%", "--epochs", str(EPOCHS)]
    command += ["--cuts", str(CUTS), "--limit", str(LIMIT), "--out", str(out), "--dry-run"]
    command += ["--device", "cpu", "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run(model: str, cut: str, size: int, folder: Path) -> list[dict[str, Any]]:
    """All stages for one network; files go into ``folder``."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = write_images(folder, size)
    network = create_model(model, CLASSES)
    weights = folder / "weights.safetensors"
    save_weights(network, weights)
    stages = Stages()

    plan = dry_run(model, weights, data, folder / "plan")
    child = getrusage(RUSAGE_CHILDREN)
    of_child = {"cpu_seconds": child.ru_utime + child.ru_stime, "peak_GiB": child.ru_maxrss / 2**20}
    stages.end("compress --dry-run", candidates=len(plan["candidates"]), **of_child)

    split = load_data(data)
    latents = collect(network, split.train, cut, progress=None)
    stages.end("collect", shape=list(latents.shape))
    net, report = build(latents, max_degree=2, components=8, keep=4, monomials=64)
    stages.end("PCA, ideals, pruning, VI layer", generators=report.generators_found)

    one: dict[str, Any] = {"epochs": 1, "batch_size": TRAIN, "validation": 0.0, "progress": None}
    fine_tune(net, split.train, **one)
    stages.end("step of the head")
    fine_tune(net, split.train, trained="backbone", teacher=network, **one)
    stages.end("step of backbone and head, distilled")
    products, _ = build(latents, head="products")
    fine_tune(products, split.train, teacher=network, **one)
    stages.end("step with products of forms")

    accuracy = evaluate(net, split.test, batch_size=TEST).accuracy
    stages.end("evaluate", images=TEST, accuracy=accuracy)
    net.save_pretrained(folder / "net")
    again = VINet.from_pretrained(folder / "net")
    images = split.test.example()
    with torch.no_grad():
        same = torch.equal(again(images), net(images))
    stages.end("save and load", same=same)
    difference = export_network(net, folder / "net.pt2", batch_sizes=(1, 2)).largest_difference
    stages.end("export", largest_difference=difference)
    return stages.found


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="vinets-resnet50-") as folder:
        rows = run(MODEL, CUT, SIZE, Path(folder))
    facts = {"model": MODEL, "cut": CUT, "size": SIZE, "classes": CLASSES, "train_images": TRAIN}
    keep("resnet50", rows, threads=1, **facts)


if __name__ == "__main__":
    main()
