"""Borders against their definitions, on random order ideals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vinets.algebra.terms import first_border, next_border


def order_key(row):
    return tuple(reversed(row))


def definition(accepted, known, n, degree, kind):
    products = {tuple(sorted((*t, i))) for t in accepted for i in range(n)}
    if kind == "groebner":
        products = {u for u in products if all(u[:j] + u[j + 1 :] in known for j in range(degree))}
    return sorted(products, key=order_key)


@pytest.mark.parametrize("kind", ["groebner", "full"])
@given(n=st.integers(1, 5), seed=st.integers(0, 10_000), share=st.floats(0.2, 1.0))
def test_border_is_its_definition_in_term_order(kind, n, seed, share):
    random = np.random.default_rng(seed)
    level, known, below = first_border(n), {()}, [()]
    for degree in range(1, 5):
        rows = [tuple(r) for r in level.rows.tolist()]
        assert rows == definition(below, known, n, degree, kind)
        for row, parent, variable in zip(rows, level.parent, level.variable, strict=True):
            assert tuple(sorted((*below[parent], int(variable)))) == row
        level = level.take(np.flatnonzero(random.random(len(level)) < share))
        below = [tuple(r) for r in level.rows.tolist()]
        known |= set(below)
        if not below:
            break
        level = next_border(level, n, kind)


def test_groebner_border_of_everything_is_everything():
    level = first_border(4)
    for degree, count in ((2, 10), (3, 20), (4, 35)):
        level = next_border(level, 4, "groebner")
        assert level.rows.shape == (count, degree)
