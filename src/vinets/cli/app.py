"""The program ``vinets``: its commands, and one sentence for what goes wrong.

Commands import torch and the package when they run, not before, so that ``--help`` is quick.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from inspect import BoundArguments
from pathlib import Path
from typing import Any, NamedTuple

import cyclopts

from vinets.cli.parameters import apply_run_file, given_options, write_run
from vinets.core.checks import DoubtWarning

REFUSED = 2
EXPECTED = (ValueError, TypeError, OSError, ImportError, MemoryError)

# Modules of the commands, panel by panel, in the order of use.
COMMANDS = {
    "Make a network": {"train": "make", "compress": "make", "cuts": "use", "build": "make"},
    "Use a network": {
        **dict.fromkeys(("evaluate", "bench"), "use"),
        **dict.fromkeys(("theory", "ood"), "insight"),
        **{"predict": "use", "explain": "insight", "export": "use"},
    },
    "Ideals of points": {"ideal": "ideal"},
    "See it at work": {"reproduce": "paper", "report": "paper"},
}

GONE = {
    "demo": "Run vinets reproduce all --on digits --out out/demo, and then vinets report out/demo.",
    "cascade": "examples/cascade.py in the repository shows early exit in plain PyTorch.",
}
"""Commands of version 0.2, and what is written in their place."""

# Parameters of calls that commands know by other names.
RENAMED = {
    ("load_data", "spec"): ("data",),
    ("create_model", "spec"): ("model", "net", "nets"),
    ("open_network", "spec"): ("model", "net", "nets"),
    ("export_network", "path"): ("out",),
}


class Call(NamedTuple):
    """A command with its arguments, as a line asks for it."""

    command: Callable[..., None]
    bound: BoundArguments
    arguments: Sequence[Any] = ()  # what cyclopts knows of each


def program(word: str = "") -> cyclopts.App:
    """Return the parser of the program; modules of other commands than ``word`` come later."""
    app = cyclopts.App(
        name="vinets",
        help="""Approximate vanishing ideals for deep learning.

        Make a trained network smaller: cut it, and put polynomials in place of what was removed.

        vinets train --model digits_cnn --data digits --out out/base

        vinets compress out/base --data digits --budget drop=0.5 --out out/small

        Every command has its own help, and most print one JSON object with --json.""",
        version_flags=(),
        default_parameter=cyclopts.Parameter(allow_repeating=True, negative_iterable=()),
        group_commands=cyclopts.Group("Options"),
        group_parameters=cyclopts.Group("Options"),
    )
    known = any(word in names for names in COMMANDS.values())
    for order, (panel, names) in enumerate(COMMANDS.items()):
        group = cyclopts.Group(panel, sort_key=order)
        for place, (name, module) in enumerate(names.items()):
            target: Any = f"vinets.cli.{module}:{name}"
            if not known:  # all of them are listed, with the first lines of their help
                target = getattr(import_module(f"vinets.cli.{module}"), name)
            app.command(target, name=name, group=group, sort_key=place)
    app.command(_version, name="--version")
    app.register_install_completion_command(help="Make the tab key complete, in your shell.")

    @app.command(name="--show-completion")
    def show_completion(shell: str = "bash", /) -> None:
        """Print what makes the tab key complete, for bash, zsh or fish."""
        print(app.generate_completion(shell=shell))  # type: ignore[arg-type]

    return app


def parse(words: Sequence[str]) -> Call:
    """Return what a line asks for, without doing it."""
    if words and words[0] in GONE:
        raise ValueError(f"vinets {words[0]} is no command any more. {GONE[words[0]]}")
    arguments: list[Any] = []
    refuse: Callable[[str], Any] = str  # complains about options that are known elsewhere
    if words[:1] == ["build"]:
        from vinets.cli import make

        make.choose_head(words)
        refuse = make.refuse_option

    def read_config(app: cyclopts.App, commands: tuple[str, ...], collection: Any) -> None:
        arguments.extend(collection)
        for one in collection:
            if "--config" in one.names and one.tokens:
                apply_run_file(one.tokens[-1].value, commands[0], collection, refuse)

    app = program(words[0] if words else "")
    app.config = (read_config,)
    try:
        command, bound, _ = app.parse_args(list(words), exit_on_error=False, print_error=False)
    except cyclopts.UnknownOptionError as error:
        refuse(error.token.keyword or "")
        raise
    return Call(command, bound, arguments)


def run(words: Sequence[str]) -> int:
    """Carry out a line, and return its exit code: what goes wrong is one sentence on stderr."""
    call, bare = None, len(words) < 2 and not any(word.startswith("-") for word in words)
    show_usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, DoubtWarning):  # one of this package, on a network or on data
            print(f"Warning: {message}", file=sys.stderr)
        else:
            show_usual(message, category, *place, **more)

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", category=DoubtWarning)
            # Pillow warns of large images, all of which are refused here.
            warnings.filterwarnings("ignore", "Image size .* exceeds limit")
            warnings.showwarning = show
            call = parse([*words, "--help"] if bare else words)  # a command alone gets its help
            call.command(*call.bound.args, **call.bound.kwargs)
        sys.stdout.flush()
        out = call.bound.arguments.get("out")
        if isinstance(out, Path) and out.is_dir() and not call.bound.arguments.get("dry_run"):
            write_run(out, words[0], given_options(call.arguments))
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        text = sentence(error)
        if text is None or os.environ.get("VINETS_TRACEBACK") == "1":
            raise
        print(f"Error: {as_written(text, call.arguments if call else ())}", file=sys.stderr)
        return REFUSED
    return REFUSED if bare else 0


def as_written(text: str, arguments: Iterable[Any]) -> str:
    """Return a complaint about a parameter of a call in terms of the options of a command."""
    if match := re.match(r"The '(\w+)' parameter of (\w+) must be", text):
        names = RENAMED.get((match[2], match[1]), (match[1],))
        for name in (max(one.names, key=len) for one in arguments):
            if name.lstrip("-").replace("-", "_").lower() in names:
                return f"{name} must be{text[match.end() :]}"
    return text


def sentence(error: Exception) -> str | None:
    """Return what to tell a person about ``error``; None for what nobody expected."""
    argument = error.argument if isinstance(error, cyclopts.CycloptsError) else None
    if isinstance(error, cyclopts.UnusedCliTokensError):
        more = ", ".join(map(repr, error.unused_tokens or []))
        return f"No argument is left for {more}. Put the option before it that it is for."
    if argument is not None and isinstance(error, cyclopts.MissingArgumentError):
        if not argument.required or argument.name in (error.root_input_tokens or []):
            return f"{argument.name} must be followed by a value."
        return f"{argument.name} is missing. {argument.parameter.help}"
    if argument is not None and isinstance(error.__cause__, ValueError):  # from its own domain
        return f"{argument.name} {error.__cause__}"
    torch = sys.modules.get("torch")  # where it was never imported, it raised nothing
    if torch is not None and isinstance(error, torch.OutOfMemoryError):
        return "The GPU ran out of memory. Lower the batch size, or pass --device cpu."
    if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
        return "The memory of this computer does not suffice. Lower the batch size."
    if not isinstance(error, (cyclopts.CycloptsError, *EXPECTED)):
        return None
    if isinstance(error, OSError) and error.filename is not None:
        if isinstance(error, PermissionError):
            return f"{error.filename} may not be read or written. Check its permissions."
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split()) or f"{type(error).__name__}."


def _version() -> None:
    """Show the version, and what whoever reads about a fault has to know."""
    import sklearn
    import torch

    from vinets.measure import machine

    facts = machine("cpu")
    fast = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    gpus = [torch.cuda.get_device_name(one) for one in range(torch.cuda.device_count())]
    waiting = os.environ.get("OMP_WAIT_POLICY", "not set")
    print(
        f"vinets {facts['vinets']}\n"
        f"Python {facts['python']}, torch {facts['torch']}, numpy {facts['numpy']}, "
        f"scikit-learn {sklearn.__version__}\n"
        f"processor: {facts['processor']}, bfloat16 is {'fast' if fast else 'slow'}\n"
        f"cores: {facts['cores']}, {load} of them busy or asked for in the last minute\n"
        f"threads of torch: {facts['torch_threads']}, OMP_WAIT_POLICY: {waiting}\n"
        f"GPUs: {', '.join(gpus) or 'none'}"
    )
