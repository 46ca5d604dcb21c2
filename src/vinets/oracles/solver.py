"""The contract between a solver and the loop, the solutions, and the solvers by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Tensor

from vinets.core.registry import Registry

from .problem import LeastSquaresBatch


@dataclass(frozen=True)
class RowState:
    """Base of a solver's state: a frozen dataclass of tensors with one row per problem."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of the listed rows only."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})


State = TypeVar("State", bound=RowState)

ORACLES: Registry[type[Solver[Any]]] = Registry("oracle", "vinets.oracles")
"""Classes of solvers by the names the papers use; "exact" is :func:`solve_exact`."""


class Solver(ABC, Generic[State]):
    """A small immutable object; all that changes lives in its state.

    A state belongs to the call that receives it: ``step`` and ``refresh`` may reuse its memory. A
    subclass with a ``name`` is an oracle: ``OAVI(oracle=name)`` makes one without arguments.
    ``sparse`` tells that few steps from 0 leave few coefficients nonzero: unless asked otherwise,
    ``OAVI`` has such an oracle start there, where ``solve_sparse`` leaves anything to it, and
    others at the optimum.
    """

    name: ClassVar[str]
    sparse: ClassVar[bool] = False

    def __init_subclass__(cls, **more: Any) -> None:
        # a solver registers itself by being defined
        super().__init_subclass__(**more)
        if "name" in vars(cls):  # a base of several solvers has none
            ORACLES.add(cls.name, cls)

    def as_published(self) -> Solver[State]:
        """Return the solver without what this package adds to the published algorithm."""
        return self

    @abstractmethod
    def init(self, problem: LeastSquaresBatch, start: Tensor) -> State:
        """Make the state at ``start`` (N, o), a point of the ball."""

    @abstractmethod
    def step(self, problem: LeastSquaresBatch, state: State) -> State:
        """Take one step in every row, without waiting for the device."""

    def refresh(self, problem: LeastSquaresBatch, state: State) -> State:
        """Recompute what ``step`` only updates; called after termination tests, every few steps.

        May improve the points as well, if that never raises a value. For steps that compute
        everything afresh there is nothing to do.
        """
        return state

    @abstractmethod
    def coefficients(self, problem: LeastSquaresBatch, state: State) -> Tensor:
        """Return the current points, shape (N, o)."""


class Status(IntEnum):
    """The way in which a row ended.

    ``CONVERGED``: dual gap <= tolerance. ``TARGET``: value <= target, stopped there.
    ``INFEASIBLE_TARGET``: value - gap > target, so no point of the ball reaches the target.
    ``STEP_LIMIT``: out of steps. ``STALLED``: rounding allows no further progress.
    """

    CONVERGED = 0
    TARGET = 1
    INFEASIBLE_TARGET = 2
    STEP_LIMIT = 3
    STALLED = 4


@dataclass(frozen=True)
class Summary:
    """Counts over the rows of a solution."""

    rows: int
    per_status: dict[Status, int]
    total_steps: int
    max_steps: int
    worst_gap: float


@dataclass(frozen=True)
class Solution:
    """Solutions of N problems, row by row.

    ``coefficients`` (N, o) are points of the ball, zero beyond the prefix, ``value`` (N,) is ``f``
    there, and the optimum lies in [value - gap, value] by the dual ``gap`` (N,). ``steps`` (N,)
    were taken up to the check that ended the row with its :class:`Status`, ``status`` (N,).
    """

    coefficients: Tensor
    value: Tensor
    gap: Tensor
    steps: Tensor
    status: Tensor

    def summary(self) -> Summary:
        """Count rows per status, add up steps and find the worst gap."""
        counts = torch.bincount(self.status, minlength=len(Status)).tolist()
        some = len(self.status) > 0
        return Summary(
            rows=len(self.status),
            per_status={status: counts[status] for status in Status if counts[status]},
            total_steps=int(self.steps.sum()),
            max_steps=int(self.steps.max()) if some else 0,
            worst_gap=float(self.gap.max()) if some else 0.0,
        )
