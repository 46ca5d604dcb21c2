r"""Polynomials in the variables before a scaling.

With :math:`z_i = a_i x_i + b_i`, a term in :math:`z` is a combination of its divisors in :math:`x`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from vinets.algebra.terms import Index, TermSet
from vinets.core.checks import parameter_error

Row = tuple[int, ...]
Floats = NDArray[np.float64]


def scaling_of(scaler: Any, n_variables: int) -> tuple[Floats, Floats]:
    """Factors and offsets (n,) by which a fitted scaler of scikit-learn maps every variable."""
    zero, one = np.zeros((1, n_variables)), np.eye(n_variables)
    if not hasattr(scaler, "inverse_transform") or getattr(scaler, "n_features_in_", 0) != (
        n_variables
    ):
        accepted = f"a fitted scaler of {n_variables} variables, such as MinMaxScaler"
        raise parameter_error("unscaled", "scaler", accepted, scaler)
    # backwards, for what is scaled may be clipped
    back = scaler.inverse_transform(np.concatenate([zero, one, 2 * one]))
    offset, slope, double = back[0], back[1 : n_variables + 1] - back[0], back[n_variables + 1 :]
    straight = np.allclose(double - offset, 2 * slope, rtol=1e-9, atol=0)
    if not straight or not np.array_equal(slope, np.diag(np.diag(slope))):
        accepted = "one that maps every variable by a line of its own"
        raise parameter_error("unscaled", "scaler", accepted, scaler)
    factors = 1 / np.diag(slope)
    return factors, -offset * factors


def substituted(terms: TermSet, factors: Floats, offsets: Floats) -> list[dict[Row, float]]:
    """Every term in ``z = factors * x + offsets`` as a combination of terms in ``x``."""
    return [_expanded(tuple(map(int, row)), factors, offsets) for row in rows_of(terms)]


def _expanded(row: Row, factors: Floats, offsets: Floats) -> dict[Row, float]:
    found: dict[Row, float] = {}
    places = range(len(row))
    for count in range(len(row), -1, -1):
        for kept in combinations(places, count):
            rest = [row[i] for i in places if i not in kept]
            term = tuple(row[i] for i in kept)
            value = float(np.prod(factors[list(term)]) * np.prod(offsets[rest]))
            found[term] = found.get(term, 0.0) + value
    return found


def rows_of(terms: TermSet) -> Iterable[Index]:
    """The terms, one by one."""
    return (row for block in terms.blocks for row in block)


def table_over(expanded: list[dict[Row, float]], columns: dict[Row, int]) -> csr_array:
    """Coefficients of expanded terms, (terms, columns)."""
    places = [(k, columns[row]) for k, parts in enumerate(expanded) for row in parts]
    values = [value for parts in expanded for value in parts.values()]
    index = np.array(places, dtype=np.int64).reshape(-1, 2).T
    return csr_array((values, index), shape=(len(expanded), len(columns)), dtype=np.float64)


def termset(rows: Iterable[Row], n_variables: int) -> TermSet:
    """Terms as a set, lowest degree first and in the order of their variables."""
    wanted = sorted(set(rows), key=lambda row: (len(row), row))
    top = max((len(row) for row in wanted), default=0)
    blocks = []
    for degree in range(top + 1):
        block = [row for row in wanted if len(row) == degree]
        blocks.append(np.array(block, dtype=np.int64).reshape(len(block), degree))
    return TermSet.of_blocks(n_variables, blocks)
