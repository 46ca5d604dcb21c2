from __future__ import annotations

import numpy as np
import pytest
import torch
from looks import faults
from pages import ReadPage, loads_nothing

from vinets.data import digits
from vinets.networks.open import open_network


@pytest.fixture
def picture(tmp_path):
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "digit.png"
    image.fromarray(digits().test.images[3, 0].numpy()).save(path)
    return path


@pytest.fixture(scope="module")
def products(base, call):
    """A network with products of forms."""
    out = base.parent / "products"
    options = ["--data", "digits", "--cut", "pool", "--head", "products", "--epochs", 1]
    timing = ["--repeats", 2, "--seconds", 0.01, "--quiet"]
    done = call("build", base, "--out", out, *options, *timing)
    assert done.code == 0, done.err
    return out


def test_the_json_has_the_answer_of_the_network_and_sums_to_its_margin(call, products, picture):
    told = call("explain", products, picture, "--per-class", 20, "--top", 3, "--json").json()
    found = told["explanation"]
    test = digits().test
    with torch.no_grad():
        logits = open_network(products).network(test.preprocessing(test.images[3:4]))[0]
    best, second = logits.topk(2).indices.tolist()
    assert (found["answer"], found["next"]) == (test.classes[best], test.classes[second])
    assert found["margin"] == pytest.approx(float(logits[best] - logits[second]), abs=1e-4)
    parts = [one["contribution"] for one in found["generators"]]
    assert len(parts) == 3
    assert found["middle"] + sum(parts) + found["others"] == pytest.approx(found["margin"])
    assert np.sum(found["map"]) == pytest.approx(found["margin"] - found["middle"])
    assert "picture" not in found and found["examples"] == 200


def test_the_page_has_every_part_of_the_explanation(call, products, picture, tmp_path):
    out = tmp_path / "why.html"
    options = ["--per-class", 20, "--top", 4, "--neighbours", 3, "--out", out]
    found = call("explain", products, picture, *options, "--json").json()["explanation"]
    text = out.read_text(encoding="utf-8")
    page = ReadPage(text)
    rows = {row[0]: row for row in page.rows if row}
    for one in found["generators"]:
        row = rows[f"p{one['index']}"]
        assert row[1].replace("−", "-") == f"{one['contribution']:+.3f}"
        assert row[-2:] == [one["smallest_on"], one["polynomial"]]
    assert rows["margin"][1] == f"{found['margin']:+.3f}"
    assert all(one["name"] in rows for one in found["components"])
    assert all(f"{one['index']:,}" in rows for one in found["neighbours"])
    labels = " ".join(filter(None, page.values("aria-label")))
    assert "4 by 4 positions" in labels and "nearest training examples" in labels
    assert page.tags.count("svg") == 6  # image, map, two polynomials, spreads, neighbours
    assert f"says {found['answer']}" in text
    # pictures inside of the page are data, which load nothing
    assert loads_nothing(text.replace("data:image/png", ""))


@pytest.mark.pages
def test_the_page_suits_every_screen(call, products, picture, tmp_path):
    out = tmp_path / "why.html"
    assert call("explain", products, picture, "--per-class", 20, "--out", out, "--quiet").code == 0
    assert faults(out) == []


def test_a_terminal_gets_the_tables(call, vinet, picture):
    done = call("explain", vinet, picture, "--data", "digits", "--per-class", 10, "--quiet")
    assert done.code == 0 and "The margin as a sum" in done.out
    assert "see the whole map at once" in done.out  # it is a global head
    assert "--out FILE.html" in done.out


def test_bad_input_to_explain_is_refused(call, refused, base, products, vinet, picture, tmp_path):
    assert "is not cut" in refused("explain", base, picture)
    assert "does not exist" in refused("explain", products, tmp_path / "no.png", "--quiet")
    assert "knows no class 'cat'" in refused(
        "explain", products, picture, "--against", "cat", "--quiet"
    )
    assert "is a folder" in refused("explain", products, picture, "--out", tmp_path)
    lone = tmp_path / "lone"
    open_network(products).network.save_pretrained(lone)
    assert "Pass --data" in refused("explain", lone, picture)
    linear = vinet / "baselines" / "linear-flat"
    message = refused("explain", linear, picture, "--data", "digits", "--quiet")
    assert "no sum of polynomials" in message


def test_data_that_moved_is_asked_for(call, refused, base, picture, tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image")
    monkeypatch.chdir(tmp_path)
    for name, shade in (("dark", 20), ("bright", 220)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(8):
            pixels = image.new("L", (8, 8), shade + number)
            pixels.save(tmp_path / "images" / name / f"{number}.png")
    short = ["--data", "images", "--epochs", 1, "--quiet"]
    assert call("train", "--model", "digits_cnn", *short, "--out", "base").code == 0
    assert call("build", "base", *short, "--cut", "pool", "--out", "net").code == 0
    file = "images/dark/0.png"
    assert call("explain", "net", file, "--quiet").code == 0
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    told = refused("explain", "net", "elsewhere/dark/0.png", "--quiet")
    assert "was built on --data images, which is not found" in told and "Pass --data" in told
    moved = ["elsewhere/dark/0.png", "--data", "elsewhere", "--quiet"]
    assert call("explain", "net", *moved).code == 0
