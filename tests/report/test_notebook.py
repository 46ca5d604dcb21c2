"""What notebooks show of results: tables, sentences and formulas instead of field names."""

from __future__ import annotations

import pytest

from vinets import ABM, evaluate
from vinets.algebra.polynomial import SHOWN, Polynomial
from vinets.data import digits
from vinets.data.synthetic import circle
from vinets.measure import bench
from vinets.models import digits_cnn
from vinets.networks import CutNetwork
from vinets.report import Column, Table
from vinets.search.result import SearchResult

NET = CutNetwork.from_pretrained("vinets/digits-cnn-products")


def test_tables_and_what_has_tables_are_html():
    table = Table.from_rows("t", "Sizes", ["model", Column("n", format=",")], [["<b>", 1200]])
    assert "<table>" in table._repr_html_() and "<td" in table._repr_html_()
    assert "&lt;b&gt;" in table._repr_html_() and "1,200" in table._repr_html_()
    assert "product head behind relu1, 10 classes" in NET._repr_html_()
    assert evaluate(NET, digits())._repr_html_().count("<table") == 2
    measured = bench({"a": digits_cnn()}, digits(), batch_sizes=(1,), repeats=1, seconds=0.01)
    assert measured._repr_html_().count("<table") == 2


def test_a_search_is_its_verdict_and_its_table(monkeypatch):
    table = Table.from_rows("t", "Finalists", ["network"], [["small"]])
    monkeypatch.setattr(SearchResult, "verdict", "It is <small>.")
    monkeypatch.setattr(SearchResult, "table", table)
    shown = SearchResult._repr_html_(object.__new__(SearchResult))
    assert "It is &lt;small&gt;." in shown and "<table" in shown


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("x0", "y"), r"2\,x_{0}^{2} - 3 \cdot 10^{-5}\,y - 0.5"),
        (("width_mm", "a12"), r"2\,\mathrm{width\_mm}^{2} - 3 \cdot 10^{-5}\,a_{12} - 0.5"),
    ],
)
def test_polynomials_are_formulas(names, expected):
    one = Polynomial(((0, 0), (1,), ()), (2.0, -3e-5, -0.5), names)
    assert one.to_latex() == expected and one._repr_latex_() == rf"$\displaystyle {expected}$"
    several = ABM(psi=1e-6, max_degree=2).fit(circle(50, noise=0.0)).generators_
    assert "x_{0}^{2}" in several._repr_latex_() and "aligned" in several._repr_latex_()
    many = ABM(psi=1e-6, max_degree=8).fit(circle(9, noise=0.0)).generators_
    assert (len(many) > SHOWN) == (r"\text{and " in many._repr_latex_())
