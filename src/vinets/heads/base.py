"""The base of all heads, the list of them, and the steps that their builds share.

A head takes latents of shape (B, C, P), ``C`` channels at ``P`` positions, to logits (B, K).
"""

from __future__ import annotations

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from vinets.core.options import Options
from vinets.core.progress import Progress
from vinets.core.registry import Registry
from vinets.heads.facts import BuildFacts
from vinets.heads.pieces import HeadMaps, folded_linear, parameter_count
from vinets.latent.collect import Latents

HEADS: Registry[type[Head]] = Registry("head", "vinets.heads")
"""Every class of heads by its kind: those of this package, and those defined elsewhere."""


@dataclass(frozen=True)
class HeadOptions(Options):
    """Base of the options of heads; ``kind`` is the head that they build to compare others with."""

    panel: ClassVar[str] = "Head"
    kind: ClassVar[str] = ""


def redefined(owner: type[Options], name: str, default: Any, **more: Any) -> Any:
    """Return an option of another class with this default, and with what ``more`` changes."""
    (known,) = (one.metadata for one in fields(owner) if one.name == name)  # type: ignore[arg-type]
    return field(default=default, metadata={**known, **more})


class LastLayer(nn.Module):
    """The end of a head: features (B, F), normalisation if there is any, a linear layer.

    Modules among them belong to the head, so that training this trains the head; ``parts`` are
    those that a function computes the features with.
    """

    def __init__(
        self,
        features: Callable[[Tensor], Tensor],
        norm: nn.BatchNorm1d | None,
        linear: nn.Linear,
        *parts: nn.Module,
    ) -> None:
        super().__init__()
        self.features, self.norm, self.linear = features, norm, linear
        self.parts = nn.ModuleList(parts)

    def forward(self, z: Tensor) -> Tensor:
        y = self.features(z)
        logits: Tensor = self.linear(y if self.norm is None else self.norm(y))
        return logits


class Head(nn.Module, ABC):
    """Base of all heads: latents (B, C, P) to logits (B, K).

    A subclass with a ``kind`` of its own is a head that all of vinets knows from then on: files,
    tables, theory, and, if it can be built, ``vinets.build(head=kind)`` and the command line.
    """

    kind: ClassVar[str]  # one word, in files and on the command line
    label: ClassVar[str]  # in tables; the kind, unless the class says otherwise
    # Whether its polynomials were found as generators of class ideals: the network is a VI-Net.
    from_ideals: ClassVar[bool] = False
    matches_features: ClassVar[bool] = False  # learns what the uncut network's classifier sees
    needs_training: ClassVar[bool] = True  # whether a built head is to be trained
    Options: ClassVar[type[HeadOptions]] = HeadOptions  # what :meth:`build` takes
    rivals: ClassVar[tuple[str, ...]] = ()  # kinds of the heads that it is compared with
    # How it is trained, where nothing else is said: changes to vinets.core.settings.
    training_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    # The :data:`vinets.training.epochs.Criterion` of the head; None is the usual loss.
    criterion: Callable[..., Tensor] | None = None
    facts: BuildFacts | None = None  # how it was built; not part of files

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in vars(cls):  # others only hold what several heads share
            if "label" not in vars(cls):  # an inherited one would name two rows alike
                cls.label = cls.kind
            HEADS.add(cls.kind, cls)

    @abstractmethod
    def forward(self, latents: Tensor) -> Tensor:
        """Compute the logits (B, K) of latents (B, C, P)."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return plain JSON values for :meth:`from_config`: arguments of the class, as a rule."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """Make a head of the shapes that ``config`` and ``state`` tell, and load no state."""
        return cls(**config)

    @abstractmethod
    def parts(self) -> dict[str, int]:
        """Count the parameters that each part stores."""

    @abstractmethod
    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        """Return the maps of a folded head on latents of C channels at P positions."""

    @classmethod
    def build(
        cls, latents: Latents, options: Any = None, seed: int = 0, progress: Progress | None = None
    ) -> Head:
        """Make an untrained head for latents, with its :attr:`facts`.

        Latents are those of training data behind the cut, which :func:`vinets.collect` collects;
        options are an object of the class :attr:`Options`, None for its defaults. The same seed
        gives the same head, whatever was built before. ``progress`` hears of long steps.
        """
        begin = time.perf_counter()
        with seeded(seed):
            head = cls.make(latents, options or cls.Options(), seed)
        if head.facts is None:
            head.facts = plain_facts(head, latents, begin)
        return head.to(latents.device).eval()

    @classmethod
    def make(cls, latents: Latents, options: Any, seed: int) -> Head:
        """Make the head for :meth:`build`, which seeds torch's own generator for it."""
        raise ValueError(f"A head of kind {cls.kind!r} is not made from latents.")

    @classmethod
    def latent_defaults(cls, options: Any) -> dict[str, Any]:
        """Return which latents it is built on: changes to :class:`LatentOptions`."""
        return {"reuse": True}

    def folded(self) -> Self:
        """Return the head for inference: same outputs, fewer parameters and operations."""
        return copy.deepcopy(self)

    def split(self) -> tuple[Callable[[Tensor], Tensor], nn.Module] | None:
        """Return what training never changes, to be computed once, and the module behind it."""
        return None

    def last_layer(self) -> LastLayer | None:
        """Return the linear layer behind features that stay, if there is one, to train it alone."""
        return None

    def trained_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that fine-tuning changes."""
        return [p for p in self.parameters() if p.requires_grad]


class FeatureHead(Head):
    """Base of heads that end with features, batch normalisation unless folded, a linear layer."""

    norm: nn.BatchNorm1d | None
    linear: nn.Linear

    @abstractmethod
    def features(self, latents: Tensor) -> Tensor:
        """Return what the last layer sees, (B, F)."""

    def forward(self, latents: Tensor) -> Tensor:
        y = self.features(latents)
        return self.linear(y if self.norm is None else self.norm(y))

    def last_layer(self) -> LastLayer | None:
        return LastLayer(self.features, self.norm, self.linear)

    @torch.no_grad()
    def folded(self) -> Self:
        plain = super().folded()
        if self.norm is not None:
            plain.linear, plain.norm = folded_linear(self.norm, self.linear), None
        return plain

    def parts(self) -> dict[str, int]:
        return {"linear": parameter_count(self.norm, self.linear)}

    def config(self) -> dict[str, Any]:
        return {"classes": self.linear.out_features, "normalized": self.norm is not None}


class ClosedFormHead(Head):
    """Base of kinds whose weights are solved for; the head itself may be of another kind."""

    needs_training = False

    @classmethod
    @abstractmethod
    def solve(cls, latents: Latents, mask: Tensor, options: Any, seed: int) -> Head:
        """Solve for a head on the examples of a mask (m,)."""

    @classmethod
    @torch.no_grad()
    def make(cls, latents: Latents, options: Any, seed: int) -> Head:
        every = torch.ones(len(latents.store), dtype=torch.bool)
        return cls.solve(latents, every, options, seed).folded()


def features_of(
    latents: Latents, mask: Tensor, see: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Return what ``see`` makes of the latents of a mask (m,), in chunks, and their labels."""
    rows, labels = [], []
    parts = zip(latents.store.chunks(1024), mask.split(1024), strict=True)
    for (values, answers), part in parts:
        rows.append(see(values[part].to(latents.device)))
        labels.append(answers[part].to(latents.device))
    return torch.cat(rows), torch.cat(labels)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch's own generator, from which heads draw their first weights, and put it back."""
    with torch.random.fork_rng(devices=[]):  # heads are made on the CPU, whatever they train on
        torch.manual_seed(seed)
        yield


def plain_facts(head: Head, latents: Latents, begin: float, **more: Any) -> BuildFacts:
    """Return the facts that every head has, and ``more``; ``begin`` is when building began."""
    backbone = sum(p.numel() for p in latents.backbone.parameters())
    seconds = {"latents": latents.seconds, "head": time.perf_counter() - begin}
    return BuildFacts(
        cut=latents.record.cut,
        latent_shape=latents.shape,
        examples=len(latents.store),
        parts={"backbone": backbone} | head.folded().parts(),
        original_parameters=latents.original_parameters,
        seconds=more.pop("seconds", seconds),
        head=head.kind,
        **more,
    )


def build_like(latents: Latents, like: HeadOptions, seed: int) -> Head:
    """Build the head that a baseline is compared with, once for all of its baselines."""
    return latents.once("like", (like, seed), lambda: HEADS[like.kind].build(latents, like, seed))
