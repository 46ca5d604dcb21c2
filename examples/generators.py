"""A picture of what generators do: train, cut, build, and draw their mean size on every class.

    python examples/generators.py --out docs/images/generators.png

Takes a few seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import torch

from vinets import build, train_classifier
from vinets.data import digits
from vinets.ideals.plot import plot_generators
from vinets.models import digits_cnn


def draw(out: Path, epochs: int) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    torch.manual_seed(0)
    data, model = digits(), digits_cnn()
    train_classifier(
        model, data.train, epochs=epochs, batch_size=64, learning_rate=0.1, progress=None
    )
    sizes = {"psi": 0.03, "max_degree": 3, "normalization": "unit", "components": 32, "keep": 16}
    _, report = build(model, data.train, "pool", **sizes)
    print(report)
    figure, axes = pyplot.subplots(figsize=(9, 3.6), layout="constrained")
    shown = report.pictures
    plot_generators(shown.means, shown.owners, [str(k) for k in range(10)], ax=axes)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/generators.png"))
    parser.add_argument("--epochs", type=int, default=15)
    options = parser.parse_args()
    draw(options.out, options.epochs)
