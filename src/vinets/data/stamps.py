"""What tells that data was read from the same files as before, without looking at every example.

A stamp stands for paths, sizes and times of files, and for what was taken of them. The time that
counts is that of the last change of a file, which nobody can set. Only what a program reads and
hands on itself is stamped: examples that a user holds may be changed in ways that nothing shows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from vinets.data.interface import CheckedSource, DataSplit
from vinets.fingerprint import digest

SETTLED = 2.0  # seconds; of files changed later than that, times may not tell of the next change


def stamp_of(paths: Iterable[Path], facts: Any) -> str:
    """A stamp of files and of all files in folders; "" where it would not tell enough."""
    try:
        found = sorted(_facts(paths))
    except OSError:  # whoever reads the files says what is wrong
        return ""
    newest = max((changed for *_, changed in found), default=0)
    settled = found and newest < time.time_ns() - SETTLED * 1e9
    return digest((), [found, facts]) if settled else ""


def stamp(data: DataSplit, mark: str) -> None:
    """Mark both parts of a data set as what files of this stamp hold."""
    for name, part in (("train", data.train), ("test", data.test)):
        if mark and isinstance(part, CheckedSource):
            part.stamp = f"{mark} {name}"


def _facts(paths: Iterable[Path]) -> Iterator[tuple[str, int, int, int, int]]:
    for path in paths:
        if path.is_dir():
            with os.scandir(path) as entries:
                inside = [Path(entry.path) for entry in entries]
            if any(one.is_symlink() and one.is_dir() for one in inside):
                raise OSError("folders that are links may lead in circles")
            yield from _facts(inside)
        else:
            of = path.stat()
            where = os.path.realpath(path)
            yield where, of.st_size, of.st_ino, of.st_mtime_ns, of.st_ctime_ns
