"""Run the program ``vinets``."""

import ctypes
import os
import sys

from vinets.core.progress import SafeStream

STOPPED = "Stopped. Run the same command again: it goes on after the last step that was kept."
MEMORY_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": (-3, 2**30), "MALLOC_TRIM_THRESHOLD_": (-1, 2**31 - 1)}
"""Sizes in bytes for glibc: the variable that sets each, and its number in ``mallopt``."""


def keep_memory() -> None:
    """Let glibc keep freed memory for the next step, here and in processes started from here.

    By itself it gives every block above 32 MiB back to the system. The activations of a batch of
    large images are such blocks, and asking for them anew takes as long as computing them.
    """
    if not sys.platform.startswith("linux"):
        return
    for name, (number, size) in MEMORY_SETTINGS.items():
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
        if mallopt is not None and name not in os.environ:
            os.environ[name] = str(size)
            mallopt(number, size)


def main() -> None:
    """Run the command line; Ctrl-C ends it with one sentence."""
    # Before torch is imported, which reads it. Threads of libgomp spin while they wait for each
    # other: next to one other busy process on two cores, training ran four to eight times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    keep_memory()
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
            setattr(sys, name, SafeStream(stream))
    try:
        from vinets.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        print(STOPPED, file=sys.stderr)
        code = 130  # as of any program that Ctrl-C ends
    sys.exit(code)


if __name__ == "__main__":
    main()
