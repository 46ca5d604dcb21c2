"""What every head offers, the list of all heads, and what baselines are made from.

A head takes latents of shape (B, C, P), ``C`` channels at ``P`` positions, to logits (B, K).
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from vinets.core.registry import Registry
from vinets.core.settings import Shaping
from vinets.heads.maps import HeadMaps

HEADS: Registry[type[Head]] = Registry("head", "vinets.heads")
"""Every class of heads by its kind: those of this package, and those defined elsewhere."""


PLACEMENTS = ("global", "local", "products")


class LastLayer(NamedTuple):
    """What a head ends with: features of latents, normalisation if there is any, linear layer."""

    features: Callable[[Tensor], Tensor]  # latents (B, C, P) to (B, F)
    norm: nn.BatchNorm1d | None
    linear: nn.Linear


class Head(nn.Module, ABC):
    """Base of all heads: latents (B, C, P) to logits (B, K).

    A subclass with a ``kind`` of its own is a head that all of vinets knows from then on: files,
    tables, theory, and, where it has :meth:`beside`, the baselines of polynomial heads.
    """

    kind: ClassVar[str]  # one word, in files and on the command line
    label: ClassVar[str]  # in tables; the kind, unless the class says otherwise
    placement: ClassVar[str] = ""  # the setting that builds it; "" for a baseline
    # Whether its polynomials were found as generators of class ideals: the network is a VI-Net.
    from_ideals: ClassVar[bool] = False
    rank: ClassVar[int] = 100  # baselines are made and listed by increasing rank
    matches_features: ClassVar[bool] = False  # learns what the uncut network's classifier sees
    stands_beside: ClassVar[tuple[str, ...]] = PLACEMENTS  # of the heads it is a baseline of

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in vars(cls):  # others only hold what several heads share
            if "label" not in vars(cls):  # an inherited one would name two rows alike
                cls.label = cls.kind
            HEADS.add(cls.kind, cls)

    @abstractmethod
    def forward(self, latents: Tensor) -> Tensor:
        """Logits (B, K) of latents (B, C, P)."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Plain JSON values for :meth:`from_config`: arguments of the class, as a rule."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Self:
        """A head of the shapes that ``config`` and ``state`` tell; the state is not loaded yet."""
        return cls(**config)

    @abstractmethod
    def parts(self) -> dict[str, int]:
        """How many parameters each part stores."""

    @abstractmethod
    def maps(self, shape: tuple[int, int]) -> HeadMaps:
        """The maps of a folded head on latents of C channels at P positions."""

    @classmethod
    def beside(cls, reference: Reference) -> Self | None:
        """An untrained head to compare with polynomials, or None where it does not apply."""
        return None

    def folded(self) -> Self:
        """The head for inference: same outputs in eval mode, fewer parameters and operations."""
        return copy.deepcopy(self)

    def split(self) -> tuple[Callable[[Tensor], Tensor], nn.Module] | None:
        """What training never changes, latents to variables, and the module behind it.

        None where there is nothing of the kind. With it, the first part can be computed once.
        """
        return None

    def last_layer(self) -> LastLayer | None:
        """The linear layer behind features that stay as they are, to be trained alone.

        None where a head has no such layer.
        """
        return None

    @property
    def criterion(self) -> Callable[..., Tensor] | None:
        """A loss of its own, see :data:`vinets.training.loop.Criterion`; None is the usual one."""
        return None

    def trained_parameters(self) -> list[nn.Parameter]:
        """The parameters that fine-tuning changes."""
        return [p for p in self.parameters() if p.requires_grad]


@dataclass(eq=False)
class Reference:
    """The head of polynomials that a baseline stands beside.

    That head may take minutes to make, and a linear baseline does without it, so it is made when
    it is first asked for.
    """

    shape: tuple[int, int]  # channels C and positions P of the latents
    classes: int  # the number of logits K
    make_head: Callable[[], Head]
    make_points: Callable[[], Tensor]  # variables (m, n) on training data, to standardise others
    max_degree: int = 5  # of random monomials
    seed: int = 0  # of random monomials and initial weights
    shaping: Shaping = Shaping()  # sizes, where they are not those of the head
    make_classifier: Callable[[], nn.Linear] | None = None  # of the uncut network
    signed: Callable[[], bool] = lambda: False  # whether that classifier sees negative values
    placement: str = "global"  # of the head

    @property
    def channels(self) -> int:
        return self.shape[0]

    @property
    def positions(self) -> int:
        return self.shape[1]

    @cached_property
    def head(self) -> Head:
        """The head of polynomials."""
        # Baselines draw one after another from one generator. Whoever asks first must not find it
        # moved on by what making this head drew.
        with torch.random.fork_rng(devices=[]):
            return self.make_head()

    @cached_property
    def points(self) -> Tensor:
        """Variables (m, n) of the polynomials of the head."""
        return self.make_points()

    @cached_property
    def parameters(self) -> int:
        """How many parameters a folded head may store: by default those of :attr:`head`."""
        if self.shaping.head_parameters is not None:
            return self.shaping.head_parameters
        return sum(self.head.folded().parts().values())
