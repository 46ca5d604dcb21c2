"""``make soak``: build, save, load, predict for half an hour; exit code 1 if memory grows."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from soak.harness import MOST, soak

parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
parser.add_argument("--minutes", type=float, default=30.0)

if __name__ == "__main__":
    given = parser.parse_args()
    with TemporaryDirectory(prefix="soak-") as folder:
        report = soak(Path(folder), 60 * given.minutes, say=partial(print, flush=True))
    print(report)
    sys.exit(report.slope > MOST)
