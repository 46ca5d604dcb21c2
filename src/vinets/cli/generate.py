"""Options of a command, made from the fields of dataclasses."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields, is_dataclass, replace
from functools import wraps
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import OptionInfo

from vinets.core.options import Domain, flag_of

Words = Callable[[str], str | None] | None


def takes(
    _without: tuple[str, ...] = (),
    _open: Mapping[str, Words] = MappingProxyType({}),
    **groups: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command that takes dataclasses be given their fields as options.

    A field of :mod:`vinets.core.settings` becomes an option by its domain, in the panel of its
    class; any other is annotated for typer. The fields of a field that is a dataclass are options,
    too.

    Parameters
    ----------
    _without : tuple of str
        Fields that are no options of this command.
    _open : dict
        Parameters whose defaults are known only when the command runs: these get a dict of what
        was given in place of an object, and dicts of dicts where fields are dataclasses. The
        function tells the default of a field in words; None, as the function or what it returns,
        shows that of the class or object.
    **groups
        Parameter of the command and its class, or an object whose values are the defaults; the
        default of the parameter, if it has one, is what options change.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        starts: dict[str, Any] = dict(groups)
        parameters = []
        for name, own in inspect.signature(command).parameters.items():
            if name not in groups:
                parameters.append(_keyword(name, own.default, _named(name, hints[name])))
                continue
            if own.default is not inspect.Parameter.empty:
                starts[name] = own.default
            opened = name in _open
            parameters += _spread(name, starts[name], _without, opened, _open.get(name))

        @wraps(command)
        def called(**given: Any) -> None:
            made: dict[str, Any] = {}
            for name, start in starts.items():
                changes = _changes(name, start, given, name in _open)
                made[name] = changes if name in _open else _changed(start, changes)
            command(**given, **made)

        # typer reads both: the parameters from the one, their types from the other
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return decorate


def _spread(
    name: str, start: Any, without: tuple[str, ...], opened: bool = False, words: Words = None
) -> Iterator[inspect.Parameter]:
    """Parameters for the fields of a dataclass, or of an object whose values are the defaults."""
    kind: Any = start if isinstance(start, type) else type(start)
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        # the group is part of the key, for two groups may have a field of the same name
        key, value = f"{name}__{one.name}", getattr(start, one.name, inspect.Parameter.empty)
        if one.name in without:
            continue
        if is_dataclass(value):
            yield from _spread(key, value, without, opened, words)
        elif "domain" in one.metadata:
            default, shown = _default(one, value)
            if opened:  # None tells what was not given from what was
                default, shown = None, (words and words(one.name)) or told(one, value)
            panel = kind.panel or kind.__name__
            yield _keyword(key, default, _option(panel, one, default, shown))
        elif hasattr(hints[one.name], "__metadata__"):
            yield _keyword(key, value, _named(one.name, hints[one.name]))


def _changes(name: str, start: Any, given: dict[str, Any], opened: bool = False) -> dict[str, Any]:
    """The fields that options give; they are taken out of ``given``, where the rest stays."""
    found: dict[str, Any] = {}
    for one in fields(start):
        key, inner = f"{name}__{one.name}", getattr(start, one.name, None)
        if is_dataclass(inner):
            if not any(word.startswith(key) for word in given):
                continue  # the command has no option for any of its fields
            changes = _changes(key, inner, given, opened)
            found[one.name] = changes if opened else _changed(inner, changes)
        elif key in given:
            value, domain = given.pop(key), one.metadata.get("domain")
            if domain is None:
                found[one.name] = value
            elif value is not None:  # which stands for "not given"
                found[one.name] = _read(flag_of(one), domain, value)
    return found


def _changed(start: Any, changes: dict[str, Any]) -> Any:
    return start(**changes) if isinstance(start, type) else replace(start, **changes)


def _keyword(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _named(name: str, hint: Any) -> Any:
    """The annotation of an option, which gets the name of its field if it has none yet."""
    info = copy.copy(getattr(hint, "__metadata__", (None,))[0])  # fields may share an annotation
    if not isinstance(info, OptionInfo) or info.default is not ...:
        return hint
    # The default of an annotation is where typer keeps the first name. Left to typer, a bool
    # would get an option to switch it off as well.
    info.default = f"--{name.replace('_', '-')}"
    return Annotated[hint.__origin__, info]


def _option(panel: str, one: Field[Any], default: Any, words: str | None) -> Any:
    """What typer makes an option of; ``words`` tell a default that is no value."""
    domain: Domain = one.metadata["domain"]
    flag, help = flag_of(one), one.metadata["help"]
    if domain.typed is bool and default is not False:  # what is off need not be switched off
        flag = f"{flag}/--no-{flag.removeprefix('--')}"
    if domain.choices:
        *most, last = domain.choices
        help = f"{help.removesuffix('.')}: {', '.join(most)} or {last}."
    option = typer.Option(
        flag,
        help=help,
        rich_help_panel=panel,
        show_default=True if words is None else words,
        metavar=domain.metavar or None,
    )
    return Annotated[domain.typed | None, option]


def _default(one: Field[Any], value: Any) -> tuple[Any, str | None]:
    """The default of an option and what it is in words, where None stands for "not given"."""
    if value == one.default and "shown" in one.metadata:
        return None, one.metadata["shown"]
    return (None, "all") if value is None else (one.metadata["domain"].typed(value), None)


def told(one: Field[Any], value: Any) -> str | None:
    """A value of a field as the help shows it; None where it says nothing."""
    default, shown = _default(one, value)
    if isinstance(default, bool):
        return "yes" if default else "no"
    return shown if default is None else str(default)


def _read(flag: str, domain: Domain, value: Any) -> Any:
    """The value that was meant, or one sentence on what would have been accepted."""
    try:
        meant = domain.read(value) if domain.read is not None else value
        if domain.holds(meant):
            return meant
    except (ValueError, KeyError):
        pass  # a text that cannot be read is told like a value that is not accepted
    accepted = domain.written or domain.accepted
    raise ValueError(f"{flag} must be {accepted}. Got {value!r} instead.")
