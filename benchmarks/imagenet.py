"""The size of ImageNet: 1,000 classes of 1,300 latents of 2,048 numbers, from a file to a VI layer.

Every size runs in a process of its own, with one thread. Latents are synthetic: a class lies near a
curved surface of few dimensions of its own. They are drawn shard by shard, stored in float16, and
never lie in memory at once.

    python -m benchmarks.imagenet                    # 100, 300 and 1,000 classes
    python -m benchmarks.imagenet 300                # one of them anew, the others as recorded
    python -m benchmarks.imagenet --plan             # only the plan, from the measured result
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.record import RESULTS, keep
from benchmarks.stages import Stages
from vinets import ABM, fit_class_ideals
from vinets.algebra.common_terms import SharedPolynomials, term_moments
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.heads.vanishing import GlobalPolynomials
from vinets.ideals.base import NoGeneratorsWarning
from vinets.ideals.pruning import prune, score
from vinets.latent.collect import collect_latents
from vinets.latent.pca import Projection, fit_pca
from vinets.latent.rescale import Rescale

SIZES = (100, 300, 1000)
SAMPLES, WIDTH = 1300, 2048
FREE = 16  # dimensions of the surface of a class
COMPONENTS, PSI, DEGREE = 48, 0.02, 2
CHECK = 8  # latents of a class that score the generators
KEPT, MONOMIALS = 4, 512  # polynomials of a class, and monomials in all, of the layer
BATCH, STEPS = 256, 20


def structure() -> tuple[Tensor, Tensor]:
    """Directions that the classes share."""
    random = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(WIDTH, 64, generator=random)).Q
    return basis, torch.linspace(2.0, 0.5, 64)


def draw(label: int, seed: int, count: int, shared: tuple[Tensor, Tensor]) -> Tensor:
    """Latents (count, WIDTH) of a class: a centre, a curved surface around it, noise."""
    own = torch.Generator().manual_seed(1000 + label)
    random = torch.Generator().manual_seed(10**6 * (1 + seed) + label)
    basis, lengths = shared
    centre = torch.randn(64, generator=own)
    linear, bent = torch.randn(2, FREE, 64, generator=own) / FREE**0.5
    free = 2 * torch.rand(count, FREE, generator=random) - 1
    inside = centre + free @ linear + 0.5 * free.square() @ bent
    noise = torch.rand(count, WIDTH, generator=random).sub_(0.5).mul_(0.2)
    return noise.addmm_(inside * lengths, basis.T)


def batches(classes: int) -> Iterator[tuple[Tensor, Tensor]]:
    shared = structure()
    for k in range(classes):
        yield draw(k, 0, SAMPLES, shared).half(), torch.full((SAMPLES,), k)


def run(classes: int) -> list[dict[str, Any]]:
    """All stages for so many classes."""
    warnings.simplefilter("ignore", NoGeneratorsWarning)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    stages = Stages()
    store = collect_latents(nn.Identity(), batches(classes), memory_limit=0)  # mapped
    stages.end("collect", bytes=store.nbytes)

    def chunks() -> Iterator[Tensor]:  # small enough for the allocator to use memory again
        return (z for z, _ in store.chunks(1024))

    pca = fit_pca(chunks, COMPONENTS, method="randomized", n_iter=1)
    stages.end("components", explained=float(pca.explained.sum()))

    projection = Projection.from_pca(pca, "unit")
    rescale = Rescale(torch.zeros(COMPONENTS), torch.ones(COMPONENTS))
    with torch.no_grad():
        points = torch.cat([rescale(projection(z)) for z in chunks()])
    labels = store.labels
    stages.end("projection", bytes=points.nbytes)

    check = torch.arange(len(labels)) % SAMPLES < CHECK
    ideals = fit_class_ideals(points[~check], labels[~check], ABM(PSI, max_degree=DEGREE))
    stages.end("ideals", generators=ideals.n_generators)

    kept = prune(ideals, score(ideals, points[check], labels[check]), KEPT)
    stages.end("pruning", kept=len(kept))

    shared = SharedPolynomials.of(kept.polynomials)
    some = points[torch.randperm(len(points))[:20_000]]
    if len(shared.terms) > MONOMIALS:
        shared = shared.restrict(MONOMIALS, term_moments(shared.terms, some)[1])
    moments = term_moments(shared.terms, some)
    layer = PolynomialLayer.from_polynomials(shared, moments)
    head = GlobalPolynomials(rescale, projection, layer, classes, order="pca-tanh")
    numbers = sum(p.numel() for p in head.parameters())
    stages.end("VI layer", numbers=numbers, monomials=len(shared.terms))

    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    behind = head.split()
    assert behind is not None
    for _ in range(STEPS):
        at = torch.randint(len(points), (BATCH,))
        optimizer.zero_grad()
        F.cross_entropy(behind[1](points[at]), labels[at]).backward()
        optimizer.step()
    stages.end("training", images=STEPS * BATCH)

    head.eval()
    fresh, shapes = structure(), range(0, classes, max(1, classes // 50))
    with torch.no_grad():
        hits = [
            float((head(draw(k, 1, 20, fresh)[:, :, None]).argmax(1) == k).float().mean())
            for k in shapes
        ]
    stages.end("evaluation", images=20 * len(hits), accuracy=sum(hits) / len(hits))
    return stages.found


def child(classes: int) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.imagenet", str(classes), "--print"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [{"classes": classes, **row} for row in json.loads(out.splitlines()[-1])]


def exponents(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Slope of log(CPU seconds) against log(classes) over all sizes, stage by stage."""
    found = {}
    for stage in dict.fromkeys(row["stage"] for row in rows):
        mine = [row for row in rows if row["stage"] == stage]
        x, y = ([math.log(row[key]) for row in mine] for key in ("classes", "cpu_seconds"))
        if len(set(x)) > 1:
            found[stage] = statistics.linear_regression(x, y).slope
    return found


def settings() -> dict[str, Any]:
    """What sizes must share to stand in one result."""
    return {
        "threads": 1,
        "samples": SAMPLES,
        "width": WIDTH,
        "components": COMPONENTS,
        "psi": PSI,
        "max_degree": DEGREE,
        "check_per_class": CHECK,
        "kept_per_class": KEPT,
        "monomials": MONOMIALS,
        "exponents_of": "cpu_seconds",
    }


def recorded(path: Path) -> list[dict[str, Any]]:
    """Rows of an earlier run with the same settings."""
    if not path.is_file():
        return []
    earlier = json.loads(path.read_text())
    same = all(earlier.get(name) == value for name, value in settings().items())
    return earlier["rows"] if same else []


def main() -> None:
    wanted = [int(word) for word in sys.argv[1:] if word.isdigit()]
    if "--print" in sys.argv:
        print(json.dumps(run(wanted[0])))
        return
    path = RESULTS / "imagenet.json"
    if "--plan" not in sys.argv:
        for size in wanted or SIZES:
            rows = [row for row in recorded(path) if row["classes"] != size] + child(size)
            rows.sort(key=lambda row: row["classes"])  # stages of a size stay in their order
            keep("imagenet", rows, **settings(), exponents=exponents(rows))
    from benchmarks.imagenet_plan import write_plan

    write_plan(json.loads(path.read_text()))


if __name__ == "__main__":
    main()
