"""Read files safely, write them whole or not at all, lock folders, and name files.

Files may come from strangers. Only regular files are opened, so that no pipe and no device
holds a program up or fills its memory, and what they may hold has bounds.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any, BinaryIO

MAX_JSON_BYTES = 16 << 20
MAX_JSON_DEPTH = 64  # lists and objects inside each other
MAX_INTEGER = 2**63  # whole numbers stay below it in both directions, as tensors need

_MACHINE = hashlib.sha256(platform.node().encode()).hexdigest()[:8]  # this machine, in names
_unfinished: set[Path] = set()  # files that this process is writing


# --- reading ----------------------------------------------------------------------------------


def open_regular(path: str | Path, *, inside: str | Path | None = None) -> BinaryIO:
    """Open a regular file to be read; pipes, devices and folders are refused.

    If a file has to lie ``inside`` a folder, a link that leads out of it is refused, too.
    """
    # Path.resolve() raises RuntimeError for links in a circle; realpath() leaves them to os.open().
    real = Path(os.path.realpath(path))
    if inside is not None and not real.is_relative_to(os.path.realpath(inside)):
        raise ValueError(
            f"{path} is a link out of {inside}, which is not followed. Put the file itself there."
        )
    # Without O_NONBLOCK, opening a pipe would wait until a program writes into it.
    opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise ValueError(f"{path} must be a regular file. It is a folder, a pipe or a device.")
    return os.fdopen(opened, "rb")


def read_bytes(path: str | Path, most: int, *, inside: str | Path | None = None) -> bytes:
    """Read a regular file; more than ``most`` bytes are refused before they are read."""
    with open_regular(path, inside=inside) as file, named(path):
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise ValueError(f"{path} must have at most {most:,} bytes. It has {size:,}.")
        return file.read(most)  # it may have grown since


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Name the file in errors of reading, which do not say it for one that is open."""
    try:
        yield
    except OSError as error:  # files of the system that look like others can often not be read
        if error.filename is not None:
            raise
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from None


def read_json(path: str | Path, *, inside: str | Path | None = None) -> Any:
    """Read the values in a JSON file; any other file is refused in one sentence."""
    content = read_bytes(path, MAX_JSON_BYTES, inside=inside)
    try:
        return parse_json(content.decode("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not readable JSON: {error}.") from None


def parse_json(text: str) -> Any:
    """Read the values in a JSON text of any origin; ValueError says what is wrong.

    Names stand once in an object, whole numbers have 64 bits, and the depth is bounded.
    """
    if len(text) > MAX_JSON_BYTES:
        raise ValueError(f"it has more than {MAX_JSON_BYTES:,} characters")
    with suppress(RecursionError):
        values = json.loads(text, object_pairs_hook=_object, parse_int=_integer)
        level = [values]
        for _ in range(MAX_JSON_DEPTH):
            containers = [one for one in level if isinstance(one, dict | list)]
            if not containers:
                return values
            inner = (one.values() if isinstance(one, dict) else one for one in containers)
            level = list(chain.from_iterable(inner))
    raise ValueError(f"it is nested more than {MAX_JSON_DEPTH} deep")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {twice[:40]!r} stands twice in an object")
    return values


def _integer(digits: str) -> int:
    if len(digits) > 20 or not -MAX_INTEGER <= int(digits) < MAX_INTEGER:
        raise ValueError(f"the whole number {digits[:20]}... has more than 64 bits")
    return int(digits)


# --- writing ----------------------------------------------------------------------------------


def refuse_foreign(path: str | Path) -> None:
    """Raise if a file is there that another program wrote: nothing of ours replaces it.

    Every file that is ours has the name of the package in it.
    """
    if not Path(path).is_file() or not os.path.getsize(path):
        return
    with (
        open_regular(path) as file,
        named(path),
        mmap(file.fileno(), 0, access=ACCESS_READ) as content,
    ):
        ours = content.find(b"vinets") >= 0
    if not ours:
        raise ValueError(
            f"{path} is there already, and vinets did not write it. Choose another name, or "
            "remove it."
        )


@contextmanager
def written_aside(path: str | Path) -> Iterator[Path]:
    """Yield a path to write to, which takes the place of ``path`` when all went well.

    A reader sees the old file or the new one, never a part, even if the power fails. If it cannot
    be written, the old one is left as it was and the error is one sentence.
    """
    target = Path(path)
    check_name(target)
    # In the same folder, because only there a rename is atomic; no other writer has the same name.
    aside = target.with_name(f".{_MACHINE}-{os.getpid()}-{secrets.token_hex(4)}.{target.name}")
    _unfinished.add(aside)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise OSError("a folder of that name is in the way")
        # Remove the files that killed writers of the same file left behind.
        pattern = re.compile(rf"\.{_MACHINE}-(\d+)-\w+\.{re.escape(target.name)}")
        for name in os.listdir(target.parent):
            match, other = pattern.fullmatch(name), target.with_name(name)
            if match and other not in _unfinished and not _is_running(int(match[1])):
                with suppress(OSError):
                    other.unlink()
        aside.unlink(missing_ok=True)  # perhaps a link to another place, if the name was guessed
        yield aside
        _to_disk(aside, os.O_RDWR)
        os.replace(aside, target)
    except OSError as error:
        raise _write_error(target, error) from None
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        _unfinished.discard(aside)
    with suppress(OSError):  # not every system can do that, and the file itself is complete
        _to_disk(target.parent, os.O_RDONLY)


def _to_disk(path: Path, how: int) -> None:
    opened = os.open(path, how)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _write_error(path: str | Path, error: OSError) -> OSError:
    return OSError(
        f"{path} could not be written, and is as it was: {error.strerror or error}. Make room, "
        "check the permissions, or choose another place."
    )


def _is_running(process: int) -> bool:
    """Say whether a process of that number runs, other than this one."""
    try:
        if os.name != "nt":  # where the question would be a signal
            os.kill(process, 0)
    except PermissionError:  # it belongs to another user
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return process != os.getpid()


def check_name(path: str | Path) -> None:
    """Raise for a name that not every library here would write in the same bytes."""
    text = os.fspath(path)
    with suppress(UnicodeError):
        if os.fsencode(text) == text.encode("utf-8"):
            return
    shown = text.encode("ascii", "backslashreplace").decode()
    raise ValueError(
        f"The name {shown} cannot be written as UTF-8 here. Choose a name that can, such as one of "
        "plain letters, or a locale of UTF-8."
    )


def write_text(path: str | Path, text: str) -> Path:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    with written_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")
    return Path(path)


def write_json(path: str | Path, values: Any) -> Path:
    """Write plain values as JSON, whole or not at all."""
    return write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def append_line(path: str | Path, line: str) -> None:
    """Add a line to a file by one write, so that several processes can add lines at once.

    A line that a killed process left unfinished is ended first, so that this one is whole.
    """
    check_name(path)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        text = f"{line}\n".encode()
        try:
            if file.write(text) != len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError as error:
            file.truncate(end)
            raise _write_error(path, error) from None


# --- folders ----------------------------------------------------------------------------------


@contextmanager
def locked(folder: str | Path, *, wait: bool = False) -> Iterator[None]:
    """Keep other writers out of ``folder``, which is made if it does not exist.

    If another process or thread holds it, this is an error, or, with ``wait``, a pause. The system
    ends the lock with the process, however that ends; the empty file ``.lock`` stays. Within a
    lock, the same thread may ask again.
    """
    from filelock import FileLock, Timeout  # imported late, because most commands lock nothing

    path = Path(folder)
    check_name(path)  # now, and not when the first file is written
    path.mkdir(parents=True, exist_ok=True)
    # One lock a file in this process, which counts how often each thread holds it.
    lock = FileLock(path.resolve() / ".lock", is_singleton=True)
    try:
        lock.acquire(timeout=-1 if wait else 0, poll_interval=0.2)
    except Timeout:
        raise ValueError(
            f"Another process is writing into {path}. Wait until it is done (--wait does that), or "
            "choose another folder."
        ) from None
    except (OSError, NotImplementedError):
        pass  # Some network file systems know no locks; writers say what cannot be written.
    try:
        yield
    finally:
        lock.release()


# --- names ------------------------------------------------------------------------------------


def slugs(names: Iterable[str]) -> dict[str, str]:
    """Return a name for the file or folder of each; no two differ in the case of letters alone.

    Examples
    --------
    >>> slugs(["cat", "a b", "A-b"])
    {'cat': 'cat', 'a b': 'a-b-c8687a', 'A-b': 'a-b-b05dd0'}
    """
    plain = {name: slug(name) for name in names}
    uses = Counter(plain.values())
    return {n: s if uses[s] == 1 else f"{s}-{_short_digest(n)}" for n, s in plain.items()}


def _short_digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:6]


def slug(name: str) -> str:
    """Return a name for a file or folder; see :func:`slugs` for several in one folder.

    Letters become small, blanks, dots and commas become hyphens. A name with anything else gets a
    short digest at its end.

    Examples
    --------
    >>> slug("linear, flat"), slug("layer2.1.bn2"), slug("-1")
    ('linear-flat', 'layer2-1-bn2', '1-1bad6b')
    """
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if re.fullmatch(r"[a-z0-9]+([-., ]+[a-z0-9]+)*", name.lower()):
        return plain
    return f"{plain}-{_short_digest(name)}".removeprefix("-")
