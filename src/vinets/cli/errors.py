"""What goes wrong, in one sentence."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

from cyclopts import CycloptsError, MissingArgumentError, UnusedCliTokensError

EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError)


# Parameters of calls that commands know by other names.
RENAMED = {
    ("load_data", "spec"): ("data",),
    ("create_model", "spec"): ("model", "net", "nets", "uncut"),
    ("open_network", "spec"): ("model", "net", "nets", "uncut"),
    ("export_network", "path"): ("out",),
}


def as_written(text: str, arguments: Iterable[Any]) -> str:
    """Return a complaint about a parameter of a call in terms of the options of a command.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> text = "The 'spec' parameter of load_data must be 'digits'. Got 'x' instead."
    >>> as_written(text, [SimpleNamespace(names=["--data"], field_info=...)])
    "--data must be 'digits'. Got 'x' instead."
    """
    match = re.match(r"The '(\w+)' parameter of (\w+) must be", text)
    if match is None:
        return text
    names = RENAMED.get((match[2], match[1]), (match[1],))
    for one in arguments:
        name = max(one.names, key=len)
        if name.lstrip("-").replace("-", "_").lower() in names:
            return f"{name} must be{text[match.end() :]}"
    return text


def sentence(error: Exception) -> str | None:
    r"""Return what to tell a person about ``error``; None for what nobody expected.

    Examples
    --------
    >>> sentence(ValueError("psi is\n  too large"))
    'psi is too large'
    >>> sentence(KeyError("x")) is None
    True
    """
    if isinstance(error, CycloptsError):
        return _parsing_sentence(error)
    torch = sys.modules.get("torch")  # where it was never imported, it raised nothing
    if torch is not None and isinstance(error, torch.OutOfMemoryError):
        return "The GPU ran out of memory. Lower the batch size, or pass --device cpu."
    if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
        return "The memory of this computer does not suffice. Lower the batch size."
    if not isinstance(error, EXPECTED):
        return None
    if isinstance(error, PermissionError) and error.filename is not None:
        return f"{error.filename} may not be read or written. Check its permissions."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split()) or f"{type(error).__name__}."


def _parsing_sentence(error: CycloptsError) -> str:
    """Return what is wrong with the words of a line."""
    words, argument = error.root_input_tokens or [], error.argument
    if isinstance(error, UnusedCliTokensError):
        more = ", ".join(map(repr, error.unused_tokens or []))
        return f"No argument is left for {more}. Put the option before it that it is for."
    if argument is not None and isinstance(error, MissingArgumentError):
        if not argument.required or argument.name in words:
            return f"{argument.name} must be followed by a value."
        return f"{argument.name} is missing. {argument.parameter.help}"
    if argument is not None and isinstance(error.__cause__, ValueError):  # from its own domain
        return f"{argument.name} {error.__cause__}"
    return " ".join(str(error).split())
