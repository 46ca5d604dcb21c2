"""The contract between a solver and the loop."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Protocol, Self, TypeVar

from torch import Tensor

from .problem import LeastSquaresBatch


@dataclass(frozen=True)
class RowState:
    """Base of a solver's state: a frozen dataclass of tensors with one row per problem."""

    def select(self, rows: Tensor) -> Self:
        """The state of the listed rows only."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})


State = TypeVar("State", bound=RowState)


class Solver(Protocol[State]):
    """A small immutable object; all that changes lives in its state.

    A state belongs to the call that receives it: ``step`` and ``refresh`` may reuse its memory.
    """

    def init(self, problem: LeastSquaresBatch, start: Tensor) -> State:
        """State at ``start`` (N, o), a point of the ball."""
        ...

    def step(self, problem: LeastSquaresBatch, state: State) -> State:
        """One iteration of every row, without waiting for the device."""
        ...

    def refresh(self, problem: LeastSquaresBatch, state: State) -> State:
        """Recompute what ``step`` only updates; called after each termination test.

        May improve the points as well, if that never raises a value.
        """
        ...

    def coefficients(self, problem: LeastSquaresBatch, state: State) -> Tensor:
        """Current points, shape (N, o)."""
        ...
