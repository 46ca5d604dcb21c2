"""Numbers in the README and the documentation are those of the committed raw results."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.tables import PAGES, fill  # noqa: E402
from vinets import OAVI  # noqa: E402
from vinets.report import results_page  # noqa: E402


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_tables_are_rendered_from_the_raw_results(page):
    assert fill(page.read_text()) == page.read_text()


def test_the_page_in_the_repository_is_made_from_its_results():
    folder = ROOT / "benchmarks" / "results" / "paper"
    made = results_page(folder, title="The paper's results, repeated")
    assert made == (folder / "report.html").read_text(encoding="utf-8")
    assert "benchmarks/results/paper/report.html" in (ROOT / "README.md").read_text()


def test_the_python_of_the_readme_runs(capsys, tmp_path, monkeypatch):
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "out" / "vinet" / "config.json").is_file()
    assert names["report"].generators_kept == 160
    assert "tensor(" in capsys.readouterr().out


def test_the_polynomial_of_the_readme_is_what_comes_out():
    angle = np.linspace(0, 2 * np.pi, 50, endpoint=False)
    circle = 0.9 * np.c_[np.cos(angle), np.sin(angle)]
    found = str(OAVI(psi=0, oracle="exact", max_degree=2).fit(circle).generators_)
    assert found == "x1^2 + x0^2 - 0.81" and found in (ROOT / "README.md").read_text()


def test_the_python_of_the_page_on_theory_runs(capsys):
    text = (ROOT / "docs" / "theory.md").read_text()
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, "theory.md", "exec"), names)
    assert names["gap"].abs().max() < 1e-9
    assert names["corollary"].ratio(0.5) > 0
    assert "largest tau with kappa <= 1" in capsys.readouterr().out
