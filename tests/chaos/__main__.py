"""``make chaos``: disturb commands until so many kills are done; exit code 1 for a failure."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from chaos.harness import WAYS, run

parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
parser.add_argument("--kills", type=int, default=100)
parser.add_argument("--trials", type=int, default=None, help="at most so many")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--command", action="append", default=[], help="only this one")
parser.add_argument("--way", action="append", default=[], choices=[*WAYS], help="only this one")

if __name__ == "__main__":
    given = parser.parse_args()
    commands, ways = tuple(given.command), tuple(given.way) or tuple(WAYS)
    say = partial(print, flush=True)
    report = run(given.seed, given.trials, given.kills, commands, ways, say)
    print(report)
    sys.exit(bool(report.failures))
