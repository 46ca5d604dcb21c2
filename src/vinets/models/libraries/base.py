"""The interface of a library of networks, and helpers that libraries share."""

from __future__ import annotations

import importlib
import re
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, TypeAlias

from torch import nn

from vinets.core.checks import parameter_error
from vinets.core.plain import nearest
from vinets.core.registry import Registry

Options: TypeAlias = dict[str, Any]
"""Arguments of a network by name: plain JSON values where they come from a record."""

LIBRARIES: Registry[type[Library]] = Registry("library", "vinets.models.libraries")


class Library(ABC):
    """Networks by name; a subclass with a ``name`` is known to ``create_model`` and ``rebuild``."""

    name: ClassVar[str]  # records have it; also the package that its networks are defined in
    prefix: ClassVar[str]  # create_model("prefix:NAME"); empty: the name of the network alone
    written: ClassVar[str]  # what users write, shown in help and complaints
    # Options that records may hold: they shape a network, and name no file and no weights.
    shape_options: ClassVar[Set[str] | None] = None  # None: any
    # Names that records may hold, and how a complaint describes them.
    record_name: ClassVar[re.Pattern[str]] = re.compile(r"[\w.]{1,100}")
    record_form: ClassVar[str] = "of up to 100 letters, digits, dots and underscores"

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "name" in vars(cls):
            LIBRARIES.add(cls.name, cls)

    def parse(self, spec: str) -> str | None:
        """Return the name in ``spec`` if that is written as this library writes its networks."""
        if not self.prefix:
            return spec if spec in self.names() else None
        prefix, _, name = spec.partition(":")
        return name if name and prefix == self.prefix else None

    def check(self, name: str) -> None:
        """Raise for a name, perhaps of a file that nobody vouches for, that cannot be meant."""
        if not isinstance(name, str) or not self.record_name.fullmatch(name):
            raise record_error(f"whose name is {self.record_form}", name)

    def known_options(self, name: str, options: Options) -> Options:
        """Return the options of a record that nobody vouches for, as far as they may be used.

        Those of ``shape_options`` are numbers, words or lists of these. A library without that list
        drops what can do no harm, and raises for the rest.
        """
        if self.shape_options is None:
            return options
        for key, value in options.items():
            if key not in self.shape_options or not harmless(value):
                accepted = f"options that {self.name} is known to shape networks by"
                raise record_error(f"with {accepted}, made of numbers and words", key)
        return options

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Return the names of the networks, for hints."""

    @abstractmethod
    def build(self, name: str, options: Options) -> nn.Module:
        """Build a network, with random weights unless ``options`` ask for others.

        The name may come from a file that nobody vouches for: look it up, never import it.
        """

    def maker(self, name: str) -> Callable[..., Any]:
        """Return what takes the options of a network, to be named when others come."""
        return type(self.build(name, {}))

    def candidates(self, model: nn.Module) -> Iterator[tuple[str | None, Options]]:
        """Give names and options that may make ``model`` again, the likeliest first.

        Every candidate is tried, so that guesses do no harm. Without any, only a network that
        ``create_model`` made has a record.
        """
        return iter(())

    def with_classes(self, options: Options, count: int) -> Options:
        """Return the options with ``count`` outputs of the last layer."""
        return {**options, "num_classes": count}

    def with_channels(self, name: str, channels: int) -> Options:
        """Return options that fit a network to images of ``channels`` channels, if it has any."""
        return {}

    def normalisation(self, model: nn.Module, weights: Path | None) -> tuple[Any, Any] | None:
        """Return mean and deviation of pixels in [0, 1] that weights of ``model`` were made for.

        ``weights`` is the file of these. Anything but numbers, one a channel, is not known.
        """
        return None

    def spec(self, name: str) -> str:
        """Return what to pass to ``create_model`` for the network ``name``."""
        return f"{self.prefix}:{name}" if self.prefix else name

    def unknown(self, name: str) -> ValueError:
        """Build the error for a name that the library does not have."""
        return ValueError(f"{self.name} has no network of that name.{nearest(name, self.names())}")

    def defines(self, model: nn.Module) -> bool:
        """Say whether the class of ``model`` comes from the package of this library."""
        return type(model).__module__.partition(".")[0] == self.name


class UnnamedFile(ValueError):
    """A record is of a network in a file that the user did not name."""

    def __init__(self, name: str, file: str) -> None:
        super().__init__(
            f"This network is {file}, and a file is run only if you name it: write "
            f"FOLDER@{file} for the folder, with the path of the file, or call "
            "vinets.models.use_file before."
        )
        self.name = name


def record_error(accepted: str, got: Any, remedy: str = "") -> ValueError:
    """Build the error for a record, perhaps of a file that nobody vouches for."""
    return parameter_error("rebuild", "source", f"a record {accepted}", reprlib.repr(got), remedy)


def harmless(value: Any) -> bool:
    """Say whether an option is a number that is not large, a word, None, or a list of these."""
    if isinstance(value, list | tuple):
        return all(map(harmless, value))
    if isinstance(value, str):
        return bool(re.fullmatch(r"\w{0,40}", value))  # no address and no path
    return isinstance(value, float | None) or (isinstance(value, int) and value <= 2**20)


def libraries() -> list[Library]:
    """Return one of each by prefix, the same order whichever file was imported first."""
    return sorted((kind() for kind in LIBRARIES.values()), key=lambda library: library.prefix)


def import_optional(module: str, needing: str, extra: str) -> ModuleType:
    """Import a module that ``extra`` installs; ``needing`` begins the complaint: "Timm needs"."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        raise ModuleNotFoundError(
            f"{needing} {missing}, which is not installed. "
            f'Install it with: pip install "vinets[{extra}]".',
            name=missing,
        ) from None
