"""What goes wrong, in one sentence on stderr."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from vinets.checks import DoubtWarning
from vinets.stopping import SENTENCE, STOPPED, stoppable

EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError)
REFUSED = 2


class OneSentenceGroup(TyperGroup):
    """Commands whose errors are one sentence; ``VINETS_TRACEBACK=1`` shows where they arose."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with stoppable(), _warnings_as_sentences():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo(SENTENCE, err=True)
            raise typer.Exit(STOPPED) from None
        except BrokenPipeError:  # the reader of a pipe has seen enough: click ends without a word
            raise
        except Exception as error:
            text = sentence(error)
            if text is None or os.environ.get("VINETS_TRACEBACK") == "1":
                raise
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
