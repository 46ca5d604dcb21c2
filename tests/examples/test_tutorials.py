"""Tutorials run, with fewer epochs, and the notebooks made from them hold their code."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))

from make_notebooks import TUTORIALS, cells_of, run  # noqa: E402

from vinets.heads import HEADS  # noqa: E402
from vinets.testing.heads import HeadContract  # noqa: E402

# What makes a tutorial short. Each has to be there, or the test is slow and nobody knows why.
SHORTER = {
    "own_network": {"cuts=2, epochs=18": "cuts=1, epochs=2", "range(10)": "range(2)"},
    "polynomials": {},
    "paper": {"EPOCHS = 12": "EPOCHS = 1", '("relu1", "relu2", "pool", "relu3")': '("relu3",)'},
    "own_head": {"EPOCHS = 10": "EPOCHS = 1"},
}


def cells(name: str) -> list[tuple[str, str]]:
    return cells_of((ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8"))


def printed(name: str) -> str:
    """What a tutorial prints in its short form."""
    text = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    for long, short in SHORTER[name].items():
        assert text.count(long) == 1, long
        text = text.replace(long, short)
    outputs = run(cells_of(text), name)
    return "".join(line for cell in outputs for one in cell for line in one.get("text", ()))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(HEADS, "_entries", dict(HEADS))  # other tests know no head of a tutorial


def test_every_tutorial_has_a_test():
    assert set(TUTORIALS) == set(SHORTER)


def test_compressing_an_own_network_gives_one_that_can_be_loaded(tmp_path):
    found = printed("own_network")
    assert re.search(r"has [\d,]+ parameters", found) and "| uncut |" in found
    assert (tmp_path / "out" / "my-small-net" / "model.safetensors").is_file()


def test_polynomials_of_a_circle_and_a_sphere_are_their_equations(tmp_path):
    found = printed("polynomials").splitlines()
    assert found[:2] == ["x0^2 + x1^2 - 0.81", "x0^2 + x1^2 + x2^2 - 0.81"]
    assert (tmp_path / "out" / "polynomials" / "classes.png").is_file()


def test_the_paper_is_repeated_with_every_head(tmp_path):
    found = re.findall(r"^relu3 +(.*?) +([\d.]+) %$", printed("paper"), flags=re.MULTILINE)
    assert found[0][0] == "VI-Net" and len(found) == 4
    assert all(0 <= float(value) <= 100 for _, value in found)


def test_an_own_head_stands_in_the_comparison_and_is_loaded_again():
    found = printed("own_head")
    assert re.search(r"^hyperplanes +[\d,]+ in the head", found, flags=re.MULTILINE)
    assert "True Hyperplanes" in found


class TestHyperplanes(HeadContract):
    """The head of the tutorial passes what it says it passes."""

    def make(self):
        (code,) = (text for kind, text in cells("own_head") if "class Hyperplanes" in text)
        imports = next(text for kind, text in cells("own_head") if kind == "code")
        exec(imports + "\n\n" + code, {"__name__": __name__})
        return HEADS["hyperplanes"](6, 3, width=8)


@pytest.mark.parametrize("name", TUTORIALS)
def test_notebooks_hold_the_code_of_the_scripts(name):
    notebook = json.loads((ROOT / "docs" / "tutorials" / f"{name}.ipynb").read_text("utf-8"))
    held = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert held == cells(name), "run python docs/make_notebooks.py"
