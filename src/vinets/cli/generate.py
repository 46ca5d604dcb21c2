"""Options of a command, made from the fields of :mod:`vinets.settings`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, replace
from functools import wraps
from types import MappingProxyType
from typing import Annotated, Any, get_type_hints

import typer

from vinets.options import Domain, Options

__all__ = ["takes"]


def takes(
    _without: tuple[str, ...] = (),
    _open: Mapping[str, Callable[[str], str]] = MappingProxyType({}),
    **groups: type[Options],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command that takes objects of settings be given their fields as options.

    Parameters
    ----------
    _without : tuple of str
        Fields that are no options of this command.
    _open : dict
        Parameters whose defaults are known only when the command runs: these get a dict of what
        was given in place of an object. The function tells the default of a field in words.
    **groups
        Parameter of the command and its class; the default of the parameter, if it has one, is
        what options change. The class's ``panel`` heads the options in the help.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command).parameters
        starts = {
            group: kind() if own[group].default is inspect.Parameter.empty else own[group].default
            for group, kind in groups.items()
        }
        shown = {
            f"{group}__{one.name}": (group, one)
            for group, kind in groups.items()
            for one in fields(kind)  # type: ignore[arg-type]
            if one.name not in _without and "domain" in one.metadata
        }

        @wraps(command)
        def called(**given: Any) -> None:
            changes: dict[str, dict[str, Any]] = {group: {} for group in groups}
            for name, (group, one) in shown.items():
                value = given.pop(name)
                if value is not None:
                    changes[group][one.name] = _read(_flag(one), one.metadata["domain"], value)
            made: dict[str, Any] = dict(changes)
            for group in groups.keys() - _open.keys():
                made[group] = replace(starts[group], **changes[group])  # type: ignore[type-var]
            command(**given, **made)

        hints = get_type_hints(command, include_extras=True)
        kept = [
            p.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            for name, p in own.items()
            if name not in groups
        ]
        added = []
        for name, (group, one) in shown.items():
            default, words = _default(one, starts[group])
            if group in _open:
                default, words = None, _open[group](one.name)
            panel = groups[group].panel or groups[group].__name__
            option = _option(panel, one, default, words)
            added.append(
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=option
                )
            )
        required = [p for p in kept if p.default is inspect.Parameter.empty]
        optional = [p for p in kept if p.default is not inspect.Parameter.empty]
        signature = inspect.Signature([*required, *added, *optional])
        called.__signature__ = signature  # type: ignore[attr-defined]
        called.__annotations__ = {n: p.annotation for n, p in signature.parameters.items()}
        return called

    return decorate


def _flag(one: Field[Any]) -> str:
    flag: str = one.metadata.get("flag", f"--{one.name.replace('_', '-')}")
    return flag


def _option(panel: str, one: Field[Any], default: Any, words: str | None) -> Any:
    """What typer makes an option of; ``words`` tell a default that is no value."""
    domain: Domain = one.metadata["domain"]
    flag, kind = _flag(one), domain.typed
    if kind is bool and default is not False:  # what is off need not be switched off
        flag = f"{flag}/--no-{flag.removeprefix('--')}"
    help: str = one.metadata["help"]
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
    return Annotated[kind | None, option]


def _default(one: Field[Any], start: Options) -> tuple[Any, str | None]:
    """The default of an option and what it is in words, where None stands for "not given"."""
    value = getattr(start, one.name)
    if value == one.default and "shown" in one.metadata:
        return None, one.metadata["shown"]
    domain: Domain = one.metadata["domain"]
    return (None, "all") if value is None else (domain.typed(value), None)


def _read(flag: str, domain: Domain, value: Any) -> Any:
    """The value that was meant, or one sentence on what would have been accepted."""
    accepted = domain.written or domain.accepted
    try:
        meant = domain.read(value) if domain.read is not None else value
    except (ValueError, KeyError):
        raise ValueError(f"{flag} must be {accepted}. Got {value!r} instead.") from None
    if not domain.holds(meant):
        raise ValueError(f"{flag} must be {accepted}. Got {value!r} instead.")
    return meant
