"""``make fuzz``: many inputs, and a report; the exit code is 1 if any of them failed."""

from __future__ import annotations

import argparse
import sys

from fuzz.harness import fuzz, shown

parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
parser.add_argument("--inputs", type=int, default=100_000)
parser.add_argument("--first", type=int, default=0, help="number of the first input")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--reader", default="", help="only readers with this in their name")
parser.add_argument("--seconds", type=float, default=None, help="stop after so many")
parser.add_argument("--libraries", action="store_true", help="records of other libraries, too")
parser.add_argument("--show", action="store_true", help="show the first input and what it does")

if __name__ == "__main__":
    given = parser.parse_args()
    if given.show:
        for text in shown(given.seed, given.first, given.reader, given.libraries):
            print(text)
        sys.exit()
    numbers = range(given.first, given.first + given.inputs)
    report = fuzz(given.seed, numbers, given.reader, given.seconds, given.libraries)
    print(report)
    sys.exit(bool(report.failures))
