"""Register things by name, from inside the package or from outside.

An entry is known as soon as the module that adds it is imported. Modules of a package are
imported by :meth:`Registry.discover` when a name is first asked for, so that a new file is all
that a new entry takes. Other distributions announce theirs as entry points of the group
``vinets.plugins``: modules that are imported at the same moment.
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

    Parameters
    ----------
    what : str
        Noun for an entry in messages: "head", "oracle".
    package : str or None, default=None
        Package whose modules add the entries; they are imported when first needed.

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

    def discover(self) -> None:
        """Import the modules that add entries."""
        if self.package is not None:
            _import_modules(self.package)
        _import_plugins()

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            self.discover()
        if name not in self._entries:
            raise UnknownName(
                f"There is no {self.what} {name!r}.{nearest(name, self)} "
                f"There are: {', '.join(self)}."
            )
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        self.discover()
        return iter(self._entries)

    def __len__(self) -> int:
        self.discover()
        return len(self._entries)


# Both once: an import that fails is tried again, and raises again.
@cache
def _import_modules(package: str) -> None:
    for module in pkgutil.iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")


@cache
def _import_plugins() -> None:
    for plugin in entry_points(group="vinets.plugins"):
        plugin.load()
