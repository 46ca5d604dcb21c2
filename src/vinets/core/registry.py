"""Register things by name, from inside the package or from outside.

An entry is known as soon as the module that adds it is imported. Modules of a package are
imported when a name is first asked for, so that a new file is all that a new entry takes. Other
distributions announce theirs as entry points of the group ``vinets.plugins``, imported then, too.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from vinets.core.plain import nearest

T = TypeVar("T")


class UnknownName(KeyError, ValueError):
    """A name that no entry has: a missing key, and a value that is not accepted."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would put it in quotes


class Registry(Mapping[str, T], Generic[T]):
    """Entries by name, in the order in which they were added.

    ``what`` is the noun for an entry in messages, such as "head"; the modules of the ``package``,
    if there is one, add entries.

    Examples
    --------
    >>> shapes = Registry("shape")
    >>> shapes.add("circle", "round")
    >>> shapes["circle"], list(shapes)
    ('round', ['circle'])
    >>> shapes["circel"]
    Traceback (most recent call last):
    vinets.core.registry.UnknownName: There is no shape 'circel'. Did you mean ...? There are: ...
    """

    def __init__(self, what: str, package: str | None = None) -> None:
        self.what, self.package = what, package
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> None:
        """Add an entry; a name that is taken by another one is refused."""
        known = self._entries.setdefault(name, entry)
        same = getattr(known, "__qualname__", known) == getattr(entry, "__qualname__", entry)
        if known is not entry and not same:
            raise ValueError(f"There is a {self.what} {name!r} already: {known!r}.")
        self._entries[name] = entry  # perhaps a class that was defined again, in a notebook

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            _import_modules(self.package)
        if name not in self._entries:
            raise UnknownName(
                f"There is no {self.what} {name!r}.{nearest(name, self)} "
                f"There are: {', '.join(self)}."
            )
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        _import_modules(self.package)
        return iter(self._entries)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache  # An import that fails is tried again, and raises again.
def _import_modules(package: str | None) -> None:
    """Import the modules that add entries: those of the package, and of other distributions."""
    for module in pkgutil.iter_modules(import_module(package).__path__ if package else ()):
        import_module(f"{package}.{module.name}")
    for plugin in entry_points(group="vinets.plugins"):
        plugin.load()
