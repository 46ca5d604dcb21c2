"""Networks in files of the user's own.

A file is run because the user named it, in :func:`vinets.models.create_model` or :func:`use_file`,
and never because a record does: a record keeps the name of the file, and is looked up among those
that were named in this process.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from vinets.core.checks import parameter_error
from vinets.models.libraries.base import Library, Options, UnnamedFile, harmless
from vinets.models.libraries.onnx import use_onnx

SPEC = re.compile(r"(.+\.py):(\w+)")
# Begins a name that no import statement can mean, so that the module of a file hides no other.
FILE_MODULE = "vinets file "

# What makes a network, and a digest of its code, by the name in records.
_named: dict[str, tuple[Callable[..., Any], str]] = {}
_folders: set[Path] = set()  # where files were run


class File(Library):
    """``path/file.py:NAME``, a class or a function that returns a network."""

    name = "file"
    prefix = "FILE.py"
    written = record_form = "FILE.py:CLASS"
    record_name = re.compile(r"[\w .+-]+\.py:\w+")  # the name of a file without its folders

    def parse(self, spec: str) -> str | None:
        if spec.endswith(".py"):
            raise ValueError(f"{spec} names a file. Name the class in it as well, as {spec}:CLASS.")
        return use_file(spec) if SPEC.fullmatch(spec) else None

    def check(self, name: str) -> None:
        super().check(name)
        if name not in _named:
            raise UnnamedFile(name, name)

    def names(self) -> Iterable[str]:
        return _named

    def build(self, name: str, options: Options) -> nn.Module:
        # Records choose the options, and a text may be a path to read from.
        if not harmless([*options.values()]):
            raise ValueError("options of a network in a file are small numbers, words, and lists")
        make, code = _named[name]
        signature = inspect.signature(make)
        taken = signature.parameters.values()
        if not any(p.name == "num_classes" or p.kind is p.VAR_KEYWORD for p in taken):
            options = {key: value for key, value in options.items() if key != "num_classes"}
        try:
            signature.bind(**options)
        except TypeError as error:
            names = ", ".join(signature.parameters) or "(none)"
            raise ValueError(
                f"{error}. Its arguments are {names}: give them defaults, or name a function of "
                "the file that returns the network"
            ) from None
        model = make(**options)
        if not isinstance(model, nn.Module):
            raise ValueError(f"it gave {type(model).__name__}, and a torch.nn.Module is wanted")
        for part in model.modules():  # every part, because the network may be cut
            vars(part)["vinets_code"] = code
        return model

    def spec(self, name: str) -> str:
        return name


def use_file(spec: str, *, known_as: str | None = None) -> str:
    """Run a file of your own, or read an ONNX file, so that saved networks of it can be opened.

    ``spec`` is ``"path/file.py:NAME"``, with a class or a function that returns a network. Records
    know it as ``"file.py:NAME"``, or by ``known_as`` if file or class had another name when they
    were written: ``"old.py:OLD"``. That is returned. ``"path/net.onnx"`` is known by its digest.
    """
    if isinstance(spec, str) and spec.endswith(".onnx"):
        key = use_onnx(spec)
        if known_as is not None:
            raise ValueError(f"{spec} is {key}, another file than {known_as}.")
        return key
    written = SPEC.fullmatch(spec) if isinstance(spec, str) else None
    if written is None:
        raise parameter_error("use_file", "spec", "written as path/file.py:CLASS", spec)
    path, name = Path(written[1]).expanduser().resolve(), written[2]
    if not path.is_file():
        raise FileNotFoundError(f"{written[1]} does not exist or is not a file.")
    files = _code_files(path)
    # The file itself may be renamed, and its folder may be moved.
    names = ["", *(one.relative_to(path.parent).as_posix() for one in files[1:])]
    digests = [hashlib.sha256(one.read_bytes()).hexdigest() for one in files]
    facts = sorted(zip(names, digests, strict=True))
    code = hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
    module = _run(path, tuple(files[1:]), code)
    make = getattr(module, name, None)
    if not callable(make) or isinstance(make, nn.Module):
        own = [v for v in vars(module).values() if getattr(v, "__module__", "") == module.__name__]
        makers = [v.__name__ for v in own if inspect.isclass(v) or inspect.isfunction(v)]
        near = difflib.get_close_matches(name, makers, n=3, cutoff=0)
        hint = f" It has {', '.join(near)}." if near else ""
        raise ValueError(f"{written[1]} has no class or function {name}.{hint}")
    key = f"{path.name}:{name}" if known_as is None else known_as
    _named[key] = make, code
    return key


@lru_cache
def _run(path: Path, neighbours: tuple[Path, ...], code: str) -> ModuleType:
    """Run a file as a module; once, unless its code or that of its neighbours changes."""
    name, folder = f"{FILE_MODULE}{path}", path.parent
    stale = {str(one) for one in neighbours} if name in sys.modules else set()
    own = {one.relative_to(folder).with_suffix("").parts for one in neighbours}
    for key, one in [*sys.modules.items()]:
        place = Path(getattr(one, "__file__", None) or "")
        # It may have changed as well, or be of the same name in the folder of another network.
        parts = tuple(key.split("."))
        other = (_folders - {folder}) & {*place.parents} and {parts, (*parts, "__init__")} & own
        if str(place) in stale or other:
            del sys.modules[key]
    _folders.add(folder)
    module = sys.modules[name] = ModuleType(name)  # because dataclasses look there
    module.__file__ = str(path)
    sys.path.insert(0, str(folder))  # because it may import its neighbours
    try:
        # Not by the loader, whose cache tells files apart by the second and by their size.
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
    except Exception as error:
        del sys.modules[name]
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise ValueError(f"{path} could not be run: {reason}.") from error
    finally:
        sys.path.remove(str(folder))
        if str(folder) not in sys.path:
            sys.path.append(str(folder))  # for imports that come later
    return module


def _code_files(path: Path) -> list[Path]:
    """List a file, and the modules in its folder that it imports."""
    folder, files = path.parent, [path]
    for file in files:  # which grow meanwhile
        for module in _imported(file, folder):
            # All packages on the way to a module run before it does.
            for place in (one for one in (module, *module.parents) if folder in one.parents):
                for one in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
                    if one not in files and one.is_file():
                        files.append(one)
    return files


def _imported(file: Path, folder: Path) -> Iterator[Path]:
    """Give the places, without suffix, of modules that a file may import from a folder."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # it cannot be run either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield folder.joinpath(*alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            # One dot is the folder of the file, and every further dot the one above.
            start = file.parents[node.level - 1] if node.level else folder
            for alias in node.names:  # a name may be that of a module
                yield start.joinpath(*(node.module or "").split("."), alias.name)
