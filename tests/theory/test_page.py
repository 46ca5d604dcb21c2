from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch
from looks import faults
from pages import ReadPage, loads_nothing

from vinets import build
from vinets.data import digits
from vinets.measure import machine
from vinets.models import digits_cnn
from vinets.report import can_draw, html, print_page
from vinets.report.figures import COLORS
from vinets.report.numbers import number
from vinets.report.values import Page, Table
from vinets.theory import Advice, Complexity, LayerNorms, Split, Study, advise, study
from vinets.theory.bounds import PolynomialBounds
from vinets.theory.page import (
    corollary_sentence,
    draw_region,
    kappa_sentence,
    layers_figure,
    margins_figure,
    theory_page,
)
from vinets.theory.study import Corollary, MarginBound


@pytest.fixture(scope="module")
def found() -> Study:
    """A study of an untrained network with a VI-Net and margins."""
    torch.manual_seed(0)
    model, data = digits_cnn().eval(), digits().train
    sizes = {"components": 6, "keep": 4, "monomials": 30, "per_class": 30}
    net, _ = build(model, data, "relu3", progress=None, **sizes)
    some = data.subset(torch.arange(100))
    example = data.example()
    return study(model, "relu3", example, network=net, batches=lambda: some.batches(50))


def page(found: Study) -> Page:
    return theory_page(found, "A <title>", "vinets theory 'a & b'", machine("cpu"))


def table(found: Study, name: str) -> Table:
    blocks = [block for section in page(found).sections for block in section.blocks]
    return next(block for block in blocks if isinstance(block, Table) and block.id == name)


@pytest.fixture(scope="module")
def text(found) -> str:
    return html(page(found))


def test_page_and_terminal_show_layers_bounds_advice_and_margins(found, text, capsys):
    rows = ReadPage(text).rows
    print_page(page(found), "Figures are elsewhere.")
    printed = capsys.readouterr().out
    for layer in (*found.uncut.layers, *found.network.whole.layers):
        norm = number(layer.spectral, ".4g")
        assert any(row[0] == layer.name and row[3] == norm for row in rows)
        assert layer.name in printed and norm in printed
    for bound in found.network.head.bounds.bounds:
        assert any(number(bound.bound, ".4g") in row for row in rows)
    texts = ReadPage(text).texts
    for words in ("Every bound holds.", "certify nothing", found.advice.sentence):
        assert words in printed and words in " ".join(texts)
    assert {"A <title>", "vinets theory 'a & b'"} <= set(texts)
    for spelling in ("kappa", "||", "lambda_1", "tau "):
        assert spelling not in printed
    assert printed.rstrip().endswith("Figures are elsewhere.")


@pytest.mark.skipif(not can_draw(), reason="needs matplotlib")
def test_every_picture_says_what_it_shows_and_the_page_loads_nothing(text):
    labels = re.findall(r'<svg role="img" aria-label="([^"]+)"', text)
    assert len(labels) == len(set(labels)) == 2 + 5  # layers, margins and a map for every degree
    assert loads_nothing(text.replace("data:image/png", ""))
    names = ReadPage(text).values("id")
    assert len(names) == len(set(names))
    assert COLORS[1] not in text.partition("<main>")[2]  # dark screens have their own


def test_without_a_network_the_page_leaves_its_parts_out(found):
    texts = " ".join(ReadPage(html(page(replace(found, network=None, corollary=None)))).texts)
    assert "conv1" in texts and "Heads that are certified" in texts
    assert "W_M" not in texts and "corollary" not in texts


def test_a_broken_bound_is_called_one(found, monkeypatch):
    assert isinstance(found.network.head.bounds, PolynomialBounds)
    for bound in found.network.head.bounds.bounds:
        monkeypatch.setitem(vars(bound), "holds", False)
    text = html(page(found))
    assert "A bound is broken." in text and '<span class="verdict no">no</span>' in text


def test_layers_are_kept_removed_changed_or_added(found):
    fates = [row.values["cut"] for row in table(found, "layers-uncut").rows]
    assert fates == ["kept"] * 3 + ["removed"] * 2
    split = replace(found.split, kept=found.split.kept[:2], removed=found.uncut.layers[2:])
    shifted = table(replace(found, split=split), "layers-network")
    assert [row.values["cut"] for row in shifted.rows][:4] == ["kept", "kept", "changed", "added"]
    norms = [row.values["spectral"] for row in table(found, "layers-uncut").rows]
    assert norms == [layer.spectral for layer in found.uncut.layers]


def test_a_norm_that_did_not_converge_is_called_so(found):
    first = replace(found.uncut.layers[0], converged=False)
    uncut = replace(found.uncut, layers=(first, *found.uncut.layers[1:]))
    shown = table(replace(found, uncut=uncut), "layers-uncut").rows[0].values["spectral"]
    assert shown == f"{number(first.spectral, '.4g')} (not converged)"


@pytest.mark.parametrize(
    ("reach", "words"),
    [
        (1.0, ["complex."]),
        (3.0, ["[−B, B] with B = 3 only", "guaranteed"]),
        (math.inf, ["Nothing bounds"]),
    ],
)
def test_the_sentence_on_kappa_follows_the_numbers(found, reach, words):
    head = replace(found.network.head, variables_bound=reach)
    changed = replace(found, network=replace(found.network, head=head))
    text = kappa_sentence(changed)
    assert all(word in text for word in words)
    assert number(changed.log10_kappa, "10^.2f") in text
    assert ("less complex" in text) == (changed.log10_kappa < 0)
    assert ("guaranteed" in text) == (reach == 3.0)


def test_the_sentence_on_kappa_of_a_layer_of_zeros(found):
    head = replace(found.network.head, layers=(LayerNorms("W", 0.0, 0.0),))
    assert "R = 0" in kappa_sentence(replace(found, network=replace(found.network, head=head)))


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (0.5, "is 0.5 times that"),
        (0.5, "the network behind the cut."),
        (2, "the uncut"),
        (None, "No"),
    ],
)
def test_the_sentence_on_margins_has_its_caveat(ratio, words):
    text = corollary_sentence(ratio)
    assert words in text and "the values themselves certify nothing" in text


def test_stars_mark_what_fits_at_the_tau_of_the_advice(found):
    path = tuple(
        replace(row, log10_tau_max=2.0 - row.degree, fits=row.degree == 1)
        for row in found.advice.path
    )
    advice = table(replace(found, advice=replace(found.advice, path=path)), "advice")
    headings = [column.heading for column in advice.columns]
    assert headings == ["polynomials N", "monomials S", *(f"d = {d}" for d in range(1, 6))]
    first, *_, last = (list(row.values.values()) for row in advice.rows)
    assert first == [1280, 512, "10*", "1", "0.1", "0.01", "0.001"]
    assert len(advice.rows) == 8 and last[:2] == [10, 16]


@pytest.mark.pages
def test_the_page_suits_every_screen(text, tmp_path):
    path = tmp_path / "theory.html"
    path.write_text(text, encoding="utf-8")
    assert faults(path) == []


# --- figures --------------------------------------------------------------------------------------


UNCUT = Complexity(
    (LayerNorms("a", 10.0, 50.0), LayerNorms("b", 100.0, 200.0, 0.1), LayerNorms("c", 2.0, 9.0))
)
BEHIND = Complexity((LayerNorms("a", 10.0, 50.0), LayerNorms("W", 0.1, 0.3)))


def advice(norm: float = 1e3, **options) -> Advice:
    removed = (*(LayerNorms(name, norm, 1e5) for name in "abc"), LayerNorms("fc", 3.0, 9.0))
    return advise(Split((), removed), classes=10, **options)


def test_lines_follow_the_product_and_end_at_R():
    figure = layers_figure(UNCUT, {"VI-Net": BEHIND})
    behind, uncut = figure.series
    assert uncut.y == pytest.approx([1, 2, 2 + math.log10(2), UNCUT.log10_R])
    assert behind.y == pytest.approx([1, 0, BEHIND.log10_R])
    assert figure.x.names == ("a", "b", "c", "R")
    assert (behind.x, behind.labels) == ((0, 1, 3), ("a", "W", "R"))
    assert uncut.dashed and not behind.dashed
    assert behind.name == f"VI-Net, R = 10^{BEHIND.log10_R:.2f}"


def test_lines_stop_at_a_layer_of_zeros():
    zero = Complexity((*UNCUT.layers[:1], LayerNorms("z", 0.0, 0.0)))
    (line,) = layers_figure(zero, {}).series
    assert line.y == pytest.approx([1]) and line.name.endswith("R = 0")


@pytest.fixture
def ax():
    return pytest.importorskip("matplotlib.figure").Figure().add_subplot()


def test_the_map_holds_the_largest_tau_and_marks_the_recommendation(ax):
    found = advice()
    degree = found.setting.degree
    draw_region(ax, found, degree)
    heat = ax.collections[0].get_array()  # (monomials, polynomials), the rows by monomials first
    largest = [row.log10_tau_max for row in found.rows if row.degree == degree]
    assert heat.T.flatten().tolist() == largest
    (mark,) = ax.lines
    ((x, y),) = mark.get_xydata().tolist()
    assert (2**x, 2**y) == pytest.approx((found.setting.polynomials, found.setting.monomials))


def test_lines_are_drawn_where_the_largest_tau_crosses_them(ax):
    found = advice(150.0)
    assert found.setting.degree != 4
    draw_region(ax, found, 4)
    values = [r.log10_tau_max for r in found.rows if r.degree == 4]
    assert min(values) < 0 and max(values) > 1
    assert {text.get_text() for text in ax.texts} == {"τ = 10", "τ = 1"}
    assert not ax.lines  # the recommended size is in another map


def corollary(log10_R: float = 3.0) -> Corollary:
    margins = [-1.0, 0.1, 10.0, 10.0]
    sides = (MarginBound(margins, log, 40.0, 8) for log in (2.0, log10_R))
    return Corollary(*sides)


@pytest.mark.parametrize(
    ("log10_R", "shifts"), [(3.0, (4.0, 3.0)), (1e4, (1e4 + 1, 3.0)), (-math.inf, (0.0, 0.0))]
)
def test_margins_are_in_units_of_R_even_where_it_overflows(log10_R, shifts):
    figure = margins_figure(corollary(log10_R))
    for series, shift in zip(figure.series, shifts, strict=True):
        assert sorted(set(series.x)) == pytest.approx([-1 - shift, 1 - shift])
        assert sorted(set(series.y)) == [50, 100]
    assert ("normalised" in figure.x.label) == math.isfinite(log10_R)
    assert [series.dashed for series in figure.series] == [False, True]
