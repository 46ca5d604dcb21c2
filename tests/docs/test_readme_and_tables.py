"""Numbers in the README and the documentation are those of the committed raw results."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from pages import ReadPage, loads_nothing

from benchmarks.tables import PAGES, fill
from vinets import OAVI
from vinets.heads import ProductsHead
from vinets.paper.page import read_results
from vinets.report.figures import figure_data
from vinets.report.numbers import cell, paper_cell

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_tables_are_rendered_from_the_raw_results(page):
    assert fill(page.read_text()) == page.read_text()


def test_the_page_in_the_repository_holds_its_results():
    folder = ROOT / "benchmarks" / "results" / "paper"
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = ReadPage(text)
    rows = set(map(tuple, page.rows))
    for result in read_results(folder):
        for table in result.tables:
            for row in table.rows:
                wanted = [cell(column, row) for column in table.columns]
                papers = [paper_cell(column, row) for column in table.columns]
                assert any(
                    all(map(_shows, found, wanted, papers))
                    for found in rows
                    if len(found) == len(wanted)
                ), (table.id, wanted)
        for figure in result.figures:
            assert f"{result.experiment}:{figure.id}" in page.values("id")
            data = figure_data(figure)
            for row in data.rows:
                assert tuple(cell(column, row) for column in data.columns) in rows, figure.id
    assert loads_nothing(text)
    assert "benchmarks/results/paper/report.html" in (ROOT / "README.md").read_text()


def _shows(text: str, ours: str, paper: str) -> bool:
    return text == ours if not paper else text.startswith(f"{ours} {paper}")


def test_on_an_index_the_readme_links_to_nothing_that_is_not_there(monkeypatch):
    """hatchling, which calls it, is only there while a wheel is built."""
    interface = ModuleType("interface")
    interface.MetadataHookInterface = object
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    made = runpy.run_path(str(ROOT / ".ci" / "readme.py"))["for_an_index"]
    text = (ROOT / "README.md").read_text()
    shown = made(text)
    links = re.findall(r"\]\(([^)]*)\)", shown)
    assert all(link.startswith("https://") for link in links)
    paths = {link for link in re.findall(r"\]\(([^)]*)\)", text) if "://" not in link}
    assert paths and all((ROOT / path).exists() and f"`{path}`" in shown for path in paths)
    assert "![" not in shown and shown.startswith("# vinets\n")


def run_python(page: str) -> dict:
    """Run the Python of a page, block after block, and return the names that it leaves."""
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL):
        exec(compile(block, page, "exec"), names)
    return names


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_python_of_the_readme_runs(capsys, tmp_path):
    names = run_python("README.md")
    assert (tmp_path / "out" / "vinet" / "config.json").is_file()
    assert names["report"].generators_kept == 10 * names["sizes"]["keep"]
    assert str(names["net"].polynomials(label=0)[0]) in capsys.readouterr().out


def test_the_polynomial_of_the_readme_is_what_comes_out():
    angle = np.linspace(0, 2 * np.pi, 50, endpoint=False)
    circle = 0.9 * np.c_[np.cos(angle), np.sin(angle)]
    found = str(OAVI(psi=0, oracle="exact", max_degree=2).fit(circle).generators_)
    assert found == "x1^2 + x0^2 - 0.81" and found in (ROOT / "README.md").read_text()


def test_the_python_of_the_page_on_tuning_makes_a_product_head(capsys, monkeypatch):
    short = {**ProductsHead.training_defaults, "epochs": 1}
    monkeypatch.setattr(ProductsHead, "training_defaults", short)
    net = run_python("docs/tuning.md")["net"]
    assert net.head.kind == "products" and net.record.notes["tuned"] == "backbone"
    assert "x0" in capsys.readouterr().out


def test_the_python_of_the_page_on_modules_runs(capsys, tmp_path):
    names = run_python("docs/modules.md")
    assert names["features"].ndim == 2 and len(names["features"]) == len(names["images"])
    assert names["net"].record.preprocessing["mean"] == [0.3] and (tmp_path / "out/net").is_dir()


def test_the_python_of_the_page_on_compressing_finds_a_network(capsys):
    names = run_python("docs/compress.md")
    assert names["found"].network is not names["model"]
    assert "parameters" in capsys.readouterr().out


def test_the_python_of_the_page_on_theory_runs(capsys):
    names = run_python("docs/theory.md")
    assert names["gap"].abs().max() < 1e-9
    assert names["corollary"].ratio(0.5) > 0
    assert names["found"].advice.sentence in capsys.readouterr().out


def test_the_python_of_the_page_on_distances_runs(capsys):
    names = run_python("docs/distance.md")
    nearest = names["net"].distance(names["x"]).argmin(1)
    assert (nearest == names["y"]).double().mean() > 0.8
    assert "held out" in capsys.readouterr().out
