"""What the pages on installing say is what the project's files say."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from vinets import pretrained
from vinets.core.settings import RECIPES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTALL, PRETRAINED = ((ROOT / "docs" / f"{p}.md").read_text() for p in ("install", "pretrained"))


def least(package: str) -> str:
    (found,) = (one for one in PROJECT["dependencies"] if re.match(rf"{package}\W", one))
    return found.partition(">=")[2]


def test_every_extra_is_explained():
    table = INSTALL.partition("## Extras")[2].partition("## ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert told == set(PROJECT["optional-dependencies"])


def test_versions_are_those_of_the_project():
    first = PROJECT["requires-python"].removeprefix(">=")
    known = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c]
    torch, numpy = (f"{name} {least(name)} or newer" for name in ("torch", "numpy"))
    assert known[0] == first
    assert f"Python {first} to {known[-1]}, {torch}, and {numpy}." in INSTALL
    assert f"Python {first} or newer" in INSTALL


def test_core_dependencies_are_named():
    names = [re.match(r"[\w-]+", one)[0] for one in PROJECT["dependencies"]]
    assert f"{', '.join(names[:-1])} and {names[-1]}." in INSTALL


def test_networks_and_recipes_that_are_named_are_there():
    text = (ROOT / "README.md").read_text() + INSTALL + PRETRAINED
    known = set(pretrained.names())
    assert set(re.findall(r"vinets/[a-z][\w-]*\d?-[\w-]+", text)) <= known
    assert set(re.findall(r"--recipe ([\w-]+)", text)) == set(RECIPES)


def test_the_image_runs_the_demo_on_files_that_are_there():
    text = (ROOT / "Dockerfile").read_text()
    allowed = (ROOT / ".dockerignore").read_text().split()
    for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE):
        *sources, _ = line.split()
        for source in sources:
            assert (ROOT / source).exists() and f"!{source}" in allowed
    run = re.search(r'^CMD \["sh", "-c", "(.+)"\]$', text, re.MULTILINE)[1]
    makefile = (ROOT / "Makefile").read_text()
    made = re.findall(r"^\t\$\(BIN\)/(vinets .+out/demo.*)$", makefile, re.MULTILINE)
    assert [shlex.split(one) for one in run.split(" && ")] == [shlex.split(one) for one in made]


def test_the_image_is_what_its_linter_wants():
    linter = shutil.which("hadolint")
    if linter is None:
        pytest.skip("hadolint is not installed")
    subprocess.run([linter, ROOT / "Dockerfile"], check=True)


@pytest.mark.parametrize("script", ["run", "smoke"])
def test_scripts_are_bash(script):
    linter = ["shellcheck"] if shutil.which("shellcheck") else ["bash", "-n"]
    subprocess.run([*linter, ROOT / ".ci" / script], check=True)
