r"""Sets of polynomials over shared terms, which are evaluated, printed and saved as one.

A set of :math:`N` polynomials is stored the way vanishing-ideal algorithms make them: polynomial
:math:`j` is :math:`\ell_j u_j + \sum_i C_{ji} t_i`, a leading term of its own and a combination of
the shared terms :math:`t_1,\dots,t_S`. A matrix over *all* terms would be mostly the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial, wraps
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vinets.algebra.evaluation import EvaluationPlan, factor_terms
from vinets.algebra.polynomial import (
    SHOWN,
    TOLERANCE,
    Polynomial,
    Polynomials,
    rows_of,
    scaling_of,
    substituted,
    table_over,
    termset,
)
from vinets.algebra.terms import Index, TermSet, term_name
from vinets.core.checks import counted, point_shape, rows_within
from vinets.core.tensors import read_tensors, write_tensors

DEFAULT_MEMORY = 1 << 30  # bytes
MAX_NUMPY_VALUES = 1 << 18  # values of terms and polynomials; torch evaluates more than these


def for_arrays(method: Callable[[Any, Tensor], Tensor]) -> Callable[[Any, Any], Any]:
    """Check the points that a method takes; let them be an array, and the answer one then."""

    @wraps(method)
    def wrapped(self: Any, points: Any) -> Any:
        given = points
        if points.is_complex() if isinstance(points, Tensor) else np.iscomplexobj(points):
            raise ValueError("points must be real: polynomials here have real variables.")
        if not isinstance(points, Tensor):
            given = torch.from_numpy(np.require(points, float, ["C", "W"]))
        point_shape(tuple(given.shape), self.n_variables)
        values = method(self, given)
        return values if isinstance(points, Tensor) else values.numpy()

    return wrapped


@dataclass(frozen=True, eq=False)
class PolynomialSet(Polynomials):
    """``N`` polynomials ``lead[j] * leading[j] + sum_i tail[j, i] * terms[i]``.

    A sequence of :class:`Polynomial`: ``p[0]``, ``for one in p``, ``p(points)``, ``p == q``.

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
    variables : tuple of str, default=()
        Names of the variables; none for x0, x1, ...

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
    >>> p[0]([2.0, 4.0])
    5.0
    """

    terms: TermSet
    leading: TermSet
    tail: Tensor
    lead: Tensor
    memory_limit: int = DEFAULT_MEMORY
    variables: tuple[str, ...] = ()

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
    def n_variables(self) -> int:  # type: ignore[override]
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
        """Return values at ``points`` (m, n) as (m, N): numpy for numpy, torch for torch.

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
        """Tell whether starting the steps of torch would cost more than they do."""
        numbers = len(points) * (len(self.terms) + len(self))
        return (
            numbers <= min(MAX_NUMPY_VALUES, self.memory_limit // 8)
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
        """Return the derivatives at ``points`` (m, n) as (m, N, n), in closed form."""
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
        """Sum the absolute values of what :meth:`evaluate` adds up, (m, N): so it rounds."""
        return replace(self, tail=self.tail.abs(), lead=self.lead.abs()).evaluate(points.abs())

    def select(self, index: NDArray[np.integer] | NDArray[np.bool_]) -> PolynomialSet:
        """Return the polynomials at the given increasing positions or boolean mask."""
        positions = np.arange(len(self))[np.asarray(index)]
        at = torch.as_tensor(positions, device=self.tail.device)
        leading = self.leading.select(positions)
        return replace(self, leading=leading, tail=self.tail[at], lead=self.lead[at])

    def compact(self) -> PolynomialSet:
        """Return the same polynomials without the shared terms that none of them uses."""
        used = (self.tail != 0).any(dim=0)
        return replace(self, terms=self.terms.select(used.cpu().numpy()), tail=self.tail[:, used])

    def to(self, *args: Any, **kwargs: Any) -> PolynomialSet:
        """Move or cast the coefficients, as ``Tensor.to``."""
        tail, lead = self.tail.to(*args, **kwargs), self.lead.to(*args, **kwargs)
        return replace(self, tail=tail, lead=lead)

    @property
    def expanded(self) -> PolynomialSet:
        """These polynomials, which are over monomials."""
        return self

    def __iter__(self) -> Iterator[Polynomial]:
        """Yield the polynomials, leading term first, then from the highest term down."""
        shared = [tuple(row.tolist()) for row in rows_of(self.terms)]
        for row, lead, tail in zip(rows_of(self.leading), self.lead, self.tail, strict=True):
            used = tail.nonzero()[:, 0].flip(0).tolist()
            values = tail.double().tolist()
            terms = (tuple(row.tolist()), *(shared[i] for i in used))
            yield Polynomial(terms, (float(lead), *(values[i] for i in used)), self.names)

    def strings(
        self, variables: Sequence[str] | None = None, digits: int = 3, tolerance: float = TOLERANCE
    ) -> list[str]:
        """Write the polynomials out, leading term first.

        Coefficients of at most ``tolerance`` times the largest are rounding, and left out.
        """
        name_of = cache(partial(term_name, labels=variables or self.names))
        return [one.written(name_of, digits, tolerance) for one in self]

    def unscaled(self, scaler: Any) -> PolynomialSet:
        """Return the same polynomials in the variables before a scaling.

        Parameters
        ----------
        scaler : MinMaxScaler, StandardScaler or alike
            Fitted, and what the points went through. Names that it knows are taken.

        Examples
        --------
        >>> from sklearn.preprocessing import MinMaxScaler
        >>> from vinets import ABM
        >>> t = np.linspace(0, 6, 50)
        >>> X = np.c_[5 + 2 * np.cos(t), 2 * np.sin(t)]
        >>> scaler = MinMaxScaler((-1, 1)).fit(X)
        >>> found = ABM(psi=1e-9, max_degree=2).fit(scaler.transform(X)).generators_
        >>> print(found.unscaled(scaler)[0].rational())
        x1^2 + x0^2 - 10*x0 + 21
        """
        found = self.substituted(*scaling_of(scaler, self.n_variables))
        return found.named(getattr(scaler, "feature_names_in_", self.names))

    def substituted(
        self, factors: NDArray[np.float64], offsets: NDArray[np.float64]
    ) -> PolynomialSet:
        """Return the polynomials in ``x``, where their variables are ``factors * x + offsets``."""
        shared, own = (substituted(one, factors, offsets) for one in (self.terms, self.leading))
        first = [
            parts.pop(tuple(row.tolist()))
            for parts, row in zip(own, rows_of(self.leading), strict=True)
        ]
        terms = termset((row for parts in (*shared, *own) for row in parts), self.n_variables)
        columns = {tuple(row.tolist()): k for k, row in enumerate(rows_of(terms))}
        old, by = (one.cpu().double().numpy() for one in (self.tail, self.lead))
        new = old @ table_over(shared, columns) + by[:, None] * table_over(own, columns).toarray()
        tail, lead = (torch.from_numpy(one).to(self.tail) for one in (new, by * np.array(first)))
        return replace(self, terms=terms, tail=tail, lead=lead)

    def save(self, path: str | Path) -> None:
        """Write to one safetensors file."""
        tensors = {"tail": self.tail, "lead": self.lead}
        tensors |= self.terms.tensors("terms") | self.leading.tensors("leading")
        facts: dict[str, Any] = {"n_variables": self.n_variables}
        if self.variables:
            facts["variables"] = list(self.variables)
        write_tensors(path, "polynomials", tensors, facts)

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
            return cls(terms, leading, tail, lead).named_by(facts)
        except ValueError as error:
            raise ValueError(f"{path} is not a complete set of polynomials: {error}") from None

    def __str__(self) -> str:
        if len(self) == 0:
            return "(no polynomials)"
        shown = [one.text() for one in islice(self, SHOWN)]  # only these are written out
        if len(self) > len(shown):
            shown.append(f"... and {len(self) - len(shown)} more")
        return "\n".join(shown)

    def __repr__(self) -> str:
        return (
            f"PolynomialSet({counted(len(self), 'polynomial')} in "
            f"{counted(self.n_variables, 'variable')} over "
            f"{counted(len(self.terms), 'shared term')}, "
            f"degree {int(self.degrees.max(initial=0))}, {self.sparsity:.0%} zeros)"
        )
