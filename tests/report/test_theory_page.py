from __future__ import annotations

import copy
import re

import pytest
import torch

from vinets import build
from vinets.data import digits
from vinets.measure import machine
from vinets.models import digits_cnn
from vinets.report import can_draw
from vinets.report.theory_page import (
    advice_cells,
    corollary_sentence,
    kappa_sentence,
    layer_cells,
    theory_page,
)
from vinets.theory import study
from vinets.theory.advisor import power_of_ten


@pytest.fixture(scope="module")
def found() -> dict:
    """A study of an untrained network with a VI-Net and margins."""
    torch.manual_seed(0)
    model, data = digits_cnn().eval(), digits().train
    sizes = {"components": 6, "keep": 4, "monomials": 30, "per_class": 30}
    net, _ = build(model, data, "relu3", progress=None, **sizes)
    some = data.subset(torch.arange(100))
    example = data.example()
    made = study(model, "relu3", example, network=net, batches=lambda: some.batches(50))
    return made.to_dict()


def page(found: dict) -> str:
    return theory_page(found, "A <title>", "vinets theory 'a & b'", machine("cpu"))


@pytest.fixture
def _plain(monkeypatch):
    """Figures take time, and words do not depend on them."""
    monkeypatch.setattr("vinets.report.theory_page.can_draw", lambda: False)


@pytest.mark.usefixtures("_plain")
def test_the_page_shows_layers_bounds_advice_and_margins(found):
    text = page(found)
    for layer in (*found["uncut"]["layers"], *found["network"]["layers"]):
        assert f'<th scope="row">{layer["name"]}</th>' in text
        assert f"<td>{layer['spectral']:.4g}</td>" in text
    for bound in found["network"]["bounds"]["bounds"]:
        assert f"<td>{bound['bound']:.4g}</td>" in text
    assert "Every bound holds." in text and "certify nothing" in text
    assert "A &lt;title&gt;" in text and "vinets theory 'a &amp; b'" in text
    assert "<svg" not in text and "vinets[plots]" in text


@pytest.mark.skipif(not can_draw(), reason="needs matplotlib")
def test_every_figure_says_what_it_shows_and_the_page_loads_nothing(found):
    text = page(found)
    labels = re.findall(r'<svg role="img" aria-label="([^"]+)"', text)
    assert len(set(labels)) == text.count("<figure>") == 1 + 2 + 5 + 1
    assert not re.search(r"https?:|@import|<script|<link|<iframe|url\((?!#)", text)
    names = re.findall(r'\bid="([^"]*)"', text)
    assert len(names) == len(set(names))


@pytest.mark.usefixtures("_plain")
def test_without_a_network_the_page_leaves_its_parts_out(found):
    text = page(found | {"network": None, "corollary": None, "log10_kappa": None})
    assert "conv1" in text and "Heads that are certified" in text
    assert "W_M" not in text and "corollary" not in text


@pytest.mark.usefixtures("_plain")
def test_a_broken_bound_is_called_one(found):
    broken = copy.deepcopy(found)
    broken["network"]["bounds"]["holds"] = False
    broken["network"]["bounds"]["bounds"][0]["holds"] = False
    text = page(broken)
    assert "A bound is broken." in text and "<td>NO</td>" in text


def test_layers_are_kept_removed_changed_or_added(found):
    assert [row[2] for row in layer_cells(found, "uncut")] == ["kept"] * 3 + ["removed"] * 2
    shifted = found | {"kept": ["conv1", "conv2"], "removed": ["conv3", "conv4", "fc"]}
    fates = [row[2] for row in layer_cells(shifted, "network")]
    assert fates[:4] == ["kept", "kept", "changed", "added"]
    norms = [float(row[3]) for row in layer_cells(found, "uncut")]
    assert norms == pytest.approx([x["spectral"] for x in found["uncut"]["layers"]], rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"variables_bound": 1.0}, ["10^-0.50", "less complex"]),
        ({"variables_bound": 3.0, "log10_R_guaranteed": 9.25}, ["±3 only", "10^9.25"]),
        ({"variables_bound": None, "log10_R_guaranteed": None}, ["Nothing bounds"]),
        ({"log10_R": None}, ["R = 0"]),
    ],
)
def test_the_sentence_on_kappa_follows_the_numbers(found, changes, words):
    text = kappa_sentence(found | {"log10_kappa": -0.5, "network": found["network"] | changes})
    assert all(word in text for word in words)
    assert ("guaranteed" in text) == ("±3" in str(words))


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (0.5, "0.5 times"),
        (0.5, "favours the network behind"),
        (2, "favours the uncut"),
        (None, "No"),
    ],
)
def test_the_sentence_on_margins_has_its_caveat(ratio, words):
    text = corollary_sentence({"ratios": {"0.5": ratio}})
    assert words in text and "the values themselves certify nothing" in text


def test_stars_mark_what_fits_at_the_tau_of_the_advice(found):
    advice = copy.deepcopy(found["advice"])
    for row in advice["path"]:
        row["log10_tau_max"], row["fits"] = 2.0 - row["degree"], row["degree"] == 1
    columns, rows = advice_cells(advice)
    assert columns == ["polynomials", "monomials", *(f"degree {d}" for d in range(1, 6))]
    assert rows[0] == ["1,280", "512", "10*", "1 ", "0.1 ", "0.01 ", "0.001 "]
    assert len(rows) == 8 and rows[-1][:2] == ["10", "16"]


@pytest.mark.parametrize("log10", [-7.31, -3.9, -0.0001, 0.0, 1.4199, 5.9999, 6.0, 12.345])
def test_powers_are_rounded_down_by_little(log10):
    text = power_of_ten(log10)
    shown = float(text[3:]) if text.startswith("10^") else torch.tensor(float(text)).log10().item()
    assert log10 - 0.11 < shown <= log10 + 1e-6
