r"""Sets of polynomials over shared terms.

A set of :math:`N` polynomials is stored the way vanishing-ideal algorithms make them: polynomial
:math:`j` is :math:`\ell_j u_j + \sum_i C_{ji} t_i`, a leading term of its own and a combination of
the shared terms :math:`t_1,\dots,t_S`. A matrix over *all* terms would be mostly the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.algebra.evaluation import EvaluationPlan, factor_terms
from vinets.algebra.storage import read_tensors, write_tensors
from vinets.algebra.terms import Index, TermSet, term_name
from vinets.checks import point_shape, rows_within

if TYPE_CHECKING:
    import sympy


DEFAULT_MEMORY = 1 << 30
SMALL = 1 << 18  # values of terms and polynomials that NumPy evaluates


def for_arrays(method: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Any], Any]:
    """Check the points that a method takes; let them be an array, and the answer one then."""

    @wraps(method)
    def wrapped(self: Any, points: Any) -> Any:
        given = points
        if points.is_complex() if isinstance(points, Tensor) else np.iscomplexobj(points):
            raise ValueError("points must be real: polynomials here have real variables.")
        if not isinstance(points, Tensor):
            given = torch.from_numpy(np.ascontiguousarray(points, dtype=float))
        point_shape(tuple(given.shape), self.n_variables)
        values = method(self, given)
        return values if isinstance(points, Tensor) else values.numpy()

    return wrapped


@dataclass(frozen=True, eq=False)
class PolynomialSet:
    """``N`` polynomials ``lead[j] * leading[j] + sum_i tail[j, i] * terms[i]``.

    Parameters
    ----------
    terms : TermSet
        The ``S`` shared terms.
    leading : TermSet
        The ``N`` leading terms.
    tail : Tensor of shape (N, S)
        Coefficients over the shared terms.
    lead : Tensor of shape (N,)
        Coefficients of the leading terms.
    memory_limit : int
        Bytes that evaluation may use for intermediate values.

    Examples
    --------
    >>> import numpy as np, torch
    >>> terms = TermSet.from_exponents([[0, 0], [1, 0], [0, 1]])
    >>> leading = TermSet.from_exponents([[2, 0]])
    >>> p = PolynomialSet(terms, leading, torch.tensor([[-1.0, 0.0, 0.5]]), torch.tensor([1.0]))
    >>> print(p)
    x0^2 + 0.5*x1 - 1
    >>> p.evaluate(np.array([[2.0, 4.0]]))
    array([[5.]])
    """

    terms: TermSet
    leading: TermSet
    tail: Tensor
    lead: Tensor
    memory_limit: int = DEFAULT_MEMORY

    def __post_init__(self) -> None:
        shape = (len(self.leading), len(self.terms))
        if tuple(self.tail.shape) != shape or tuple(self.lead.shape) != shape[:1]:
            raise ValueError(
                f"tail must have shape {shape} and lead {shape[:1]}, matching the leading and "
                f"shared terms. Got {tuple(self.tail.shape)} and {tuple(self.lead.shape)} instead."
            )

    def __len__(self) -> int:
        return len(self.leading)

    @property
    def n_variables(self) -> int:
        """Number of variables of the ring."""
        return self.terms.n_variables

    @property
    def degrees(self) -> Index:
        """Degree of every polynomial, that of its leading term."""
        return self.leading.degrees

    @property
    def sparsity(self) -> float:
        """Share of exact zeros among the coefficients over the shared terms, in [0, 1]."""
        if self.tail.numel() == 0:
            return 0.0
        return 1.0 - float(torch.count_nonzero(self.tail)) / self.tail.numel()

    @cached_property
    def plan(self) -> EvaluationPlan:
        """Evaluation plan of the shared terms."""
        return EvaluationPlan.of(self.terms)

    @cached_property
    def _leading_steps(self) -> list[tuple[int, Tensor, Tensor, EvaluationPlan | None]]:
        """Start, parents, variables, and a plan for parents not among the terms.

        Degrees that follow each other and need no plan are one step.
        """
        steps: list[tuple[int, Index, Index, EvaluationPlan | None]] = []
        start = 0
        offsets = np.cumsum([0] + [len(block) for block in self.terms.blocks])
        for degree, block in enumerate(self.leading.blocks):
            if len(block) == 0:
                continue
            parent, variable, missing = block[:, :0], block[:, :0], block
            if 0 < degree <= len(self.terms.blocks):
                below = self.terms.blocks[degree - 1]
                parent, variable, missing = factor_terms(block, below, self.n_variables)
                parent = parent + offsets[degree - 1]
            plan = None
            if len(missing):
                empty = tuple(np.zeros((0, d), dtype=np.int64) for d in range(degree))
                plan = EvaluationPlan.of(TermSet(self.n_variables, (*empty, block)))
            if plan is None and steps and steps[-1][-1] is None:
                first, parents, variables, _ = steps.pop()
                steps.append((first, np.r_[parents, parent], np.r_[variables, variable], None))
            else:
                steps.append((start, parent, variable, plan))
            start += len(block)
        return [(at, torch.from_numpy(p), torch.from_numpy(v), plan) for at, p, v, plan in steps]

    @for_arrays
    def evaluate(self, points: Tensor) -> Tensor:
        """Values at ``points`` (m, n) as (m, N): numpy in, numpy out; torch in, torch out.

        Torch results are differentiable with respect to the points. Intermediate values stay
        within ``memory_limit``.
        """
        dtype = torch.promote_types(points.dtype, self.tail.dtype)
        if self._is_small(points):
            return torch.from_numpy(self._evaluate_small(points.numpy()))
        tail, lead = self.tail.to(points.device, dtype), self.lead.to(points.device, dtype)
        # half of the memory for the shared terms of a chunk, half for leading terms and results
        per_point = dtype.itemsize * (len(self.terms) + 2 * self.n_variables)
        chunk = rows_within(self.memory_limit // 2, per_point + dtype.itemsize * 64)
        points = points.to(dtype)
        if len(points) <= chunk:
            return self._evaluate_chunk(points, tail, lead)
        return torch.cat([self._evaluate_chunk(part, tail, lead) for part in points.split(chunk)])

    def _is_small(self, points: Tensor) -> bool:
        """Whether starting the steps of torch would cost more than they do."""
        numbers = len(points) * (len(self.terms) + len(self))
        return (
            numbers <= min(SMALL, self.memory_limit // 8)
            and points.dtype == self.tail.dtype == torch.float64
            and points.device.type == self.tail.device.type == "cpu"
            and not (points.requires_grad or self.tail.requires_grad or self.lead.requires_grad)
            and self.plan.outputs is None
            and len(self._leading_steps) == 1
            and self._leading_steps[0][-1] is None
        )

    def _evaluate_small(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = np.ascontiguousarray(points.T)
        levels = [np.ones((1, len(points)))]
        for parent, variable in self.plan.steps:
            levels.append(levels[-1][parent] * columns[variable])
        shared = np.concatenate(levels)
        _, at, by, _ = self._leading_steps[0]
        values = shared[at.numpy()] * columns[by.numpy()]
        values *= self.lead.numpy()[:, None]
        values += self.tail.numpy() @ shared
        return values.T

    def _evaluate_chunk(self, points: Tensor, tail: Tensor, lead: Tensor) -> Tensor:
        # terms by rows, so that parents are selected as whole rows
        values = self.plan.evaluate(points).mT.contiguous()  # (S, m)
        columns = points.mT.contiguous()
        width = rows_within(self.memory_limit // 2, values.element_size() * 3 * len(points))
        out = []
        for start, parent, variable, plan in self._leading_steps:
            if plan is not None:
                # parents are missing among the shared terms, after compact() for instance
                own = plan.evaluate(points).mT
                rows = slice(start, start + len(own))
                out.append(lead[rows, None] * own + tail[rows] @ values)
                continue
            at, by = parent.to(points.device), variable.to(points.device)
            # leading terms are a product away from shared ones: made where they are added up
            for first in range(0, len(at), width):
                here = slice(first, first + width)
                own = values.index_select(0, at[here]) * columns.index_select(0, by[here])
                rows = slice(start + first, start + first + len(own))
                out.append(torch.addmm(lead[rows, None] * own, tail[rows], values))
        if len(out) == 1:  # cat copies even a single part
            return out[0].mT
        return (torch.cat(out) if out else points.new_zeros(0, len(points))).mT

    @for_arrays
    def gradient(self, points: Tensor) -> Tensor:
        """Derivatives at ``points`` (m, n) as (m, N, n), in closed form."""
        dtype = torch.promote_types(points.dtype, self.tail.dtype)
        tail, lead = self.tail.to(points.device, dtype), self.lead.to(points.device, dtype)
        width = self.n_variables * (2 * len(self.terms) + 3 * len(self)) * dtype.itemsize
        own_plan = EvaluationPlan.of(self.leading)
        parts = []
        for part in points.to(dtype).split(rows_within(self.memory_limit, width)):
            _, shared = self.plan.jacobian(part)
            _, own = own_plan.jacobian(part)
            parts.append(torch.einsum("js,msn->mjn", tail, shared) + lead[:, None] * own)
        return torch.cat(parts)

    def magnitude(self, points: Tensor) -> Tensor:
        """Sums (m, N) of the absolute values of what :meth:`evaluate` adds up: how it rounds."""
        return replace(self, tail=self.tail.abs(), lead=self.lead.abs()).evaluate(points.abs())

    def select(self, index: NDArray[np.integer] | NDArray[np.bool_]) -> PolynomialSet:
        """The polynomials at the given increasing positions or boolean mask."""
        positions = np.arange(len(self))[np.asarray(index)]
        at = torch.as_tensor(positions, device=self.tail.device)
        leading = self.leading.select(positions)
        return replace(self, leading=leading, tail=self.tail[at], lead=self.lead[at])

    def compact(self) -> PolynomialSet:
        """The same polynomials without the shared terms that none of them uses."""
        used = (self.tail != 0).any(dim=0)
        return replace(self, terms=self.terms.select(used.cpu().numpy()), tail=self.tail[:, used])

    def to(self, *args: Any, **kwargs: Any) -> PolynomialSet:
        """Move or cast the coefficients, as ``Tensor.to``."""
        tail, lead = self.tail.to(*args, **kwargs), self.lead.to(*args, **kwargs)
        return replace(self, tail=tail, lead=lead)

    def to_sympy(self, symbols: Sequence[Any] | None = None) -> list[sympy.Expr]:
        """The polynomials as SymPy expressions (extra ``symbolic``)."""
        import sympy

        names = symbols or sympy.symbols(f"x:{self.n_variables}", seq=True)
        shared, own = (
            [sympy.Mul(*(names[v] for v in row)) for block in terms.blocks for row in block]
            for terms in (self.terms, self.leading)
        )
        tail, lead = self.tail.cpu().double().tolist(), self.lead.cpu().double().tolist()
        return [
            sympy.Add(a * u, *(c * t for c, t in zip(row, shared, strict=True) if c))
            for a, u, row in zip(lead, own, tail, strict=True)
        ]

    def strings(self, variables: Sequence[str] | None = None, digits: int = 3) -> list[str]:
        """The polynomials in readable form, leading term first.

        Coefficients at rounding level, below 1e-9 of the largest, are left out of the text.
        """
        return list(self._written(variables, digits))

    def _written(self, variables: Sequence[str] | None, digits: int) -> Iterator[str]:
        labels = variables or [f"x{i}" for i in range(self.n_variables)]
        shared = self.terms.names(labels)
        rows = (row for block in self.leading.blocks for row in block)
        for row, lead, tail in zip(rows, self.lead, self.tail, strict=True):
            # rounding left by cancellation is not worth reading
            visible = 1e-9 * max(float(lead.abs()), float(tail.abs().sum()))
            used = (tail.abs() > visible).nonzero()[:, 0].tolist()
            parts = [(float(lead), term_name(row, labels))]
            parts += [(float(tail[i]), shared[i]) for i in reversed(used)]
            yield _write(parts, digits)

    def save(self, path: str | Path) -> None:
        """Write to one safetensors file."""
        tensors = {"tail": self.tail, "lead": self.lead}
        tensors |= self.terms.tensors("terms") | self.leading.tensors("leading")
        write_tensors(path, "polynomials", tensors, {"n_variables": self.n_variables})

    @classmethod
    def load(cls, path: str | Path) -> PolynomialSet:
        """Read what :meth:`save` wrote; other files are refused."""
        tensors, facts = read_tensors(path, "polynomials")
        n = facts.get("n_variables")
        if not isinstance(n, int) or n < 1 or not {"tail", "lead"} <= tensors.keys():
            raise ValueError(f"{path} is not a complete set of polynomials.")
        tail, lead = tensors["tail"], tensors["lead"]
        if not tail.is_floating_point() or lead.dtype != tail.dtype:
            raise ValueError(f"{path} must hold floating coefficients of one dtype.")
        try:
            terms = TermSet.from_tensors(n, "terms", tensors)
            leading = TermSet.from_tensors(n, "leading", tensors)
            return cls(terms, leading, tail, lead)
        except ValueError as error:
            raise ValueError(f"{path} is not a complete set of polynomials: {error}") from None

    def __str__(self) -> str:
        if len(self) == 0:
            return "(no polynomials)"
        shown = list(islice(self._written(None, 3), 20))  # of thousands, only these are written
        if len(self) > len(shown):
            shown.append(f"... and {len(self) - len(shown)} more")
        return "\n".join(shown)

    def __repr__(self) -> str:
        return (
            f"PolynomialSet({len(self)} polynomials in {self.n_variables} variables over "
            f"{len(self.terms)} shared terms, degree {int(self.degrees.max(initial=0))}, "
            f"{self.sparsity:.0%} zeros)"
        )


def _write(parts: Sequence[tuple[float, str]], digits: int) -> str:
    text = ""
    for coefficient, name in parts:
        size = f"{abs(coefficient):.{digits}g}"
        body = size if name == "1" else name if size == "1" else f"{size}*{name}"
        if text:
            text += f" {'-' if coefficient < 0 else '+'} {body}"
        else:
            text = f"-{body}" if coefficient < 0 else body
    return text
