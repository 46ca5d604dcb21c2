"""Try the wheel in every row: ``python -m matrix dist/vinets-0.2.0-py3-none-any.whl``.

A row that cannot be had here is told with its reason. Torch is taken as a build for the CPU alone,
which pip has to be set up for: PIP_EXTRA_INDEX_URL, see ``docs/install.md``. Rows of Debian take
root, debootstrap, and DEBIAN_MIRROR. Results go to ``benchmarks/results/matrix.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from matrix.environments import CORE, QUICK, ROWS, Unavailable, tried

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "matrix.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m matrix", description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--only", action="append", help="name of a row; others keep their result")
    parser.add_argument("--quick", action="store_true", help="a part of the tests, in a minute")
    parser.add_argument("--work", type=Path, default=ROOT / ".venv" / "matrix")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    known = json.loads(given.out.read_text())["rows"] if given.out.is_file() else []
    found = {row["row"]: row for row in known}
    for row in ROWS:
        if given.only and row.name not in given.only:
            continue
        try:
            tests = QUICK if given.quick else CORE
            result = tried(row, given.wheel.resolve(), ROOT, given.work.resolve(), tests)
        except Unavailable as reason:
            result = {"row": row.name, "python": row.python, "outcome": f"not tried: {reason}"}
        print(json.dumps(result, ensure_ascii=False), flush=True)
        found[row.name] = result
    rows = [found[row.name] for row in ROWS if row.name in found]
    command = "make matrix MATRIX=--quick" if given.quick else "make matrix"
    record = {"name": "matrix", "command": command, "wheel": given.wheel.name, "rows": rows}
    given.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return int(any(row["outcome"] == "failed" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
