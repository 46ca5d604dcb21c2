"""What is said to be supported was tried: the rows, and the results that are kept."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from matrix.environments import CORE, OLDEST, QUICK, ROWS, Row, Unavailable, tried

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LEAST = dict(re.match(r"([\w-]+)>=(.+)", one).groups() for one in PROJECT["dependencies"])
FOUND = json.loads((ROOT / "benchmarks" / "results" / "matrix.json").read_text())["rows"]


def test_the_oldest_versions_are_the_least_that_the_project_allows():
    pins = dict(pin.split("==") for pin in OLDEST)
    for name, version in LEAST.items():
        if name != "torch":
            assert pins[name].startswith(f"{version}.")


@pytest.mark.parametrize("package", ["torch", "numpy"])
def test_the_least_versions_passed(package):
    passed = [row[package] for row in FOUND if row["outcome"] == "passed"]
    assert any(version.startswith(f"{LEAST[package]}.") for version in passed)


def test_the_first_and_the_last_python_passed_and_nothing_failed():
    known = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c]
    passed = {row["python"].rpartition(".")[0] for row in FOUND if row["outcome"] == "passed"}
    assert {known[0], known[-1]} <= passed
    assert [row["row"] for row in FOUND] == [row.name for row in ROWS]
    assert all(re.match("passed|not tried: .+", row["outcome"]) for row in FOUND)


def test_tests_that_are_run_are_there():
    assert all((ROOT / "tests" / name).exists() for name in CORE + QUICK)


def test_an_interpreter_that_is_not_there_is_told(tmp_path):
    (tmp_path / "root").mkdir()
    for name in ("tests", "benchmarks"):
        (tmp_path / "root" / name).mkdir()
    (tmp_path / "root" / "pyproject.toml").touch()
    with pytest.raises(Unavailable, match=r"no python9\.9 here"):
        tried(Row("none", "9.9"), tmp_path / "x.whl", tmp_path / "root", tmp_path / "work")
