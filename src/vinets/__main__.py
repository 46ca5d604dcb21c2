"""Run the program ``vinets``."""

import os
import sys

from vinets.core.checks import STOPPED_CODE, STOPPED_SENTENCE


def main() -> None:
    """Run the command line; Ctrl-C ends it with one sentence."""
    # Before torch is imported, which reads it. Threads of libgomp spin while they wait for each
    # other: next to one other busy process on two cores, training ran four to eight times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    # A file that is opened later must not get the number of a closed stream, because warnings
    # would go into it.
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # what a terminal cannot show
    try:
        from vinets.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules were imported
        print(STOPPED_SENTENCE, file=sys.stderr)
        code = STOPPED_CODE
    sys.exit(code)


if __name__ == "__main__":
    main()
