"""Run the tutorials in examples/ and write them as notebooks, with their outputs and pictures.

    python docs/make_notebooks.py            # those whose code has changed; texts of all
    python docs/make_notebooks.py paper      # one, again

A tutorial is a Python script in which `# %% [markdown]` begins text and `# %%` code. The notebooks
are committed, since some outputs take seconds to make; a test holds them against the scripts.
"""

from __future__ import annotations

import base64
import io
import json
import re
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TUTORIALS = ("own_network", "polynomials", "paper", "own_head")
DOTS_PER_INCH = 70


def cells_of(script: str) -> list[tuple[str, str]]:
    """Pairs (kind, source) of a script, kinds being "markdown" and "code"."""
    found = []
    for block in re.split(r"^# %%", script, flags=re.MULTILINE)[1:]:
        mark, _, body = block.partition("\n")
        if mark.strip() == "[markdown]":
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().split("\n")]
            found.append(("markdown", "\n".join(lines)))
        else:
            found.append(("code", body.strip()))
    return found


def notebook_of(
    cells: list[tuple[str, str]], outputs: list[list[dict[str, Any]]]
) -> dict[str, Any]:
    """The notebook, with the outputs of each code cell in turn."""
    made: list[dict[str, Any]] = []
    left = iter(outputs)
    for number, (kind, source) in enumerate(cells):
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell["source"] = source.splitlines(keepends=True)
        if kind == "code":
            cell |= {"execution_count": None, "outputs": next(left)}
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def run(cells: list[tuple[str, str]], name: str) -> list[list[dict[str, Any]]]:
    """Run the code cells in one namespace; what each printed and drew."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names: dict[str, Any] = {"__name__": "__main__"}
    found = []
    for kind, source in cells:
        if kind != "code":
            continue
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(source, f"{name}.py", "exec"), names)
        outputs: list[dict[str, Any]] = []
        if text := printed.getvalue():
            lines = text.splitlines(keepends=True)
            outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
        for number in pyplot.get_fignums():
            outputs.append(_picture(pyplot.figure(number)))
        pyplot.close("all")
        found.append(outputs)
    return found


def kept(path: Path, cells: list[tuple[str, str]]) -> list[list[dict[str, Any]]] | None:
    """Outputs of the notebook that is there, if they are those of this code."""
    if not path.is_file():
        return None
    code = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if "outputs" in cell]
    same = ["".join(cell["source"]) for cell in code] == [
        text for kind, text in cells if kind == "code"
    ]
    return [cell["outputs"] for cell in code] if same else None


def _picture(figure: Any) -> dict[str, Any]:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    titles = "; ".join(title for ax in figure.axes if (title := ax.get_title()))
    shown = {
        "image/png": base64.b64encode(data.getvalue()).decode(),
        "text/plain": titles or "Figure",
    }
    return {"output_type": "display_data", "metadata": {}, "data": shown}


def main(wanted: list[str]) -> None:
    for name in wanted or TUTORIALS:
        cells = cells_of((ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8"))
        path = ROOT / "docs" / "tutorials" / f"{name}.ipynb"
        outputs = None if name in wanted else kept(path, cells)
        if outputs is None:
            with tempfile.TemporaryDirectory() as folder, chdir(folder):
                outputs = run(cells, name)
        notebook = notebook_of(cells, outputs)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
