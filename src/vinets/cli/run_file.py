"""Runs as files: commands that fill a folder write ``run.toml``, and ``--config`` takes it."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import tomli_w
from cyclopts import Token

from vinets.core.files import read_bytes, write_text
from vinets.core.plain import nearest

RUN_FILE = "run.toml"
MAX_FILE_BYTES = 1 << 20
CALL_ONLY = ("config", "wait", "quiet")  # options of one call, which do not belong to a run


def option_names(arguments: Iterable[Any]) -> dict[str, Any]:
    """Return the arguments of a command by what they are called in a file."""
    return {
        (one.name if one.name.startswith("--") else one.field_info.name).removeprefix("--"): one
        for one in arguments
        if not one.children
    }


def apply_run_file(
    path: str,
    command: str,
    arguments: Iterable[Any],
    refuse: Callable[[str], Any] = str,
) -> None:
    """Let a file say what the command line does not; ``refuse`` may know an unknown option."""
    values = read_run(path)
    made_by = values.pop("command", command)
    if made_by != command:
        name = textwrap.shorten(str(made_by), 80)
        raise ValueError(f"{path} is for vinets {name}, and this is vinets {command}.")
    values.pop("version", None)
    known = option_names(arguments)
    for name, value in values.items():
        if name not in known:
            refuse(f"--{name}")
            shown = textwrap.shorten(repr(name), 80)
            hint = nearest(name, known)
            raise ValueError(f"{path}: vinets {command} has no option {shown}.{hint}")
        if isinstance(value, dict):
            raise ValueError(f"{path}: {name} must be a value or a list of values, not a table.")
        if not known[name].tokens:
            for item in value if isinstance(value, list) else [value]:
                text = str(item).lower() if isinstance(item, bool) else str(item)
                known[name].append(Token(keyword=f"--{name}", value=text, source=path))


def read_run(path: str | Path) -> dict[str, Any]:
    """Return the options in a file."""
    try:
        return tomllib.loads(read_bytes(path, MAX_FILE_BYTES).decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{path} is not a TOML file: it is nested too deeply.") from None
    except ValueError as error:  # from the encoding, TOML, or integers that are too long
        reason = textwrap.shorten(str(error).rstrip("."), 200)
        raise ValueError(f"{path} is not a TOML file: {reason}.") from None


def given_options(arguments: Iterable[Any]) -> dict[str, Any]:
    """Return what was given to a command, on its line or by a file, without what is of one call."""
    given: dict[str, Any] = {}
    for name, one in option_names(arguments).items():
        if one.tokens and name not in CALL_ONLY:
            texts = [token.value for token in one.tokens]
            several = isinstance(one.value, list)
            plain = isinstance(one.value, bool | int | float) and one.hint in (bool, int, float)
            given[name] = one.value if plain else texts if several else texts[-1]
    return given


def write_run(folder: Path, command: str, values: Mapping[str, Any], version: str) -> Path:
    """Write what was given to a command, so that ``vinets COMMAND --config FILE`` repeats it.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = write_run(Path(mkdtemp()), "train", {"data": "digits", "epochs": 2}, "1.0")
    >>> print(path.read_text())
    # To run it again: vinets train --config run.toml
    command = "train"
    version = "1.0"
    data = "digits"
    epochs = 2
    <BLANKLINE>
    """
    facts = {"command": command, "version": version, **values}
    heading = f"# To run it again: vinets {command} --config {RUN_FILE}\n"
    return write_text(folder / RUN_FILE, heading + tomli_w.dumps(facts))
