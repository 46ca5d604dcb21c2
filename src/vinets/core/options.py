"""Options: frozen dataclasses whose fields carry their domain and their help.

A class of :mod:`vinets.core.settings` is the only place where an option is written down. Public
calls take its fields as flat keywords (:func:`flat`), the command line makes its options from them,
and a value outside its domain is refused when the object is made, before any work is done.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from functools import wraps
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from vinets.core.checks import is_whole, parameter_error
from vinets.core.plain import nearest

R = TypeVar("R")


@dataclass(frozen=True)
class Domain:
    """The values of an option, and how they are written on the command line.

    ``read`` gives the value that a text stands for, where that is no plain conversion; it raises
    ValueError for what it cannot read.
    """

    accepted: str  # in words, to follow "must be"
    holds: Callable[[Any], bool]  # whether a value belongs to it
    read: Callable[[str], Any] | None = None
    typed: type = str  # what the command line takes: bool, int, float, str or Path
    written: str = ""  # what is accepted there, in words, where that differs
    metavar: str = ""  # what stands for a value in its help; the name of the type if empty
    choices: tuple[str, ...] = ()  # all values, where there are a few words


def option(default: Any, domain: Domain | None, help: str, **more: Any) -> Any:
    """Return a field of an :class:`Options` class; ``help`` is one line, for a reader of any page.

    A default of None belongs to the values, too. There may be ``more``: ``flag``, its name on the
    command line if that is not the field's, and ``short`` ones; ``panel``, where that is not the
    class's; ``shown``, the default in words, None to say nothing; ``result=False`` for options that
    change no result, only how it is computed.
    """
    if default is None and domain is not None and not domain.holds(None):
        domain = optional(domain)
    return field(default=default, metadata={"domain": domain, "help": help, **more})


def flag_of(one: Field[Any]) -> str:
    """Return what the option of a field is called on the command line."""
    return one.metadata.get("flag", f"--{one.name.replace('_', '-')}")


def option_fields(kind: Any) -> list[Field[Any]]:
    """Return the fields of a class of options, or of an object, that :func:`option` describes."""
    return [one for one in fields(kind) if "domain" in one.metadata]


def words_of(ours: Options, usual: Options, kind: Any = None) -> list[str]:
    """Return options as they are written, where they change a result and differ from the usual.

    With a ``kind``, those that a command with fewer options takes, too.

    Examples
    --------
    >>> from vinets.core.settings import TrainingOptions
    >>> words_of(TrainingOptions(epochs=3, nesterov=True), TrainingOptions())
    ['--epochs', '3', '--nesterov']
    """
    words: list[str] = []
    for one in option_fields(kind or ours):
        value, flag = getattr(ours, one.name), flag_of(one)
        several = value if isinstance(value, tuple) else ()
        if value == getattr(usual, one.name) or not one.metadata.get("result", True):
            continue
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag.removeprefix('--')}")
        elif several and isinstance(several[0], str):
            words += [word for each in several for word in (flag, each)]
        else:
            text = "all" if value is None else str(value)
            words += [flag, ",".join(f"{number:g}" for number in several) or text]
    return words


class Options:
    """Base of frozen dataclasses of options: refuses values outside their domains.

    ``panel`` heads the options in the help of the command line; the name of the class if empty.
    """

    panel: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for one in option_fields(self):
            value = getattr(self, one.name)
            check_value(type(self).__name__, one.name, one.metadata["domain"], value)


def check_value(owner: str, name: str, domain: Domain, value: Any) -> None:
    """Raise unless the value belongs to the domain."""
    if not domain.holds(value):
        raise parameter_error(owner, name, domain.accepted, value)


# --- domains ----------------------------------------------------------------------------------


def whole(low: int = 1, high: int | None = None) -> Domain:
    """Return the domain of integers from ``low`` on, perhaps up to ``high``."""
    accepted = "a positive integer" if low == 1 else f"an integer of at least {low}"
    if high is None:
        return Domain(accepted, lambda value: is_whole(value, low), typed=int)
    accepted = f"an integer from {low} to {high}"
    return Domain(accepted, lambda value: is_whole(value, low) and value <= high, typed=int)


def real(low: float, high: float = math.inf, *, high_included: bool = False) -> Domain:
    """Return the domain of numbers from ``low`` on, up to ``high`` or below it."""

    def holds(value: Any) -> bool:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        return is_number and (low <= value < high or (high_included and value == high))

    end = "]" if high_included else ")"
    return Domain(f"a number in [{low:g}, {high:g}{end}", holds, typed=float)


def choice(*names: str) -> Domain:
    """Return the domain of some words."""
    listed = ", ".join(map(repr, names[:-1])) + f" or {names[-1]!r}"
    return Domain(listed, lambda value: isinstance(value, str) and value in names, choices=names)


TEXT = Domain("a text", lambda value: isinstance(value, str))
FLAG = Domain("True or False", lambda value: isinstance(value, bool), typed=bool)
PATH = Domain("a path", lambda value: isinstance(value, str | Path), typed=Path)


def optional(domain: Domain) -> Domain:
    """Return the same domain with None."""
    return replace(
        domain,
        accepted=f"{domain.accepted}, or None",
        holds=lambda value: value is None or domain.holds(value),
        written=domain.written or domain.accepted,  # an option that is not given is None
    )


def count(*, auto: bool = False, share: bool = False) -> Domain:
    """Return the domain of positive integers and None for all.

    Perhaps "auto" is one of them, and shares in (0, 1], which are written as ``50%``.
    """

    def holds(value: Any) -> bool:
        if isinstance(value, float):
            return share and 0 < value <= 1
        return value is None or (auto and value == "auto") or is_whole(value)

    def read(text: str) -> Any:
        if share and text.endswith("%"):
            return float(text[:-1]) / 100
        return {"all": None, "auto": "auto"}[text] if text in ("all", "auto") else int(text)

    between = " a share in (0, 1]," if share else ""
    return Domain(
        f"a positive integer,{between} None for all" + (", or 'auto'" if auto else ""),
        holds,
        read,
        written="a positive integer" + (", a share such as 50%, or all" if share else " or all"),
        metavar="N|50%|all" if share else "N|all",
    )


def share(*, auto: bool = False) -> Domain:
    """Return that of :func:`count` with shares in (0, 1]."""
    return count(auto=auto, share=True)


# --- flat keywords ----------------------------------------------------------------------------


def flat(**groups: type[Options]) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Let a function that takes :class:`Options` objects take their fields as keywords, too.

    Keywords change the object that is given itself, or else the default of the function's
    parameter, or else that of the class. A keyword that nothing has is refused, with the nearest
    one that there is. People see the signature with the fields among the function's keywords.
    """

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        own = inspect.signature(function).parameters
        starts: dict[str, Any] = {
            name: kind() if own[name].default is inspect.Parameter.empty else own[name].default
            for name, kind in groups.items()
        }

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> R:
            mine = {name: keywords.pop(name) for name in [*keywords] if name in own}
            mine |= gather(function.__name__, groups, keywords, starts | mine, known=own)
            return function(*args, **mine)

        keyword = inspect.Parameter.KEYWORD_ONLY
        shown = [one for name, one in own.items() if name not in starts]
        shown += [
            inspect.Parameter(f.name, keyword, default=getattr(start, f.name), annotation=f.type)
            for start in starts.values()
            for f in fields(start)
            if f.name not in own
        ]
        call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        return call

    return decorate


def gather(
    owner: str,
    groups: Mapping[str, type[Options]],
    given: Mapping[str, Any],
    objects: Mapping[str, Any],
    known: Iterable[str] = (),
) -> dict[str, Options]:
    """Return the objects, by the name of their group, as flat keywords change them."""
    every = {group: fields(kind) for group, kind in groups.items()}  # type: ignore[arg-type]
    names = [one.name for group in every.values() for one in group]
    for name in given:
        if name not in names:
            hint = nearest(name, [*names, *known])
            raise TypeError(f"{owner} has no option {name!r}.{hint}")
    changed: dict[str, Options] = {}
    for group, mine in every.items():  # fields of one name, such as batch_size, change together
        own = [one for one in mine if one.name in given]
        for one in own:  # here, so that a complaint has the owner's name
            if "domain" in one.metadata:
                check_value(owner, one.name, one.metadata["domain"], given[one.name])
        changed[group] = replace(objects[group], **{one.name: given[one.name] for one in own})
    return changed
