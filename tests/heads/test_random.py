from itertools import combinations_with_replacement, product

import numpy as np
import pytest
import torch
from head_fixtures import next_to
from hypothesis import given, settings
from hypothesis import strategies as st

from vinets.algebra.terms import TermSet
from vinets.heads import (
    LocalRandomMonomials,
    LocalReLUHead,
    LocalSameDegrees,
    RandomMonomials,
    SameDegrees,
)
from vinets.heads.random import points_of, random_terms
from vinets.testing.heads import small_latents

GLOBAL, LOCAL = (RandomMonomials, SameDegrees), (LocalRandomMonomials, LocalSameDegrees)
PAIRS = [*product(("vanishing", "blocks"), GLOBAL), *product(("local path",), LOCAL)]
PAIRS.append(("local path", LocalReLUHead))


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_the_baseline_has_the_same_numbers(heads, name, kind):
    head = heads[name]()
    baseline, same, other = (next_to(kind, head, seed=s) for s in (3, 3, 4))
    ours, theirs = head.parts(), baseline.parts()
    if baseline.polynomials.leading is None:
        ours["monomials"] -= len(head.polynomials.leading)  # generators alone have leading terms
    terms, drawn = (one.polynomials.monomials.terms for one in (head, baseline))
    assert (terms.names() == drawn.names()) == (kind is LocalReLUHead)
    if kind.same_degrees or kind is LocalReLUHead:
        assert terms.degrees.tolist() == drawn.degrees.tolist()
    else:  # other degrees take other numbers of indices
        ours.pop("monomials"), theirs.pop("monomials")
    assert ours == theirs
    assert torch.equal(baseline.polynomials.coefficients, same.polynomials.coefficients)
    assert not torch.equal(baseline.polynomials.coefficients, other.polynomials.coefficients)


def test_random_monomials_are_standardised_on_the_points(heads):
    head = heads["vanishing"]()
    layer = next_to(RandomMonomials, head).polynomials
    points = points_of(head, small_latents((6, 4), 3), seed=1)
    m = (layer.monomials(points) - layer.shift) / layer.scale
    spread = m.std(0, correction=0)
    torch.testing.assert_close(spread, torch.ones_like(spread), atol=1e-3, rtol=0)


def test_the_baseline_leaves_the_head_alone_and_is_untrained(heads):
    head = heads["narrow path"]()
    baseline = next_to(RandomMonomials, head)
    assert torch.equal(baseline.projection.weight, head.projection.weight)
    assert not torch.equal(baseline.path.out.weight, head.path.out.weight)
    assert float(baseline.path.scale) == float(head.path.scale)
    with torch.no_grad():
        baseline.projection.weight.zero_()
    assert (head.projection.weight != 0).any()


def every_term(n: int, degree: int) -> TermSet:
    blocks = [list(combinations_with_replacement(range(n), d)) for d in range(1, degree + 1)]
    return TermSet(n, (np.zeros((0, 0), dtype=np.int64), *map(np.array, blocks)))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 50), st.data())
def test_terms_are_as_many_of_each_degree_and_distinct(n, degree, seed, data):
    full = every_term(n, degree)
    chosen = data.draw(st.sets(st.integers(0, len(full) - 1), min_size=1))
    like = full.select(np.array(sorted(chosen)))
    terms = random_terms(like, max_degree=None, seed=seed)
    assert terms.degrees.tolist() == like.degrees.tolist()
    assert len({tuple(row) for row in terms.exponents().tolist()}) == len(like)


def test_all_terms_there_are_can_be_drawn():
    full = every_term(5, 4)
    terms = random_terms(full, max_degree=None, seed=0)
    assert sorted(terms.exponents().tolist()) == sorted(full.exponents().tolist())


def test_degrees_are_drawn_uniformly():
    like = every_term(30, 2)
    degrees = random_terms(like, max_degree=5, seed=0).degrees
    assert len(degrees) == len(like) == 495
    counts = np.bincount(degrees, minlength=6)[1:]
    assert counts[0] == 30  # all there are; the others move up
    assert (counts[2:] > 70).all() and (counts[2:] < 130).all()
