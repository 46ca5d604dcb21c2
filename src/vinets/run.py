"""Carry out trials that a file lists; needs torch and the core packages, no command line.

    python -m vinets.run trials.json --out DIR --device cuda --jobs 8

The file holds ``{"networks": {NAME: {"model", "weights", "data"}}, "trials": [...]}``: where the
uncut networks and their data lie (see :class:`vinets.pipeline.setup.SetupFiles`), and for every
trial the fields that differ from their defaults (:func:`vinets.plain.changes`).
``vinets reproduce ... --plan trials.json`` writes such a file. Results are kept in the folder, one
file a trial, and the same call goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vinets.cluster import open_cluster
from vinets.files import read_json, write_json
from vinets.locks import locked
from vinets.pipeline.setup import SetupFiles
from vinets.pipeline.store import Store
from vinets.pipeline.trial import Trial
from vinets.pipeline.trials import run_trials
from vinets.plain import as_plain, changes, from_plain
from vinets.progress import Lines
from vinets.running import resolve_device
from vinets.stopping import SENTENCE, STOPPED, guarded, stoppable


@dataclass(frozen=True)
class TrialList:
    """Trials, and where the networks that they name lie."""

    networks: dict[str, SetupFiles]
    trials: tuple[Trial, ...]


def write_list(
    path: str | Path, networks: Mapping[str, SetupFiles], trials: Sequence[Trial]
) -> Path:
    """Write a file that ``python -m vinets.run`` takes."""
    values: dict[str, Any] = {
        "networks": as_plain(networks),
        "trials": [changes(trial, everything=True) for trial in dict.fromkeys(trials)],
    }
    return write_json(path, values)


def read_list(path: str | Path) -> TrialList:
    """Read such a file; what is wrong in it is named with its place."""
    return from_plain(TrialList, read_json(path), str(path))


def main(words: Sequence[str] | None = None) -> int:
    """Carry out the trials of a file; the exit code is 2 for what was refused."""
    parser = argparse.ArgumentParser(prog="python -m vinets.run", description=__doc__)
    parser.add_argument("file", help="what to carry out")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--cluster", help="dask://HOST:PORT, ray://HOST:PORT, dask://local, ...")
    parser.add_argument("--wait", action="store_true", help="wait while another one writes there")
    given = parser.parse_args(words)
    try:
        wanted = read_list(given.file)
        device = resolve_device("vinets.run", given.device)
        store = Store(given.out)
        with ExitStack() as stack:
            stack.enter_context(stoppable())
            stack.enter_context(locked(store.folder, wait=given.wait))
            cluster = given.cluster and stack.enter_context(open_cluster(given.cluster, given.jobs))
            run_trials(
                wanted.trials,
                wanted.networks,
                store,
                device=device,
                jobs=given.jobs,
                cluster=cluster,
                progress=Lines(),
            )
    except KeyboardInterrupt:
        print(SENTENCE, file=sys.stderr)
        return STOPPED
    except (ValueError, OSError, ImportError, MemoryError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    print(f"{len(wanted.trials)} trials in {given.out}")
    return 0


if __name__ == "__main__":
    with guarded():
        sys.exit(main())
