"""Polynomials given by products and projections, against the recursion in SymPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy
import torch

from vinets.algebra import compositions
from vinets.algebra.compositions import CompositionLevel, CompositionSet
from vinets.algebra.terms import MOST_VARIABLES
from vinets.core.tensors import write_tensors


def random_level(random, left, right, kept, keep, vanish):
    def table(*shape):
        return torch.from_numpy(random.integers(-3, 4, size=shape) / 4)

    c = len(right)
    return CompositionLevel(
        torch.tensor(left), torch.tensor(right), table(kept, c), table(c, keep), table(c, vanish)
    )


def random_set(seed=0, **options):
    """Two variables, three levels; all numbers are fractions of small powers of two."""
    random = np.random.default_rng(seed)
    levels = (
        random_level(random, [0, 0], [0, 1], 1, 2, 1),
        random_level(random, [0, 0, 1], [0, 1, 1], 3, 1, 2),
        random_level(random, [0, 0], [0, 1], 4, 1, 1),
    )
    return CompositionSet(2, levels, **options)


def symbolic(p):
    """The module's recursion, with polynomials for numbers."""
    variables = sympy.symbols(f"x0:{p.n_variables}")
    kept = newest = linear = sympy.Matrix([[1]])
    found = []
    for t, level in enumerate(p.levels):
        tables = (level.projection, level.keep, level.vanish)
        exact = [sympy.Matrix(x.numpy()).applyfunc(sympy.nsimplify) for x in tables]
        pairs = zip(level.left.tolist(), level.right.tolist(), strict=True)
        products = [variables[r] if t == 0 else newest[l] * linear[r] for l, r in pairs]
        rest = sympy.Matrix([products]) - kept * exact[0]
        found += list(rest * exact[2])
        newest = rest * exact[1]
        linear = newest if t == 0 else linear
        kept = kept.row_join(newest)
    return variables, [sympy.Poly(sympy.expand(f), *variables) for f in found]


def coefficients(expanded):
    for j in range(len(expanded)):
        terms = map(tuple, expanded.terms.exponents().tolist())
        table = dict(zip(terms, expanded.tail[j].tolist(), strict=True))
        lead = tuple(expanded.leading.exponents()[j].tolist())
        table[lead] = table.get(lead, 0.0) + float(expanded.lead[j])
        yield {term: value for term, value in table.items() if value}


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_expansion_is_the_exact_one(seed, levels):
    p = CompositionSet(2, random_set(seed).levels[:levels])
    _, wanted = symbolic(p)
    for table, polynomial in zip(coefficients(p.expanded), wanted, strict=True):
        exact = {term: float(value) for term, value in polynomial.terms() if value}
        assert table == pytest.approx(exact)


@pytest.mark.parametrize("limit", [1, 1000, 1 << 30])
def test_values_are_those_of_the_polynomials_in_pieces_of_any_size(limit, random):
    p = random_set(1, memory_limit=limit)
    variables, polynomials = symbolic(p)
    points = random.uniform(-1, 1, size=(9, 2))
    wanted = sympy.lambdify(variables, [f.as_expr() for f in polynomials])
    wanted = np.array([wanted(*point) for point in points])
    np.testing.assert_allclose(p.evaluate(points), wanted, atol=1e-12)
    there = p.evaluate(torch.from_numpy(points).float())
    assert there.dtype == torch.float64
    np.testing.assert_allclose(there, wanted, atol=1e-5)
    np.testing.assert_allclose(p.compact().evaluate(points), wanted, atol=1e-12)


def test_derivatives_are_those_of_autograd(random):
    p = random_set(2)
    points = torch.from_numpy(random.uniform(-1, 1, size=(4, 2)))
    auto = torch.autograd.functional.jacobian(lambda z: p.evaluate(z).sum(0), points)
    torch.testing.assert_close(p.gradient(points), auto.movedim(0, 1))


def test_degrees_count_levels_and_lead_with_the_largest_coefficient_of_that_degree():
    p = random_set(3)
    assert len(p) == 4 and p.degrees.tolist() == [1, 2, 2, 3]
    assert "4 polynomials in 2 variables, 3 levels" in repr(p)
    expanded = p.expanded
    assert expanded.leading.degrees.tolist() == [1, 2, 2, 3]
    for j, table in enumerate(coefficients(expanded)):
        top = max(abs(v) for t, v in table.items() if sum(t) == p.degrees[j])
        assert abs(float(expanded.lead[j])) == pytest.approx(top)
    assert str(p) == str(expanded) and p.sparsity == expanded.sparsity
    assert [str(e) for e in p.to_sympy()] == [str(e) for e in expanded.to_sympy()]


def test_too_many_monomials_are_refused_and_named_by_number(monkeypatch):
    p = random_set(0)
    assert p.strings() == p.expanded.strings()
    monkeypatch.setattr(compositions, "EXPAND_LIMIT", 9)  # there are 10 up to degree 3
    p = random_set(0)
    with pytest.raises(ValueError, match="degree 3 in 2 variables needs more than 9 monomials"):
        _ = p.expanded
    assert p.strings()[0] == "degree 1 polynomial 0" and p.strings()[3] == "degree 3 polynomial 3"
    monkeypatch.setattr(compositions, "EXPAND_LIMIT", 10)
    assert len(random_set(0).expanded) == 4


def changed(level, **fields):
    """A file's worth of tensors with one level replaced."""
    levels = list(random_set(0).levels)
    levels[level] = replace(levels[level], **fields)
    return levels


HALF = torch.tensor([0.0, 0.5])
BROKEN = {
    "projection": changed(1, projection=torch.zeros(2, 3)),
    "lengths": changed(2, left=torch.tensor([0])),
    "keep of another height": changed(1, keep=torch.zeros(2, 1)),
    "vanish of another height": changed(1, vanish=torch.zeros(4, 2)),
    "keep of one dimension": changed(2, keep=torch.zeros(2)),
    "left out of range": changed(2, left=torch.tensor([0, 1])),
    "left below zero": changed(2, left=torch.tensor([0, -1])),
    "right out of range": changed(2, right=torch.tensor([0, 2])),
    "variables out of range": changed(0, right=torch.tensor([0, 2])),
    "left of fractions": changed(2, left=HALF),
    "right of fractions": changed(2, right=HALF),
}


def write(path, made, **facts):
    tensors = {
        f"{t}.{f}": getattr(level, f).clone()
        for t, level in enumerate(made)
        for f in CompositionLevel.__annotations__
    }
    write_tensors(path, "compositions", tensors, {"n_variables": 2, "levels": 3} | facts)


@pytest.mark.parametrize("kind", BROKEN)
def test_tables_that_do_not_fit_together_are_refused(tmp_path, kind):
    write(tmp_path / "p", BROKEN[kind])
    with pytest.raises(ValueError, match="tables do not fit together"):
        CompositionSet.load(tmp_path / "p")


@pytest.mark.parametrize(
    "facts",
    [
        *({"levels": 2}, {"levels": 4}, {"levels": "3"}, {"n_variables": "2"}),
        *({"n_variables": n, "levels": 0} for n in (0, MOST_VARIABLES + 1)),
    ],
)
def test_incomplete_files_are_refused(tmp_path, facts):
    levels = random_set(0).levels if facts.get("levels") != 0 else ()
    write(tmp_path / "p", levels, **facts)
    with pytest.raises(ValueError, match="not a complete set of compositions"):
        CompositionSet.load(tmp_path / "p")


def test_no_levels_and_points_of_another_width():
    none = CompositionSet(3, ())
    assert len(none) == 0 and none.evaluate(np.zeros((4, 3))).shape == (4, 0)
    with pytest.raises(ValueError, match=r"points must have shape \(m, 2\)"):
        random_set(0).evaluate(np.zeros((4, 3)))
