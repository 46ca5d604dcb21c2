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
from collections.abc import Sequence

from vinets.stopping import SENTENCE, STOPPED, guarded, stoppable


def main(words: Sequence[str] | None = None) -> int:
    """Carry out the trials of a file; the exit code is 2 for what was refused."""
    parser = argparse.ArgumentParser(prog="python -m vinets.run", description=__doc__)
    parser.add_argument("file", help="what to carry out")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side")
    parser.add_argument("--cluster", help="dask://HOST:PORT or ray://HOST:PORT, in place of jobs")
    parser.add_argument("--wait", action="store_true", help="wait while another one writes there")
    given = parser.parse_args(words)
    # late, so that Ctrl-C is one sentence in imports, too
    from vinets.cluster import processes_or_cluster
    from vinets.locks import locked
    from vinets.pipeline.store import Store
    from vinets.pipeline.trial_list import read_list
    from vinets.pipeline.trials import run_trials
    from vinets.progress import Lines
    from vinets.running import resolve_device

    try:
        wanted = read_list(given.file)
        device = resolve_device("vinets.run", given.device)
        store = Store(given.out)
        where = processes_or_cluster(given.cluster or given.jobs)
        with stoppable(), locked(store.folder, wait=given.wait), where as jobs:
            run_trials(
                wanted.trials,
                wanted.networks,
                store,
                device=device,
                jobs=jobs,
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
