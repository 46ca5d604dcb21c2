"""The ideals of the paper's Table 1 on a CPU, the paper's seconds beside ours.

    python -m benchmarks.generators --data data --weights weights

Most of the time goes into running the networks up to the cuts, which is not counted: neither does
the paper. A row that is in the result file is not repeated.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.record import RESULTS, keep
from vinets.core.progress import Silent
from vinets.heads import VanishingOptions
from vinets.heads.vanishing import find_components, score_generators
from vinets.paper.backbones import BACKBONES, Backbone
from vinets.paper.plan import Plan
from vinets.paper.reproduce import Folders
from vinets.runs.setup import Cut, Setup

NAME = "generators_cpu"
REPEATS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path, default=Path("weights"))
    given = parser.parse_args()
    path = RESULTS / f"{NAME}.json"
    rows = json.loads(path.read_text())["rows"] if path.is_file() else []
    done = {(row["network"], row["cut"]) for row in rows}
    command = shlex.join(["python", "-m", "benchmarks.generators", *sys.argv[1:]])
    for backbone in BACKBONES.values():
        missing = [cut for cut in backbone.rows if (backbone.title, cut) not in done]
        if not missing:
            continue
        files = Folders(given.data, given.weights).files(backbone)
        setup = files.open(backbone.name, torch.device("cpu"))
        for cut in missing:
            rows.append(measure(setup, backbone, cut))
            keep(NAME, rows, command=command, psi=0.1, max_degree=5, per_class=512)


def measure(setup: Setup, backbone: Backbone, cut: str) -> dict[str, Any]:
    trial = Plan().trial(backbone, cut, task="ideals")
    context = Cut(setup, trial, Silent())
    options, latents = trial.options, context.latents
    assert isinstance(options, VanishingOptions)  # the paper's head
    variables, fit = find_components(latents, options, trial.seed), latents.fit
    fits = [score_generators(variables, fit, fit, options.ideal()) for _ in range(REPEATS)]
    ours = median(one.seconds for one in fits)
    theirs = backbone.rows[cut]["seconds"]
    return {
        "network": backbone.title,
        "cut": cut,
        "monomials": fits[0].monomials,
        "polynomials": fits[0].ideals.n_generators,
        "seconds": ours,
        "paper_seconds": theirs,
        "ratio": theirs / ours,
    }


if __name__ == "__main__":
    main()
