from __future__ import annotations

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vinets.algebra.polynomials import PolynomialSet
from vinets.algebra.terms import TermSet
from vinets.core.tensors import write_tensors


def random_set(seed: int, n: int = 3, shared: int = 8, count: int = 5) -> PolynomialSet:
    random = np.random.default_rng(seed)

    def table(size):
        rows = {tuple(r) for r in random.integers(0, 3, size=(size, n)).tolist()}
        return TermSet.from_exponents(sorted(rows, key=lambda r: (sum(r), r)))

    terms, leading = table(shared), table(count)
    tail = torch.from_numpy(random.normal(size=(len(leading), len(terms))))
    tail[:, ::3] = 0
    return PolynomialSet(terms, leading, tail, torch.from_numpy(random.normal(size=len(leading))))


def by_powers(p: PolynomialSet, points: np.ndarray) -> np.ndarray:
    shared = np.prod(points[:, None] ** p.terms.exponents(), axis=2)
    own = np.prod(points[:, None] ** p.leading.exponents(), axis=2)
    return shared @ p.tail.numpy().T + own * p.lead.numpy()


@given(st.integers(0, 10_000))
def test_plans_equal_powers(seed):
    p = random_set(seed)
    points = np.random.default_rng(seed).uniform(-1, 1, size=(7, 3))
    np.testing.assert_allclose(p.evaluate(points), by_powers(p, points), atol=1e-12)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("top", [0, 1, 3])
def test_closed_sets_equal_powers_with_numpy_and_with_torch(small, top, monkeypatch):
    """Terms up to a degree, and leading terms of two degrees above some of them."""
    if not small:
        monkeypatch.setattr("vinets.algebra.polynomials.MAX_NUMPY_VALUES", 0)
    calls = []
    right = PolynomialSet._evaluate_small
    monkeypatch.setattr(
        PolynomialSet, "_evaluate_small", lambda self, z: (calls.append(1), right(self, z))[1]
    )
    terms = TermSet.from_exponents(
        sorted(np.argwhere(np.ones((top + 1,) * 2)).tolist(), key=lambda r: (sum(r), r))
    )
    above = {0: [[1, 0], [0, 1]], 1: [[2, 0], [1, 2]], 3: [[4, 0], [4, 1]]}
    leading = TermSet.from_exponents(above[top])
    random = np.random.default_rng(top)
    tail = torch.from_numpy(random.normal(size=(2, len(terms))))
    p = PolynomialSet(terms, leading, tail, torch.from_numpy(random.normal(size=2)))
    points = random.uniform(-1, 1, size=(7, 2))
    values = p.evaluate(points)
    np.testing.assert_allclose(values, by_powers(p, points), atol=1e-12)
    assert bool(calls) == bool(small)
    given = torch.from_numpy(points).requires_grad_()
    p.evaluate(given).sum().backward()  # what has a gradient is left to torch
    np.testing.assert_allclose(given.grad, p.gradient(points).sum(1), atol=1e-12)


@given(st.integers(0, 10_000), st.sampled_from([1, 200, 5000]))
def test_a_memory_limit_does_not_change_values(seed, limit):
    p = random_set(seed)
    tight = PolynomialSet(p.terms, p.leading, p.tail, p.lead, memory_limit=limit)
    points = np.random.default_rng(seed).uniform(-1, 1, size=(9, 3))
    np.testing.assert_allclose(tight.evaluate(points), p.evaluate(points), atol=1e-14)
    np.testing.assert_allclose(tight.gradient(points), p.gradient(points), atol=1e-14)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 200))
def test_closed_form_gradient_equals_autograd_and_sympy(seed):
    p = random_set(seed, count=3)
    points = torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, size=(2, 3)))
    points[0, 0] = 0.0  # where a logarithm would break
    closed = p.gradient(points)
    auto = torch.autograd.functional.jacobian(lambda z: p.evaluate(z).sum(0), points)
    torch.testing.assert_close(closed, auto.movedim(0, 1))
    names = sympy.symbols("x0:3")
    for j, expression in enumerate(p.to_sympy(names)):
        for v, name in enumerate(names):
            slope = sympy.lambdify(names, sympy.diff(expression, name))
            for i, point in enumerate(points.tolist()):
                assert float(closed[i, j, v]) == pytest.approx(float(slope(*point)), abs=1e-9)


def test_values_are_differentiable_twice():
    p = random_set(1)
    points = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(p.evaluate, (points,))


def test_select_and_compact_keep_values(random):
    p = random_set(3)
    points = random.uniform(-1, 1, size=(6, 3))
    values = p.evaluate(points)
    keep = np.arange(len(p)) % 2 == 0
    np.testing.assert_allclose(p.select(keep).evaluate(points), values[:, keep])
    small = p.compact()
    assert len(small.terms) < len(p.terms)
    assert bool((small.tail != 0).any(0).all())
    np.testing.assert_allclose(small.evaluate(points), values)


def test_sparsity_counts_exact_zeros():
    p = random_set(4)
    assert p.sparsity == pytest.approx(float((p.tail == 0).double().mean()))


def test_text_matches_sympy():
    p = random_set(5)
    for text, expression in zip(p.strings(digits=17), p.to_sympy(), strict=True):
        difference = sympy.sympify(text.replace("^", "**")) - expression
        terms = sympy.Poly(difference, *sympy.symbols("x0:3")).coeffs()
        assert max(abs(float(c)) for c in terms) < 1e-12


def test_an_empty_set_prints_as_such():
    assert str(random_set(5).select(np.zeros(0, dtype=np.int64))) == "(no polynomials)"


def test_torch_in_torch_out_in_the_wider_type():
    p = random_set(6)
    out = p.evaluate(torch.zeros(2, 3, dtype=torch.float32))
    assert isinstance(out, torch.Tensor) and out.dtype == torch.float64
    assert p.to(torch.float32).evaluate(torch.zeros(2, 3)).dtype == torch.float32


def test_wrong_width_is_named():
    with pytest.raises(ValueError, match=r"points must have shape \(m, 3\)"):
        random_set(7).evaluate(np.zeros((2, 4)))


def test_one_variable_is_enough(tmp_path):
    square = TermSet.from_exponents([[2]])
    p = PolynomialSet(TermSet.from_exponents([[0]]), square, torch.ones(1, 1), torch.ones(1))
    p.save(tmp_path / "p")
    assert PolynomialSet.load(tmp_path / "p").evaluate(np.array([[3.0]])).tolist() == [[10.0]]


ONE, LEAD = torch.zeros(1, 1), torch.zeros(1)
TENSORS = {"tail": ONE, "lead": LEAD, "terms.0": torch.zeros(1, 0).long()}
TENSORS |= {"leading.0": torch.zeros(0, 0).long(), "leading.1": torch.tensor([[1]])}
NO_FLOATS = "floating coefficients of one dtype"


@pytest.mark.parametrize(
    ("kind", "changes", "n", "message"),
    [
        ("weights", {}, 2, r"must hold vinets\.polynomials"),
        ("polynomials", {"leading.1": torch.tensor([[9]])}, 2, "sorted variable indices below 2"),
        ("polynomials", {"tail": ONE.bool(), "lead": LEAD.bool()}, 2, NO_FLOATS),
        ("polynomials", {"tail": ONE.long(), "lead": LEAD.long()}, 2, NO_FLOATS),
        ("polynomials", {"lead": LEAD.double()}, 2, NO_FLOATS),
        ("polynomials", {}, 2**40, "1 to 1,048,576 variables"),  # a number, not yet memory
    ],
)
def test_files_that_hold_no_polynomials_are_refused(tmp_path, kind, changes, n, message):
    write_tensors(tmp_path / "p", kind, TENSORS | changes, {"n_variables": n})
    with pytest.raises(ValueError, match=message):
        PolynomialSet.load(tmp_path / "p")


def test_files_that_cannot_be_read_are_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"not a tensor file")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        PolynomialSet.load(tmp_path / "a")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        PolynomialSet.load(tmp_path / "nothing")
