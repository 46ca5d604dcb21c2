"""Numbers in the README and the documentation are those of the committed raw results."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.tables import PAGES, fill  # noqa: E402


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_tables_are_rendered_from_the_raw_results(page):
    assert fill(page.read_text()) == page.read_text()


def test_the_python_of_the_readme_runs(capsys):
    text = (ROOT / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    exec(compile(block, "README.md", "exec"), names)
    assert capsys.readouterr().out.strip() == "x1^2 + x0^2 - 0.81"
    assert names["features"].shape[0] == 50
