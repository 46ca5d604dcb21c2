r"""Borders: the terms of the next degree that have to be decided.

Let :math:`O` hold the terms accepted so far. Two kinds of border of degree :math:`d`:

``groebner``
    terms of degree :math:`d` *all* of whose proper divisors lie in :math:`O`. Leading terms found
    on it are the corners of the complement of :math:`O`, as in a Gröbner basis, and :math:`O` is
    always closed under division.
``full``
    :math:`\{x_i t : t \in O_{d-1}\}`, as in a border basis. Off the exact case a term may fail to
    vanish although one of its divisors does; it then joins :math:`O`, which is no longer closed.

Terms are ordered degree first, then :math:`x_0 < x_1 < \dots`: the exponent of the *last* variable
is compared first. Other variable orders are permutations of the variables, done by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vinets.algebra.terms import Index

BORDERS = ("groebner", "full")
MAX_DEGREE_TERMS = 1 << 32  # more than a level ever holds, so that numbers of children differ


@dataclass(frozen=True, eq=False)
class Level:
    """Terms of one degree ``d``, in term order, tied to the terms of degree ``d - 1``.

    Term ``i`` is term ``parent[i]`` of the level below times variable ``variable[i]``, and
    ``divisors[i, j]`` is the position there of term ``i`` without its ``j``-th factor.
    """

    rows: Index  # (count, d) variable indices, non-decreasing along a row
    parent: Index  # (count,)
    variable: Index  # (count,)
    divisors: Index | None  # (count, d); None on full borders, where divisors may be missing

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, keep: Index) -> Level:
        """Return the terms at the given positions, which increase."""
        if len(keep) == len(self):
            return self
        divisors = None if self.divisors is None else self.divisors.take(keep, axis=0)
        rows = self.rows.take(keep, axis=0)
        return Level(rows, self.parent.take(keep), self.variable.take(keep), divisors)


def first_border(n_variables: int) -> Level:
    """Return the variables: the border of degree 1 of O = {1}."""
    variables = np.arange(n_variables)
    zeros = np.zeros(n_variables, dtype=np.int64)
    return Level(variables[:, None], zeros, variables, zeros[:, None])


def next_border(level: Level, n_variables: int, kind: str) -> Level:
    """List the border one degree above ``level``, the accepted terms of the current degree."""
    if kind == "groebner":
        return _groebner_border(level, n_variables)
    parent = np.repeat(np.arange(len(level)), n_variables)
    variable = np.tile(np.arange(n_variables), len(level))
    rows = np.sort(np.concatenate([level.rows[parent], variable[:, None]], axis=1), axis=1)
    order = np.lexsort(rows.T)  # the last column, the largest factor, is the primary key
    rows = rows[order]
    # One term may come from several parents. They stand together now; the first stays.
    fresh = np.ones(len(rows), dtype=bool)
    fresh[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return Level(rows[fresh], parent[order][fresh], variable[order][fresh], None)


def _groebner_border(level: Level, n_variables: int) -> Level:
    """List children by a variable not below the parent's largest, if every divisor is known.

    Each term arises once, from the parent without its largest factor. Because ``level`` is in term
    order its largest factors are non-decreasing, so the parents that variable ``i`` may extend are
    a prefix, and listing them variable by variable yields term order without sorting.
    """
    assert level.divisors is not None
    variables = np.arange(n_variables)
    eligible = level.variable.searchsorted(variables, side="right")
    variable = variables.repeat(eligible)
    parent = np.arange(len(variable)) - (eligible.cumsum() - eligible).repeat(eligible)

    # t/x_j for t = parent * variable is the child of (parent/x_j) by the same variable, and these
    # numbers of children increase along a level
    numbers = level.variable * MAX_DEGREE_TERMS + level.parent
    columns: list[Index] = []
    for divisor in level.divisors.T:
        # candidates thin out from one divisor to the next, and what is known of them with them
        wanted = variable * MAX_DEGREE_TERMS + divisor.take(parent)
        place = numbers.searchsorted(wanted)
        known = numbers.take(place, mode="clip") == wanted
        if not known.all():
            parent, variable, place = parent[known], variable[known], place[known]
            columns = [column[known] for column in columns]
        columns.append(place)
    columns.append(parent)  # the term without its largest factor, which was appended last
    rows = np.concatenate([level.rows.take(parent, axis=0), variable[:, None]], axis=1)
    return Level(rows, parent, variable, np.array(columns).T)
