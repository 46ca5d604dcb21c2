"""Runs as files: every command that fills a folder writes run.toml, and --config takes it."""

from __future__ import annotations

import difflib
import json
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vinets.core.files import read_bytes, write_text

FILE = "run.toml"
MOST = 1 << 20  # bytes of such a file
GIVEN = ("COMMANDLINE", "DEFAULT_MAP")
ELSEWHERE = ("config", "help", "wait", "quiet")  # of a call, and not of a run


def names_of(parameters: list[Any]) -> dict[str, str]:
    """What an option is called in a file, by the name of its parameter: as on the command line."""
    found = {}
    for one in parameters:
        flags = [flag for flag in one.opts if flag.startswith("--")]
        found[one.name] = flags[0].removeprefix("--") if flags else one.name
    return found


def given_options(ctx: Any) -> dict[str, Any]:
    """What was given to a command, on its line or by a file, without what is of one call."""
    flags = names_of(ctx.command.params)
    return {
        flags[name]: value
        for name, value in ctx.params.items()
        if ctx.get_parameter_source(name).name in GIVEN and flags[name] not in ELSEWHERE
    }


def read_config(path: str, command: str, parameters: list[Any]) -> dict[str, Any]:
    """Values of parameters by name, as a file has them for this command."""
    values = _read(path)
    told = values.pop("command", command)
    if told != command:
        name = textwrap.shorten(str(told), 80)
        raise ValueError(f"{path} is for vinets {name}, and this is vinets {command}.")
    values.pop("version", None)
    known = {flag: name for name, flag in names_of(parameters).items()}
    for flag, value in values.items():
        if flag not in known:
            near = difflib.get_close_matches(flag, known, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            name = textwrap.shorten(repr(flag), 80)
            raise ValueError(f"{path}: vinets {command} has no option {name}.{hint}")
        if isinstance(value, dict):
            raise ValueError(f"{path}: {flag} must be a value or a list of values, not a table.")
    return {known[flag]: value for flag, value in values.items()}


def read_run(path: Path) -> dict[str, Any]:
    """The options that a folder was made with; none where there is no such file."""
    return _read(path) if path.is_file() else {}


def _read(path: str | Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bytes(path, MOST).decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{path} is not a TOML file: it is nested too deeply.") from None
    except ValueError as error:  # of the encoding, of TOML, and of integers that are too long
        told = textwrap.shorten(str(error).rstrip("."), 200)
        raise ValueError(f"{path} is not a TOML file: {told}.") from None


def write_config(folder: Path, command: str, values: Mapping[str, Any], version: str) -> Path:
    """Write what was given to a command, so that ``vinets COMMAND --config FILE`` repeats it.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = write_config(Path(mkdtemp()), "train", {"data": "digits", "epochs": 2}, "1.0")
    >>> print(path.read_text())
    # To run it again: vinets train --config run.toml
    command = "train"
    version = "1.0"
    data = "digits"
    epochs = 2
    <BLANKLINE>
    """
    lines = [f"# To run it again: vinets {command} --config {FILE}"]
    facts = {"command": command, "version": version, **values}
    lines += [f"{key} = {_toml(value)}" for key, value in facts.items()]
    return write_text(folder / FILE, "\n".join(lines) + "\n")


def _toml(value: Any) -> str:
    """A value as TOML has it; of text, JSON's way of writing it is one of TOML's."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
