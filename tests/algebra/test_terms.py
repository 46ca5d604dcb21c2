from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vinets.algebra.terms import TermSet, first_border, locate_rows, next_border

exponent_tables = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 4), min_size=n, max_size=n), min_size=1, max_size=12)
)


@given(exponent_tables)
def test_exponents_survive_the_round_trip(table):
    table = sorted(table, key=sum)
    assert TermSet.from_exponents(table).exponents().tolist() == table


@given(exponent_tables, st.data())
def test_select_keeps_what_a_list_would(table, data):
    table = sorted(table, key=sum)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table))))
    chosen = TermSet.from_exponents(table).select(mask)
    assert chosen.exponents().tolist() == [
        row for row, keep in zip(table, mask, strict=True) if keep
    ]


@given(
    st.lists(st.tuples(*[st.integers(0, 6)] * 3), max_size=20),
    st.lists(st.tuples(*[st.integers(0, 6)] * 3), max_size=20, unique=True),
)
def test_locate_rows_is_list_index(rows, table):
    found = locate_rows(
        np.array(rows, dtype=np.int64).reshape(-1, 3),
        np.array(table, dtype=np.int64).reshape(-1, 3),
        base=7,
    )
    assert found.tolist() == [table.index(r) if r in table else -1 for r in rows]


def test_locate_rows_does_not_overflow_at_high_degree():
    rows = np.full((1, 40), 999)
    table = np.stack([np.full(40, 998), rows[0]])
    assert locate_rows(rows, table, base=1000).tolist() == [1]


def test_names_read_like_algebra():
    terms = TermSet.from_exponents([[0, 0], [1, 0], [2, 1]])
    assert terms.names() == ["1", "x0", "x0^2*x1"]
    assert terms.names(["a", "b"]) == ["1", "a", "a^2*b"]


@pytest.mark.parametrize("bad", [[[1, 0], [0, 0]], [[-1, 0]], [0, 1]])
def test_tables_that_are_not_terms_are_refused(bad):
    with pytest.raises(ValueError, match="'exponents' parameter of TermSet must be"):
        TermSet.from_exponents(bad)


@pytest.mark.parametrize("shape", [(0,), (1, 2), (1, 1, 1)])
def test_blocks_are_as_wide_as_their_degree(shape):
    with pytest.raises(ValueError, match=r"blocks\[1\] must have shape \(count, 1\)"):
        TermSet(3, (np.zeros((1, 0), dtype=np.int64), np.zeros(shape, dtype=np.int64)))


@pytest.mark.parametrize("row", [[1, 0], [2, 1], [-1, 0], [0, 3], [-1, -1]])
def test_stored_rows_that_are_not_terms_are_refused(row):
    stored = {"t.0": torch.zeros(0, 0).long(), "t.1": torch.tensor([[2]])}
    assert TermSet.from_tensors(3, "t", stored).names() == ["x2"]
    with pytest.raises(ValueError, match=r"t\.2 must hold sorted variable indices below 3"):
        TermSet.from_tensors(3, "t", stored | {"t.2": torch.tensor([row])})


def test_empty_blocks_at_the_end_are_left_out():
    blocks = [np.zeros((0, d), dtype=np.int64) for d in range(4)]
    assert len(TermSet.of_blocks(2, blocks).blocks) == 1
    blocks[1] = np.array([[1]])
    assert [len(b) for b in TermSet.of_blocks(2, blocks).blocks] == [0, 1]


def definition(accepted, known, n, degree, kind):
    products = {tuple(sorted((*t, i))) for t in accepted for i in range(n)}
    if kind == "groebner":
        products = {u for u in products if all(u[:j] + u[j + 1 :] in known for j in range(degree))}
    return sorted(products, key=lambda term: term[::-1])


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
