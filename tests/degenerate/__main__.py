"""``make degenerate``: many fits, and a report; the exit code is 1 if any of them is wrong."""

from __future__ import annotations

import argparse
import sys

from degenerate.harness import run

parser = argparse.ArgumentParser(prog="python -m degenerate", description=__doc__)
parser.add_argument("--fits", type=int, default=5_000)
parser.add_argument("--first", type=int, default=0, help="number of the first fit")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--seconds", type=float, default=None, help="stop after so many")

if __name__ == "__main__":
    given = parser.parse_args()
    report = run(given.seed, range(given.first, given.first + given.fits), given.seconds)
    print(report)
    sys.exit(bool(report.failures))
