"""Options of commands as cyclopts takes them, and files that hold a run."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, replace
from functools import partial, wraps
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, TypedDict, get_type_hints

import tomli_w
from cyclopts import Parameter, Token

from vinets import __version__
from vinets.core.checks import reason_of, shortened
from vinets.core.files import read_bytes, refuse_foreign, write_text
from vinets.core.options import FLAG, PATH, TEXT, Domain, Options, option, option_fields, whole
from vinets.core.plain import nearest

# Written into a help text, these stand for names that are registered: those that come with the
# package, so that no help imports torch, and the module and function that know all of them.
NAMES: dict[str, tuple[str, str, Callable[[Any], Iterable[str]]]] = {
    "{data formats}": (
        "'digits', 'cifar10:DIR', 'cifar100:DIR', a folder with CIFAR or WebP sheets, 'idx:DIR', "
        "'fashion-mnist:DIR' (mirrored as well), a folder with IDX files, 'text:DIR' (train.tsv "
        "and test.tsv, lines of label, tab, text), a folder of images by class, 'X.npy,y.npy' or "
        "'X.npy,y.npy,Xtest.npy,ytest.npy'",
        "vinets.data.formats",
        lambda m: [m.written_formats()],
    ),
    "{networks}": (
        "resnet18, resnet34, resnet20, resnet32, resnet44, resnet56, resnet, digits_cnn, vit, "
        "text_transformer, FILE.onnx, FILE.py:CLASS, hf:CLASS, timm:NAME, torchvision:NAME",
        "vinets.models",
        lambda m: [one.written for one in m.libraries()],
    ),
    "{oracles}": ("agd, cg, pcg, bpcg", "vinets.oracles", lambda m: m.ORACLES),
    "{export formats}": (
        "onnx, onnx-float16, onnx-int8 or torch",
        "vinets.export",
        lambda m: [" or ".join(", ".join(sorted(m.EXPORT_FORMATS)).rsplit(", ", 1))],
    ),
    "{export suffixes}": (".onnx or .pt2", "vinets.export", lambda m: [" or ".join(m.suffixes())]),
    "{heads}": (
        "distance, vanishing, linear, pooled, components, mlp, ridge, lda, closed, local, "
        "products, relu-units, random, same-degrees, local-random, local-same-degrees, local-relu, "
        "simkd",
        "vinets.heads",
        lambda m: m.HEADS,
    ),
    "{experiments}": (
        "claims, fig-vanishing, table-generators, table-efficiency, fig-truncation, fig-pruning, "
        "fig-parameters, fig-monomials, fig-generators, fig-algorithms, table-oracles, "
        "fig-dimension, fig-baselines, table-choices, fig-kept, table-theory",
        "vinets.paper.reproduce",
        lambda m: sorted(m.EXPERIMENTS, key=lambda name: (m.EXPERIMENTS[name].order, name)),
    ),
}


TEXTS = Domain("texts", lambda texts: isinstance(texts, list), typed=list[str])
DOMAINS = {bool: FLAG, int: whole(), str: TEXT, Path: PATH, list[str]: TEXTS}


class Panel(str):
    """A heading in the help, below which commands describe options in their signatures."""

    def option(
        self, help: str, default: Any = MISSING, domain: Domain | None = None, **more: Any
    ) -> Any:
        """Describe an option; without a domain, it takes that of its type. See :func:`option`."""
        return option(default, domain, help, panel=self, **more)


DATA, RUNNING, OUTPUT = Panel("Data"), Panel("Running"), Panel("Output")
ARGUMENTS = Panel("Arguments")
argument = ARGUMENTS.option


def takes(without: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take what its signature describes by :meth:`Panel.option`.

    What :data:`ARGUMENTS` describe is given by its place on the line. A parameter of a class of
    :class:`Options` has an option for every field, but for those named in ``without``; what is
    given changes its default, or else that of the class. A parameter that is a dict waits for
    :func:`spread`, and gets what is given alone.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints, starts = get_type_hints(command), dict[str, Options]()
        taken = []
        for name, one in inspect.signature(command).parameters.items():
            default, hint, placed = one.default, hints[name], False
            if isinstance(default, Field):
                placed = default.metadata["panel"] == ARGUMENTS
                usual = (domain for of, domain in DOMAINS.items() if hint in (of, of | None))
                domain, value = default.metadata["domain"] or next(usual), default.default
                hints[name] = _described(default, domain, _in_words(default, value, domain))
                default = one.empty if value is MISSING else value
            elif isinstance(hint, type) and issubclass(hint, Options):
                starts[name] = hint() if default is one.empty else default
                hints[name], default = spread(starts[name], without.split()), {}
            else:
                default = {}
            kind = one.POSITIONAL_ONLY if placed else one.KEYWORD_ONLY
            taken.append(one.replace(default=default, kind=kind))
        signature = inspect.Signature(taken)

        @wraps(command)
        def call(*words: Any, **given: Any) -> None:
            bound = signature.bind(*words, **given)
            bound.apply_defaults()
            for name, start in starts.items():
                changes = bound.arguments[name]
                bound.arguments[name] = replace(start, **changes)  # type: ignore[type-var]
            command(**bound.arguments)

        vars(call).update(__signature__=signature)
        call.__annotations__ = hints
        return call

    return decorate


def spread(
    start: Options,
    without: Sequence[str] = (),
    others: Mapping[str, Options] = MappingProxyType({}),
    switched: bool = False,
) -> Any:
    """Return the annotation of a parameter that is a dict of what is given of the fields of start.

    Where ``others`` have another default, the help says so, by their names. Switches that are off
    have an option that turns them off, too, if they are ``switched`` by more than the line.
    """
    members = {}
    for one in option_fields(start):
        if one.name not in without:
            value, domain = getattr(start, one.name), one.metadata["domain"]
            panel, shown = start.panel or type(start).__name__, _in_words(one, value, domain)
            for name, other in others.items():
                if getattr(other, one.name) != value:
                    shown = f"{shown}; {getattr(other, one.name)} for {name}"
            members[one.name] = _described(
                one, domain, shown, panel, switched or value is not False
            )
    kind = TypedDict(type(start).__name__, members, total=False)  # type: ignore[misc]
    return Annotated[kind, Parameter(name="*")]


def _in_words(one: Field[Any], value: Any, domain: Domain) -> str | bool:
    """Return the default of an option as its help shows it; False where it says nothing."""
    if value == one.default and "shown" in one.metadata:
        return one.metadata["shown"] or False
    if value is None or isinstance(value, bool):
        return "yes" if value else "all" if value is None and "all" in domain.metavar else False
    return str(value) or False


def _described(
    one: Field[Any], domain: Domain, shown: str | bool, panel: str = "", negative: bool = False
) -> Any:
    """Return the annotation of an option; ``negative`` is whether another one turns it off."""
    facts, help = one.metadata, one.metadata["help"]
    if domain.choices:
        *most, last = domain.choices
        help = f"{help.removesuffix('.')}: {', '.join(most)} or {last}."
    for marker, (usual, module, names_in) in NAMES.items():
        if marker in help:
            plugins = bool(entry_points(group="vinets.plugins"))
            names = ", ".join(names_in(import_module(module))) if plugins else usual
            help = help.replace(marker, names)
    described = Parameter(
        name=facts.get("flag", ()),
        alias=facts.get("short", ()),
        group=str(facts.get("panel", panel)),
        help=help,
        converter=partial(_read, domain) if domain.typed in (str, int, float, Path) else None,
        metavar=domain.metavar or None,
        show_default=shown,
        negative=None if facts.get("negative", negative) else (),
        completer=facts.get("completer"),
    )
    return Annotated[domain.typed, described]


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


# --- files that hold a run --------------------------------------------------------------------

RUN_FILE = "run.toml"
MAX_FILE_BYTES = 1 << 20
CALL_ONLY = ("config", "wait", "quiet")  # options of one call, which do not belong to a run


def _by_name(arguments: Iterable[Any]) -> dict[str, Any]:
    """Return the arguments of a command by what they are called in a file."""
    return {
        (one.name if one.name.startswith("--") else one.field_info.name).removeprefix("--"): one
        for one in arguments
        if not one.children
    }


def apply_run_file(
    path: str, command: str, arguments: Iterable[Any], refuse: Callable[[str], Any] = str
) -> None:
    """Let a file say what the command line does not; ``refuse`` may know an unknown option."""
    values, known = read_run(path), _by_name(arguments)
    made_by = values.pop("command", command)
    if made_by != command:
        name = shortened(str(made_by), 77)
        raise ValueError(f"{path} is for vinets {name}, and this is vinets {command}.")
    values.pop("version", None)
    for name, value in values.items():
        if name not in known:
            refuse(f"--{name}")
            shown, hint = shortened(repr(name), 77), nearest(name, known)
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
        reason = "it is nested too deeply"
    except ValueError as error:  # from the encoding, TOML, or integers that are too long
        reason = reason_of(error)
    raise ValueError(f"{path} is not a TOML file: {reason}.")


def given_options(arguments: Iterable[Any]) -> dict[str, Any]:
    """Return what was given to a command, on its line or by a file, without what is of one call."""
    given: dict[str, Any] = {}
    for name, one in _by_name(arguments).items():
        if one.tokens and name not in CALL_ONLY:
            texts = [token.value for token in one.tokens]
            plain = isinstance(one.value, bool | int | float) and one.hint in (bool, int, float)
            several = isinstance(one.value, list)
            given[name] = one.value if plain else texts if several else texts[-1]
    return given


def write_run(folder: Path, command: str, values: Mapping[str, Any]) -> Path:
    """Write what was given to a command, so that ``vinets COMMAND --config FILE`` repeats it."""
    refuse_foreign(folder / RUN_FILE)
    heading = f"# To run it again: vinets {command} --config {RUN_FILE}\n"
    facts = {"command": command, "version": __version__, **values}
    return write_text(folder / RUN_FILE, heading + tomli_w.dumps(facts))
