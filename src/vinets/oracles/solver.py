"""The contract between a solver and the loop, and the solvers by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

from torch import Tensor

from vinets.core.registry import Registry

from .problem import LeastSquaresBatch


@dataclass(frozen=True)
class RowState:
    """Base of a solver's state: a frozen dataclass of tensors with one row per problem."""

    def select(self, rows: Tensor) -> Self:
        """The state of the listed rows only."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})


State = TypeVar("State", bound=RowState)

ORACLES: Registry[type[Solver[Any]]] = Registry("oracle", "vinets.oracles")
"""Classes of solvers by the names the papers use; "exact" is :func:`solve_exact`."""


class Solver(ABC, Generic[State]):
    """A small immutable object; all that changes lives in its state.

    A state belongs to the call that receives it: ``step`` and ``refresh`` may reuse its memory. A
    subclass with a ``name`` is an oracle: ``OAVI(oracle=name)`` makes one without arguments.
    ``sparse`` tells that few steps from 0 leave few coefficients nonzero: unless told otherwise,
    ``OAVI`` has such an oracle start there, where ``solve_sparse`` leaves anything to it, and
    others at the optimum.
    """

    name: ClassVar[str]
    sparse: ClassVar[bool] = False

    def __init_subclass__(cls, **more: Any) -> None:
        # a solver registers itself by being defined
        super().__init_subclass__(**more)
        if "name" in vars(cls):  # what several solvers share has none
            ORACLES.add(cls.name, cls)

    def as_published(self) -> Solver[State]:
        """The solver without what this package adds to the algorithm that it is named after."""
        return self

    @abstractmethod
    def init(self, problem: LeastSquaresBatch, start: Tensor) -> State:
        """State at ``start`` (N, o), a point of the ball."""

    @abstractmethod
    def step(self, problem: LeastSquaresBatch, state: State) -> State:
        """One iteration of every row, without waiting for the device."""

    def refresh(self, problem: LeastSquaresBatch, state: State) -> State:
        """Recompute what ``step`` only updates; called after termination tests, every few steps.

        May improve the points as well, if that never raises a value. For steps that compute
        everything afresh there is nothing to do.
        """
        return state

    @abstractmethod
    def coefficients(self, problem: LeastSquaresBatch, state: State) -> Tensor:
        """Current points, shape (N, o)."""
