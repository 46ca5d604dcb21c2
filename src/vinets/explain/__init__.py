"""Explanations of a network's answers; ``vinets.explain(...)`` makes one."""

import sys
from types import ModuleType
from typing import Any


class ExplainPackage(ModuleType):
    """The package, which is callable because the public function has the same name."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        from vinets.explain.explain import explain

        return explain(*args, **options)


sys.modules[__name__].__class__ = ExplainPackage
