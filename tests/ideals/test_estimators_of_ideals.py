"""The built-in algorithms keep the contract of ideals; what only some of them promise."""

from __future__ import annotations

import ast
import inspect
import re

import numpy as np
import pytest

from vinets import ABM, OAVI, VCA
from vinets.data.synthetic import latent_like
from vinets.testing.ideals import IdealContract, MonomialContract


class TestABM(MonomialContract):
    def make(self, psi, max_degree):
        return ABM(psi, max_degree=max_degree)


class TestABMWithLeadingCoefficients(MonomialContract):
    def make(self, psi, max_degree):
        return ABM(psi, normalization="leading", max_degree=max_degree)


class TestOAVI(MonomialContract):
    repeatable = False

    def make(self, psi, max_degree):
        return OAVI(psi, max_degree=max_degree)


class TestOAVIExact(MonomialContract):
    def make(self, psi, max_degree):
        return OAVI(psi, oracle="exact", max_degree=max_degree)


class TestVCA(IdealContract):
    bounded_at_zero = False  # what is kept is divided by singular values that may be tiny

    def make(self, psi, max_degree):
        return VCA(psi, max_degree=max_degree)

    def test_memory_is_estimated_before_it_is_taken(self):
        with pytest.raises(MemoryError, match="lower max_degree, raise psi"):
            VCA(1e-6, memory_limit=10_000).fit(latent_like(100, 12, 12))
        # three matrices of 12 x 12 numbers of 8 bytes, and not one byte less
        VCA(0.1, max_degree=1, memory_limit=3456).fit(latent_like(100, 12, 3))
        with pytest.raises(MemoryError, match="12 candidates"):
            VCA(0.1, max_degree=1, memory_limit=3455).fit(latent_like(100, 12, 3))


@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("normalization", ["unit", "leading"])
def test_low_precision_finds_nearly_the_same_ideal(precision, normalization):
    X = latent_like(300, 32, 8, noise=0.1)
    exact = ABM(0.05, normalization=normalization, max_degree=3).fit(X)
    rough = ABM(0.05, normalization=normalization, max_degree=3, precision=precision).fit(X)
    a, b = (set(map(tuple, m.order_ideal_.tolist())) for m in (exact, rough))
    assert len(a & b) >= {"float32": 1.0, "float16": 0.9, "bfloat16": 0.6}[precision] * len(a | b)
    assert (rough.transform(X) ** 2).mean(0).max() <= 0.05 * 1.05
    assert rough.report_.precision == precision


def test_feature_names_read_like_algebra():
    model = OAVI(0.0, oracle="exact", max_degree=2)
    x = np.linspace(-1, 1, 20)
    model.fit(np.c_[x, x**2])
    assert model.get_feature_names_out(["t", "s"]).tolist() == ["t^2 - s"]


def test_oracles_report_how_they_ended():
    model = OAVI(0.01, oracle="bpcg", max_degree=2, n_samples=90).fit(latent_like(100, 10, 3))
    text = str(model.report_)
    assert "oracle: " in text and "left out" in text and len(text.splitlines()) == 6
    model.set_params(n_samples=None).fit(latent_like(100, 10, 3))
    log = model.report_.oracle
    assert log["rows"] == len(model.generators_) == sum(log["status"].values())
    assert log["kept"] == log["rows"] and log["steps"] == 0  # the ball is wide enough
    tight = OAVI(0.01, oracle="bpcg", tau=3.0, max_degree=2).fit(latent_like(100, 10, 3))
    assert tight.report_.oracle["steps"] > 0
    dense = OAVI(0.01, oracle="exact", max_degree=2).fit(latent_like(100, 10, 3))
    assert model.generators_.sparsity > dense.generators_.sparsity
    assert model.order_ideal_.tolist() == dense.order_ideal_.tolist()


def test_full_borders_report_whether_the_order_ideal_is_closed():
    found = set()
    for seed in range(40):
        model = ABM(0.05, normalization="leading", border="full", max_degree=4)
        model.fit(latent_like(15, 3, 2, seed=seed))
        order = set(map(tuple, model.order_ideal_.tolist()))
        closed = all(
            tuple(e - (i == v) for i, e in enumerate(t)) in order
            for t in order
            for v in range(3)
            if t[v]
        )
        assert model.report_.closed_under_division == closed
        found.add(closed)
    assert found == {True, False}


@pytest.mark.parametrize("kind", [ABM, OAVI, VCA])
def test_defaults_are_those_of_the_docstring(kind):
    for name, parameter in inspect.signature(kind).parameters.items():
        told = re.search(rf"^ *{name} : .*default=(.+)$", kind.__doc__, re.MULTILINE)
        assert told is not None and ast.literal_eval(told[1]) == parameter.default
