"""Warn about every public name that no page documents, so that ``sphinx-build -W`` fails."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import vinets

logger = logging.getLogger(__name__)

# Modules without __all__ that are meant to be used: what is defined there without an underscore.
MODULES = ("vinets.ideals.plot",)


def public_names() -> dict[str, object]:
    """Every name in an ``__all__`` of the package, and those of ``MODULES``, with its object."""
    found = {}
    packages = pkgutil.walk_packages(vinets.__path__, "vinets.")
    for name in ["vinets", *(one.name for one in packages if one.ispkg)]:
        module = importlib.import_module(name)
        found |= {f"{name}.{one}": getattr(module, one) for one in getattr(module, "__all__", ())}
    for name in MODULES:
        for one, value in vars(importlib.import_module(name)).items():
            if not one.startswith("_") and getattr(value, "__module__", "") == name:
                found[f"{name}.{one}"] = value
    return found


def undocumented(documented: set[str]) -> list[str]:
    """Public names of which no alias is among the documented ones."""
    names = public_names()
    known = {id(names[one]) for one in documented & names.keys()}
    known |= {id(value) for one in documented if (value := _found(one)) is not None}
    return sorted(one for one, value in names.items() if id(value) not in known)


def _found(dotted: str) -> object | None:
    value: object = vinets
    for part in dotted.split(".")[1:]:
        value = getattr(value, part, None)
    return value if inspect.isclass(value) or inspect.isroutine(value) else None


def check(app: Sphinx, env: BuildEnvironment) -> None:
    documented = set(env.get_domain("py").objects)
    for name in undocumented(documented):
        logger.warning("%s is public, and on no page: add it to docs/api", name)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True}
