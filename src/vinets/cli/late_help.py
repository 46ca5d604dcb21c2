"""Help that names what is registered: looked up when somebody asks for it, and not before."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from typer.core import TyperCommand

# Written into a help text, these stand for names that are known once torch is imported.
LOOKUPS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "{data formats}": ("vinets.data.formats", lambda m: m.written_formats()),
    "{networks}": ("vinets.models", lambda m: ", ".join(one.written for one in m.libraries())),
    "{oracles}": ("vinets.oracles", lambda m: ", ".join(m.ORACLES)),
    "{export formats}": ("vinets.nn.export", lambda m: " or ".join(sorted(m.EXPORT_FORMATS))),
    "{export suffixes}": ("vinets.nn.export", lambda m: " or ".join(m.suffixes())),
    "{baselines}": ("vinets.pipeline.baselines", lambda m: ", ".join(m.labels())),
    "{heads}": ("vinets.pipeline.baselines", lambda m: ", ".join(m.kinds())),
    "{experiments}": (
        "vinets.experiments.reproduce",
        lambda m: ", ".join(one.name for one in m.chosen_experiments(["all"])),
    ),
}


class LateHelp(TyperCommand):
    """A command that fills in its help when it is shown, and imports torch for it only then."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        parameters: list[Any] = self.params  # made for this run alone, so they may be changed
        for parameter in parameters:
            for marker, (module, names) in LOOKUPS.items():
                if marker in (getattr(parameter, "help", None) or ""):
                    told = names(import_module(module))
                    parameter.help = parameter.help.replace(marker, told)
        super().format_help(ctx, formatter)
