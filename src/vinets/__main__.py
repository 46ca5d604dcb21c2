"""The program ``vinets``."""

import os

from vinets.core.stopping import guarded


def main() -> None:
    """Run the command line."""
    # Before torch is imported, which reads it. Threads of libgomp spin while they wait for each
    # other: next to one other busy process on two cores, training ran four to eight times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with guarded():
        from vinets.cli.app import app

        app(prog_name="vinets")


if __name__ == "__main__":
    main()
