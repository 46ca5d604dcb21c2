"""Monomials of the last dimension, one multiplication a term."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from vinets.algebra.evaluation import EvaluationPlan
from vinets.algebra.terms import TermSet

__all__ = ["Monomials", "OnMonomials"]


class Monomials(nn.Module):
    """Evaluate a set of terms by gathering: (..., n) to (..., S).

    A term is its parent times one variable; see :mod:`vinets.algebra.evaluation`. The tables are
    buffers, so the layer moves with the network, compiles without graph breaks and exports to
    plain gathers and products. The constant term is not allowed: it belongs into a bias.

    Examples
    --------
    >>> layer = Monomials(TermSet.from_exponents([[1, 0], [2, 1]]))
    >>> layer(torch.tensor([[2.0, 3.0]]))
    tensor([[ 2., 12.]])
    """

    def __init__(self, terms: TermSet) -> None:
        super().__init__()
        if len(terms) == 0 or len(terms.blocks[0]):
            raise ValueError("Monomials takes terms of degree 1 and more; use a bias for 1.")
        self.terms = terms
        plan = EvaluationPlan.of(terms)
        self.depth = len(plan.steps)
        self.multiplications = sum(len(parent) for parent, _ in plan.steps[1:])
        for degree, block in enumerate(terms.blocks[1:], 1):  # what is saved
            self.register_buffer(f"terms_{degree}", torch.from_numpy(block))
        for degree, (parent, variable) in enumerate(plan.steps, 1):  # what is computed with
            self.register_buffer(f"parent_{degree}", torch.from_numpy(parent), persistent=False)
            self.register_buffer(f"variable_{degree}", torch.from_numpy(variable), persistent=False)
        # row 0 of the plan is the constant, which is not evaluated here
        rows = sum(len(parent) for parent, _ in plan.steps)
        outputs = np.arange(rows) if plan.outputs is None else plan.outputs - 1
        wanted = np.array_equal(outputs, np.arange(rows))
        self.outputs: Tensor | None
        self.register_buffer(
            "outputs", None if wanted else torch.from_numpy(outputs), persistent=False
        )

    def forward(self, z: Tensor) -> Tensor:
        columns = z.reshape(-1, z.shape[-1]).mT.contiguous()  # (n, m): gathers copy whole rows
        level = columns.index_select(0, self.get_buffer("variable_1"))
        levels = [level]
        for degree in range(2, self.depth + 1):
            parent = level.index_select(0, self.get_buffer(f"parent_{degree}"))
            level = parent * columns.index_select(0, self.get_buffer(f"variable_{degree}"))
            levels.append(level)
        values = torch.cat(levels) if len(levels) > 1 else level
        if self.outputs is not None:
            values = values.index_select(0, self.outputs)
        return values.mT.reshape(*z.shape[:-1], len(self.terms))

    def extra_repr(self) -> str:
        degree = len(self.terms.blocks) - 1
        return f"{len(self.terms)} terms of {self.terms.n_variables} variables, degree {degree}"

    @staticmethod
    def terms_of(state: Mapping[str, Tensor], prefix: str, n_variables: int) -> TermSet:
        """The terms that a state dict holds under ``prefix``, checked."""
        blocks = {"t.0": torch.zeros(0, 0, dtype=torch.int64)}
        while (block := state.get(f"{prefix}terms_{len(blocks)}")) is not None:
            blocks[f"t.{len(blocks)}"] = block.cpu()
        if len(blocks) == 1:
            raise ValueError(f"the saved network has no terms under {prefix!r}.")
        return TermSet.from_tensors(n_variables, "t", blocks)


class OnMonomials(nn.Module):
    """What polynomial layers start with: monomials (m - mean) / std, standardised in training.

    Monomials of different degree differ in size by orders of magnitude. A folded layer may do
    without the two, which are then None.
    """

    shift: Tensor | None
    scale: Tensor | None

    def __init__(self, terms: TermSet, *, standardized: bool = True) -> None:
        super().__init__()
        self.monomials = Monomials(terms)
        self.register_buffer("shift", torch.zeros(len(terms)) if standardized else None)
        self.register_buffer("scale", torch.ones(len(terms)) if standardized else None)

    def set_moments(self, mean: Tensor, std: Tensor) -> None:
        """Standardise the monomials with these statistics from now on."""
        if self.shift is None or self.scale is None:
            raise ValueError("a folded layer has no statistics.")
        self.shift.copy_(mean)
        self.scale.copy_(std)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation in float64, to fold; 0 and 1 where there are none."""
        if self.shift is None or self.scale is None:
            device = next(self.parameters()).device
            ones = torch.ones(len(self.monomials.terms), dtype=torch.float64, device=device)
            return torch.zeros_like(ones), ones
        return self.shift.double(), self.scale.double()

    def scaled(self, z: Tensor) -> Tensor:
        """The standardised monomials of points (..., n), as (..., S)."""
        if z.dtype in (torch.float16, torch.bfloat16):
            z = z.float()  # products of rounded numbers would round again at every degree
        m = self.monomials(z)
        return m if self.shift is None or self.scale is None else (m - self.shift) / self.scale

    def indices(self) -> int:
        """How many integers the monomials take."""
        return sum(block.size for block in self.monomials.terms.blocks)
