"""The package does not grow: nothing that is counted here exceeds its ceiling.

A commit that gets below a ceiling lowers it; it is raised only in a commit that says why.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "vinets"
CEILINGS = {
    "lines": 37_929,
    "files": 192,
    "private functions that are called once": 131,
    "dataclasses": 187,
    "classes named by a gerund or participle alone": 2,
    "global statements": 1,
    "comments that begin with 'of'": 0,
    "constants named by a size word alone": 0,
}
PARTICIPLE = re.compile(r"_?[A-Z][a-z]*(ing|(?<!e)ed)")  # Collecting or Opened, but not Speed
SIZE_WORD = re.compile(
    "_?(SMALL|LARGE|FEW|MANY|LONG|SHORT|QUICK|SLOW|FAST|CLOSE|NEAR|NEAREST|FAR|MOST|LEAST|HIGH|LOW|BIG|"
    "TINY|STRONG|MOSTLY|ENOUGH|MUCH|LITTLE|FINE|BUSY|SAFER|KEPT)"
)
OF = re.compile(r"(?:^|\s)# of\b", re.IGNORECASE | re.MULTILINE)


def kinds_in(node: ast.AST) -> Iterator[str]:
    """Yield the ceilings that a node counts for."""
    if isinstance(node, ast.Global):
        yield "global statements"
    if isinstance(node, ast.ClassDef):
        if PARTICIPLE.fullmatch(node.name):
            yield "classes named by a gerund or participle alone"
        if any("dataclass" in ast.unparse(each) for each in node.decorator_list):
            yield "dataclasses"


def size_words(tree: ast.Module) -> Iterator[str]:
    """Yield the constants of a module that do not say what they bound."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = [name for target in targets if target is not None for name in ast.walk(target)]
        yield from (n.id for n in names if isinstance(n, ast.Name) and SIZE_WORD.fullmatch(n.id))


def called_once(nodes: list[ast.AST]) -> int:
    """Count the private functions and methods that their module names once, and calls there."""
    uses, called = Counter[str](), set[str]()
    for node in nodes:
        if isinstance(node, ast.Name):
            uses[node.id] += 1
        elif isinstance(node, ast.Attribute):
            uses[node.attr] += 1
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            func = node.func
            called.add(func.id if isinstance(func, ast.Name) else func.attr)
    defined = (node.name for node in nodes if isinstance(node, ast.FunctionDef))
    private = [name for name in defined if name.startswith("_") and not name.startswith("__")]
    return sum(uses[name] == 1 and name in called for name in private)


@pytest.fixture(scope="module")
def counts() -> Counter[str]:
    found = Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        found["files"] += 1
        found["lines"] += len(text.splitlines())
        found["comments that begin with 'of'"] += len(OF.findall(text))
        found["constants named by a size word alone"] += len([*size_words(tree)])
        found["private functions that are called once"] += called_once(nodes)
        found.update(kind for node in nodes for kind in kinds_in(node))
    assert found["files"]  # else nothing was counted
    return found


@pytest.mark.parametrize("name", list(CEILINGS))
def test_the_package_does_not_grow(counts, name):
    assert counts[name] <= CEILINGS[name], (
        f"src/vinets has {counts[name]:,} {name}; the ceiling is {CEILINGS[name]:,}. Take "
        "something out: the ceiling only moves in a commit that says why."
    )
