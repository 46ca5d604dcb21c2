"""What goes wrong, in one sentence on stderr."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from vinets.core.checks import STOPPED_CODE, STOPPED_SENTENCE, DoubtWarning

EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError)
REFUSED = 2


class OneSentenceGroup(TyperGroup):
    """Commands whose errors are one sentence; ``VINETS_TRACEBACK=1`` shows where they arose."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with _warnings_as_sentences():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo(STOPPED_SENTENCE, err=True)
            raise typer.Exit(STOPPED_CODE) from None
        except BrokenPipeError:  # the reader of a pipe has seen enough: click ends without a word
            raise
        except Exception as error:
            text = sentence(error)
            if text is None or os.environ.get("VINETS_TRACEBACK") == "1":
                raise
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            text = as_written(text, [] if command is None else command.params)
            typer.echo(f"Error: {text}", err=True)
            raise typer.Exit(REFUSED) from None


@contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """Say on stderr, in one sentence, what this package warns of: of a network, or of data."""
    with warnings.catch_warnings():
        usual = warnings.showwarning
        warnings.filterwarnings("always", category=DoubtWarning)

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, DoubtWarning):
                typer.echo(f"Warning: {message}", err=True)
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield


# Parameters of calls that commands know by other names.
RENAMED = {
    ("load_data", "spec"): ("data",),
    ("create_model", "spec"): ("model", "net", "nets", "uncut"),
    ("open_network", "spec"): ("model", "net", "nets", "uncut"),
    ("export_network", "path"): ("out",),
}


def as_written(text: str, parameters: Sequence[Any]) -> str:
    """A complaint about a parameter of a call, in terms of the options of a command.

    Examples
    --------
    >>> from types import SimpleNamespace as Parameter
    >>> text = "The 'spec' parameter of load_data must be 'digits'. Got 'x' instead."
    >>> as_written(text, [Parameter(opts=["--data"])])
    "--data must be 'digits'. Got 'x' instead."
    """
    found = re.match(r"The '(\w+)' parameter of (\w+) must be", text)
    if found is None:
        return text
    names = RENAMED.get((found[2], found[1]), (found[1],))
    for one in parameters:
        flag = max(one.opts, key=len)
        if flag.lstrip("-").replace("-", "_") in names:
            written = flag if flag.startswith("-") else flag.upper()
            return f"{written} must be{text[found.end() :]}"
    return text


def sentence(error: Exception) -> str | None:
    r"""What to tell a person about ``error``; None for what nobody expected.

    Examples
    --------
    >>> sentence(ValueError("psi is\n  too large"))
    'psi is too large'
    >>> sentence(KeyError("x")) is None
    True
    """
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
