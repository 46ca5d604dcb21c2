"""Read notebooks as pages: text and code as they stand, with the outputs that were saved."""

from __future__ import annotations

import json
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.application import Sphinx


class NotebookParser(MystParser):
    """MyST for the Markdown that a notebook becomes."""

    supported = ("notebook",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        cells = json.loads(inputstring)["cells"]
        super().parse("\n\n".join(part for cell in cells for part in _parts(cell)), document)


def _parts(cell: dict[str, Any]) -> list[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [text]
    return [f"```python\n{text}\n```", *(_output(one) for one in cell["outputs"])]


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text']).rstrip()}\n```"
    data = output["data"]
    caption = "".join(data["text/plain"])
    return f"![{caption}](data:image/png;base64,{data['image/png'].strip()})"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_source_suffix(".ipynb", "notebook")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}
