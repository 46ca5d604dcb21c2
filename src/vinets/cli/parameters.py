"""Parameters of commands: flags made from the fields of options, and files that hold a run."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, make_dataclass, replace
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import tomli_w
from cyclopts import Parameter, Token

from vinets.core.files import read_bytes, write_text
from vinets.core.options import Domain, Options, flag_of
from vinets.core.plain import nearest

# Written into a help text, these stand for names that are registered: those that come with the
# package, so that no help imports torch, and the module and function that know all of them.
NAMES: dict[str, tuple[str, str, Callable[[Any], str]]] = {
    "{data formats}": (
        "'digits', 'cifar10:DIR', 'cifar100:DIR', a folder with CIFAR or WebP sheets, 'idx:DIR', "
        "'fashion-mnist:DIR' (mirrored as well), a folder with IDX files, 'text:DIR' (train.tsv "
        "and test.tsv, lines of label, tab, text), a folder of images by class, 'X.npy,y.npy' or "
        "'X.npy,y.npy,Xtest.npy,ytest.npy'",
        "vinets.data.formats",
        lambda m: m.written_formats(),
    ),
    "{networks}": (
        "resnet18, resnet34, resnet20, resnet32, resnet44, resnet56, resnet, digits_cnn, vit, "
        "text_transformer, FILE.py:CLASS, hf:CLASS, timm:NAME, torchvision:NAME",
        "vinets.models",
        lambda m: ", ".join(one.written for one in m.libraries()),
    ),
    "{oracles}": ("agd, cg, pcg, bpcg", "vinets.oracles", lambda m: ", ".join(m.ORACLES)),
    "{export formats}": (
        "onnx or onnx-float16 or onnx-int8 or torch",
        "vinets.export",
        lambda m: " or ".join(sorted(m.EXPORT_FORMATS)),
    ),
    "{export suffixes}": (
        ".onnx or .pt2",
        "vinets.export",
        lambda m: " or ".join(m.suffixes()),
    ),
    "{heads}": (
        "distance, vanishing, linear, pooled, components, ridge, lda, closed, local, local-relu, "
        "mlp, products, relu-units, random, same-degrees, local-random, local-same-degrees, simkd",
        "vinets.heads",
        lambda m: ", ".join(m.HEADS),
    ),
    "{experiments}": (
        "claims, fig-vanishing, table-generators, table-efficiency, fig-truncation, fig-pruning, "
        "fig-parameters, fig-monomials, fig-generators, fig-algorithms, table-oracles, "
        "fig-dimension, fig-baselines, table-choices, fig-kept, table-theory",
        "vinets.paper.reproduce",
        lambda m: ", ".join(
            sorted(m.EXPERIMENTS, key=lambda name: (m.EXPERIMENTS[name].order, name))
        ),
    ),
}


def parameter(
    panel: str | None,
    help: str,
    domain: Domain | None = None,
    *names: str,
    shown: str | bool | None = None,
    negative: bool = False,
    **more: Any,
) -> Parameter:
    """Return the description of an option, or of an argument where the panel is None.

    ``shown`` is its default in words, False to say nothing. A switch gets an option that turns it
    off if ``negative`` says so.
    """
    if domain is not None and domain.choices:
        *most, last = domain.choices
        help = f"{help.removesuffix('.')}: {', '.join(most)} or {last}."
    for marker, (usual, module, names_in) in NAMES.items():
        if marker in help:
            plugins = bool(entry_points(group="vinets.plugins"))
            help = help.replace(marker, names_in(import_module(module)) if plugins else usual)
    return Parameter(
        name=names,
        group=panel,
        help=help,
        converter=None if domain is None or domain.typed is bool else partial(_read, domain),
        metavar=None if domain is None else domain.metavar or None,
        show_default=_in_words if shown is None else shown,
        negative=None if negative else (),
        **more,
    )


def _read(domain: Domain, hint: Any, tokens: Sequence[Token]) -> Any:
    """Return the value that was meant, or say in one sentence what would have been accepted."""
    written = tokens[0].value
    try:
        value = (domain.read or domain.typed)(written)
        if domain.holds(value):
            return value
    except (ValueError, KeyError):
        pass  # a text that cannot be read is refused like a value that is not accepted
    raise ValueError(f"must be {domain.written or domain.accepted}. Got {written!r} instead.")


def takes(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let the fields of :class:`Options` that a command takes be options of its line.

    A parameter of such a class gets the options that are given, and for the rest the defaults of
    the class, or those of the parameter's own default. Fields named in ``without`` are no options
    of this command. A dict, annotated with arguments of :func:`spread`, gets what is given alone.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        defaults: dict[str, Any] = dict(command.__kwdefaults__ or {})
        for name, hint in hints.items():
            described = getattr(hint, "__metadata__", (None,))
            if isinstance(described[0], Options):
                hints[name], defaults[name] = spread(*described, keep=dict), {}  # type: ignore[misc]
            elif isinstance(hint, type) and issubclass(hint, Options):
                hints[name] = spread(defaults.get(name, hint), without)
                if all(one.default is not MISSING for one in fields(hint)):  # type: ignore[arg-type]
                    defaults.setdefault(name, hint())
        command.__annotations__, command.__kwdefaults__ = hints, defaults
        return command

    return decorate


def spread(
    start: Any,
    without: Sequence[str] = (),
    words: Callable[[str], str] | None = None,
    keep: type | None = None,
) -> Any:
    """Return the annotation of a parameter whose options are the fields of ``start``.

    ``start`` is a class of options, or an object whose values are the defaults. The command gets
    the object that the options make of it, or a dict of them if ``keep`` is dict.
    """
    kind: Any = start if isinstance(start, type) else type(start)
    members: list[Any] = []
    for one in fields(kind):
        if one.name in without or "domain" not in one.metadata:
            continue
        value = getattr(start, one.name, MISSING)
        shown = shown_default(one, value) if words is None else words(one.name)
        switch = one.metadata["domain"].typed is bool
        described = parameter(
            one.metadata.get("panel") or kind.panel or kind.__name__,
            one.metadata["help"],
            one.metadata["domain"],
            flag_of(one),
            *one.metadata.get("short", ()),
            shown=shown,
            negative=switch and (keep is dict or value is not False),
        )
        typed = one.metadata["domain"].typed
        members.append((one.name, Annotated[typed, described], value))

    def make(_: type, **given: Any) -> Any:
        if keep is dict:
            return given
        return kind(**given) if isinstance(start, type) else replace(start, **given)

    # a class for cyclopts, whose objects are made as above; its module must not be that of types
    namespace = {"__new__": make, "__module__": __name__}
    required = [one for one in members if one[2] is MISSING]
    ordered = [one[:2] for one in required] + [one for one in members if one[2] is not MISSING]
    made = make_dataclass(kind.__name__, ordered, namespace=namespace, init=False)
    return Annotated[made, Parameter(name="*")]


def shown_default(one: Field[Any], value: Any) -> str | bool:
    """Return the default of an option as its help shows it; False where it says nothing."""
    if value == one.default and "shown" in one.metadata:
        return one.metadata["shown"] or False
    return False if value is MISSING else "all" if value is None else _in_words(value) or False


def _in_words(value: Any) -> str | None:
    """Return a default as a help shows it; None for what is off, or not there."""
    return None if value is None or value is False else "yes" if value is True else str(value)


RUN_FILE = "run.toml"
MAX_FILE_BYTES = 1 << 20
CALL_ONLY = ("config", "wait", "quiet")  # options of one call, which do not belong to a run


def option_names(arguments: Iterable[Any]) -> dict[str, Any]:
    """Return the arguments of a command by what they are called in a file."""
    return {
        (one.name if one.name.startswith("--") else one.field_info.name).removeprefix("--"): one
        for one in arguments
        if not one.children
    }


def apply_run_file(
    path: str,
    command: str,
    arguments: Iterable[Any],
    refuse: Callable[[str], Any] = str,
) -> None:
    """Let a file say what the command line does not; ``refuse`` may know an unknown option."""
    values = read_run(path)
    made_by = values.pop("command", command)
    if made_by != command:
        name = textwrap.shorten(str(made_by), 80)
        raise ValueError(f"{path} is for vinets {name}, and this is vinets {command}.")
    values.pop("version", None)
    known = option_names(arguments)
    for name, value in values.items():
        if name not in known:
            refuse(f"--{name}")
            shown = textwrap.shorten(repr(name), 80)
            hint = nearest(name, known)
            raise ValueError(f"{path}: vinets {command} has no option {shown}.{hint}")
        if isinstance(value, dict):
            raise ValueError(f"{path}: {name} must be a value or a list of values, not a table.")
        if not known[name].tokens:
            for item in value if isinstance(value, list) else [value]:
                text = str(item).lower() if isinstance(item, bool) else str(item)
                known[name].append(Token(keyword=f"--{name}", value=text, source=path))


def read_run(path: str | Path) -> dict[str, Any]:
    """Return the options in a file."""
    try:
        return tomllib.loads(read_bytes(path, MAX_FILE_BYTES).decode("utf-8"))
    except RecursionError:
        raise ValueError(f"{path} is not a TOML file: it is nested too deeply.") from None
    except ValueError as error:  # from the encoding, TOML, or integers that are too long
        reason = textwrap.shorten(str(error).rstrip("."), 200)
        raise ValueError(f"{path} is not a TOML file: {reason}.") from None


def given_options(arguments: Iterable[Any]) -> dict[str, Any]:
    """Return what was given to a command, on its line or by a file, without what is of one call."""
    given: dict[str, Any] = {}
    for name, one in option_names(arguments).items():
        if one.tokens and name not in CALL_ONLY:
            texts = [token.value for token in one.tokens]
            several = isinstance(one.value, list)
            plain = isinstance(one.value, bool | int | float) and one.hint in (bool, int, float)
            given[name] = one.value if plain else texts if several else texts[-1]
    return given


def write_run(folder: Path, command: str, values: Mapping[str, Any], version: str) -> Path:
    """Write what was given to a command, so that ``vinets COMMAND --config FILE`` repeats it.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = write_run(Path(mkdtemp()), "train", {"data": "digits", "epochs": 2}, "1.0")
    >>> print(path.read_text())
    # To run it again: vinets train --config run.toml
    command = "train"
    version = "1.0"
    data = "digits"
    epochs = 2
    <BLANKLINE>
    """
    facts = {"command": command, "version": version, **values}
    heading = f"# To run it again: vinets {command} --config {RUN_FILE}\n"
    return write_text(folder / RUN_FILE, heading + tomli_w.dumps(facts))
