"""Draw the picture of the README: every polynomial of a VI-Net on the test images of every digit.

    vinets reproduce all --on digits --jobs 2 --out out/demo
    python -m benchmarks.picture

The first command is that of ``make demo``; its results are kept in ``benchmarks/results/demo``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.tables import demo_result
from vinets.ideals.plot import plot_generators

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "generators.png"


def main() -> None:
    """Draw the polynomials as they were found, which training of W_F alone leaves as they are."""
    from matplotlib import pyplot

    rows = [row.values for row in demo_result("fig-kept").tables[0].rows]
    found = next(row for row in rows if "means" in row and row["weight"] is None)
    means = np.array([line.split() for line in found["means"]], dtype=float).T
    sheet = pyplot.figure(figsize=(9, 3.4), layout="constrained")
    plot_generators(means, np.array(found["owners"]), range(len(means)), sheet.add_subplot())
    sheet.savefig(IMAGE, dpi=130)
    print(IMAGE.relative_to(Path.cwd()))


if __name__ == "__main__":
    main()
