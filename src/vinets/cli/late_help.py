"""Help that names what is registered: looked up when somebody asks for it, and not before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand

__all__ = [
    "DATA_FORMATS",
    "EXPERIMENTS",
    "EXPORT_FORMATS",
    "EXPORT_SUFFIXES",
    "NETWORKS",
    "LateHelp",
]

# Written into a help text; here they stand for what is known once everything is imported.
DATA_FORMATS, NETWORKS, EXPERIMENTS = "{data formats}", "{networks}", "{experiments}"
EXPORT_FORMATS, EXPORT_SUFFIXES = "{export formats}", "{export suffixes}"
ORACLES = "{oracles}"  # in vinets.settings


class LateHelp(TyperCommand):
    """A command that fills in its help when it is shown: until then torch is not imported."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for parameter in self.params:  # arguments and options
            text = getattr(parameter, "help", None) or ""
            for marker, names in _NAMES.items():
                if marker in text:
                    text = text.replace(marker, names())
                    parameter.help = text  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


def _data_formats() -> str:
    from vinets.data.formats import written_formats

    return written_formats()


def _networks() -> str:
    from vinets.models.libraries import libraries

    return ", ".join(library.written for library in libraries())


def _oracles() -> str:
    from vinets.oracles import ORACLES

    return ", ".join(ORACLES)


def _experiments() -> str:
    from vinets.experiments.reproduce import chosen_experiments

    return ", ".join(one.name for one in chosen_experiments(["all"]))


def _export_formats() -> str:
    from vinets.nn.export import EXPORT_FORMATS

    return " or ".join(sorted(EXPORT_FORMATS))


def _export_suffixes() -> str:
    from vinets.nn.export import EXPORT_FORMATS

    return " or ".join(sorted(format.suffix for format in EXPORT_FORMATS.values()))


_NAMES: dict[str, Callable[[], str]] = {
    DATA_FORMATS: _data_formats,
    NETWORKS: _networks,
    ORACLES: _oracles,
    EXPERIMENTS: _experiments,
    EXPORT_FORMATS: _export_formats,
    EXPORT_SUFFIXES: _export_suffixes,
}
