"""The program ``vinets`` and its commands.

Commands import torch and the package when they run, not before, so that ``--help`` is quick.
"""

from __future__ import annotations

from typing import Annotated

import typer

from vinets.cli.bench import bench
from vinets.cli.build import HeadCommand, build
from vinets.cli.compress import compress
from vinets.cli.cuts import cuts
from vinets.cli.errors import OneSentenceGroup
from vinets.cli.evaluate import evaluate
from vinets.cli.explain import explain
from vinets.cli.export import export
from vinets.cli.ideal import ideal
from vinets.cli.late_help import LateHelp
from vinets.cli.ood import ood
from vinets.cli.predict import predict
from vinets.cli.report import report
from vinets.cli.reproduce import reproduce
from vinets.cli.theory import theory
from vinets.cli.train import train

app = typer.Typer(
    name="vinets",
    cls=OneSentenceGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from vinets import __version__

        typer.echo(f"vinets {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Approximate vanishing ideals for deep learning.

    Make a trained network smaller: cut it, and put polynomials in place of what was removed.

    vinets train --model digits_cnn --data digits --out out/base

    vinets compress out/base --data digits --budget drop=0.5 --out out/small

    Every command has its own help, and most print one JSON object with --json.
    """


# In the order of use. Without an argument, a command shows its help.
for _panel, _commands in {
    "Make a network": (train, compress, cuts, build),
    "Use a network": (evaluate, bench, theory, ood, predict, explain, export),
    "Ideals of points": (ideal,),
    "See it at work": (reproduce, report),
}.items():
    for _command in _commands:
        _kind = HeadCommand if _command is build else LateHelp
        app.command(cls=_kind, rich_help_panel=_panel, no_args_is_help=True)(_command)
