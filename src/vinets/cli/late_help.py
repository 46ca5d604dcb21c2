"""Help that names what is registered: looked up when somebody asks for it, and not before."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from typer.core import TyperCommand

# Written into a help text, these stand for names that are known once torch is imported.
LOOKUPS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "{data formats}": ("vinets.data.formats", lambda m: m.written_formats()),
    "{networks}": ("vinets.models", lambda m: ", ".join(one.written for one in m.libraries())),
    "{pretrained}": ("vinets.pretrained", lambda m: ", ".join(m.names())),
    "{recipes}": ("vinets.runs.scratch", lambda m: m.written_recipes()),
    "{oracles}": ("vinets.oracles", lambda m: ", ".join(m.ORACLES)),
    "{export formats}": ("vinets.export", lambda m: " or ".join(sorted(m.EXPORT_FORMATS))),
    "{export suffixes}": ("vinets.export", lambda m: " or ".join(m.suffixes())),
    "{heads}": ("vinets.heads", lambda m: ", ".join(m.HEADS)),
    "{experiments}": (
        "vinets.paper.reproduce",
        lambda m: ", ".join(sorted(m.EXPERIMENTS, key=lambda name: m.EXPERIMENTS[name].order)),
    ),
}


# Options with which a command prepares a run, and fills no folder.
PLANS = ("dry_run",)


class LateHelp(TyperCommand):
    """A command that fills in its help when it is shown, and imports torch for it only then.

    It takes options from a file with --config, and writes those of a run into its folder.
    """

    def make_context(
        self, info_name: Any, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        path, rest = config_in(args)
        if path is not None:
            from vinets.cli.config import read_config

            extra["default_map"] = read_config(path, str(info_name), list(self.params))
        return super().make_context(info_name, rest, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        from vinets.cli.config import given_options, write_config

        result = super().invoke(ctx)
        folder = ctx.params.get("out")
        planned = any(map(ctx.params.get, PLANS))
        if isinstance(folder, Path) and folder.is_dir() and not planned:
            from vinets import __version__

            write_config(folder, str(ctx.info_name), given_options(ctx), __version__)
        return result

    def format_help(self, ctx: Any, formatter: Any) -> None:
        parameters: list[Any] = self.params  # made for this run alone, so they may be changed
        for parameter in parameters:
            for marker, (module, names) in LOOKUPS.items():
                if marker in (getattr(parameter, "help", None) or ""):
                    told = names(import_module(module))
                    parameter.help = parameter.help.replace(marker, told)
        super().format_help(ctx, formatter)


def config_in(words: list[str]) -> tuple[str | None, list[str]]:
    """The file behind --config, and the other words.

    Examples
    --------
    >>> config_in(["out/base", "--config", "run.toml", "--json"])
    ('run.toml', ['out/base', '--json'])
    """
    for place, word in enumerate(words):
        if word.startswith("--config="):
            return word.partition("=")[2], words[:place] + words[place + 1 :]
        if word == "--config":
            if place + 1 == len(words):
                raise ValueError("--config must be followed by a file, such as run.toml.")
            return words[place + 1], words[:place] + words[place + 2 :]
    return None, words
