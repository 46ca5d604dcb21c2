"""Pages document every public name, and what they tell readers to run works as printed."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from program import run
from scipy.special import softmax

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path[:0] = [str(DOCS), str(DOCS / "_ext")]

from check import faults  # noqa: E402


def documented() -> set[str]:
    """Names that the pages of the API ask autodoc for."""
    found: set[str] = set()
    for page in (DOCS / "api").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        found |= set(re.findall(r"^\.\. auto(?:class|function|data):: (\S+)", text, re.MULTILINE))
        for module, members in re.findall(
            r"^\.\. automodule:: (\S+)\n +:members:(.*)$", text, re.MULTILINE
        ):
            listed = members.split(",") if members.strip() else vars(sys.modules[module])
            found |= {f"{module}.{one.strip()}" for one in listed}
    return found


def test_every_public_name_is_on_a_page():
    pytest.importorskip("sphinx")
    from public_names import public_names, undocumented

    known = public_names()
    assert {"vinets.ABM", "vinets.heads.Head", "vinets.ideals.plot.plot_zero_sets"} <= known.keys()
    assert undocumented(documented()) == []
    left = documented() - {"vinets.compress", "vinets.ideals.plot.plot_generators"}
    assert undocumented(left) == [
        "vinets.compress",
        "vinets.ideals.plot.plot_generators",
        "vinets.search.compress",
    ]


def test_letters_and_brackets_of_formulas_are_what_browsers_show():
    pytest.importorskip("latex2mathml")
    from mathml import mathml

    found = mathml(r"\mathbb R^n, \mathcal O, \mathcal L, \mathbf W, \mathbf s")
    assert all(letter in found for letter in "ℝ𝒪ℒ𝐖𝐬") and "mathvariant" not in found
    sized = mathml(r"\Bigl(\sum_i \lVert x_i \rVert\Bigr)^{2/3}")
    assert sized == mathml(r"\left(\sum_i \lVert x_i \rVert\right)^{2/3}")
    assert sized.count('stretchy="true"') == 2 and sized.count('stretchy="false"') == 2


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<h1 id="top">x</h1><a href="#top">a</a><a href="other.html#here">b</a>'
        '<a href="https://example.org">c</a><code class="xref py py-func">found.not</code>'
        '<a href="#top"><code class="xref py py-func">found.yes</code></a>'
    )
    (tmp_path / "other.html").write_text('<a href="gone.html">d</a><p id="there">e</p>')
    assert faults(tmp_path) == [
        "index.html: the reference found.not leads nowhere",
        "index.html: other.html#here is no anchor",
        "other.html: gone.html is no file",
    ]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_files_that_the_repository_links_to_are_there(page):
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8"))
    assert [one for one in links if "://" not in one and not (ROOT / one).exists()] == []


def _same_as_predicted(logits, classes):
    """What the page computes in onnxruntime is what vinets predicts for the same image."""
    done = run("predict", "out/small", "images/digit-3/3.png", "--json")
    top = done.json()["predictions"][0]["classes"][0]
    likely = softmax(logits[0])
    assert classes[logits[0].argmax()] == top["name"]
    assert likely.max() == pytest.approx(top["probability"], abs=1e-4)


def test_commands_of_the_quickstart_work_as_printed(tmp_path, monkeypatch):
    pytest.importorskip("PIL")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    # few images and epochs, for the test alone
    short = {"train": ["--epochs", "2"], "compress": ["--epochs", "2", "--cuts", "1", "--no-int8"]}
    blocks = re.findall(r"```(python|sh)\n(.*?)```", text, flags=re.DOTALL)
    names: dict = {}
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, "quickstart.md", "exec"), names)
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line)
            done = run(*words, *short.get(words[0], []))
            assert program == "vinets" and done.code == 0, (line, done.err)
    _same_as_predicted(names["logits"], names["classes"])
    assert (tmp_path / "out" / "small" / "report.html").is_file()
