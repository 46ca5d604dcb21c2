from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import vinets
from vinets.cli.app import app
from vinets.oracles import ORACLES
from vinets.paper.plan import EXPERIMENTS

OPTIONS = {
    "train": "model recipe data out epochs batch-size learning-rate weight-decay schedule "
    "label-smoothing precision validation seed device",
    "cuts": "data shape match weights json",
    "build": "data cut head out algorithm psi max-degree oracle tau components order keep "
    "monomials per-class epochs views distill temperature baselines batch",
    "evaluate": "data weights part json",
    "bench": "batch-sizes repeats amp compile threads",
    "predict": "top device json",
    "explain": "data against top neighbours per-class out json",
    "export": "out format opset",
    "theory": "cut weights shape data vinet components tau constant out json",
    "reproduce": "data weights out seeds quick on jobs cluster json",
    "report": "out title json",
    "ideal": "label algorithm psi max-degree scale normalization border variable-order oracle "
    "tau all out json",
}


def test_the_help_lists_every_command_and_the_version_is_told(call):
    text = call("--help").out
    assert all(f" {name} " in text for name in OPTIONS)
    assert call("--version").out == f"vinets {vinets.__version__}\n"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("vinets pre", "predict"),
        ("vinets train --rec", "--recipe"),
        ("vinets train --recipe dig", "digits-cnn"),
    ],
)
def test_the_shell_completes(words, completed):
    """As bash asks, in a process of its own."""
    asked = {"_VINETS_COMPLETE": "complete_bash", "COMP_WORDS": words}
    asked["COMP_CWORD"] = str(len(words.split()) - 1)
    done = subprocess.run(
        [sys.executable, "-m", "vinets"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
    )
    assert completed in done.stdout.split()


@pytest.mark.parametrize("command", OPTIONS)
def test_the_help_of_a_command_has_an_example_and_its_options(call, command):
    done = call(command, "--help")
    assert done.code == 0
    assert f"vinets {command} " in done.out.split("Example:")[1]
    assert [name for name in OPTIONS[command].split() if f"--{name}" not in done.out] == []


def test_the_help_and_the_page_name_every_experiment(call):
    told = re.sub(r"[\s│]", "", call("reproduce", "--help").out)  # lines of a box, joined
    page = (Path(__file__).parents[2] / "docs" / "reproduction.md").read_text()
    assert [name for name in EXPERIMENTS if name not in told or f"| `{name}` |" not in page] == []


def test_what_is_registered_is_named_and_no_marker_is_left(call):
    for command in OPTIONS:
        assert not re.search(r"\{[a-z ]+\}", call(command, "--help").out.split("\n", 2)[2]), command
    assert f"{', '.join(ORACLES)} or exact" in call("build", "--help").out


def test_the_program_imports_neither_torch_nor_numpy_before_a_command_runs():
    script = (
        "import sys; from typer.testing import CliRunner; from vinets.cli.app import app;"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0;"
        "assert not {'torch', 'numpy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_prediction_does_not_import_the_compiler_of_torch():
    """Heads have a kernel for compiled networks, and torch._dynamo takes seconds to import."""
    script = (
        "import sys, vinets.heads; from vinets.cli.app import app;"
        "app(['predict', 'vinets/digits-cnn-best', '--device', 'cpu'], standalone_mode=False);"
        "assert 'torch' in sys.modules and 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "vinets", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"vinets {vinets.__version__}\n"


@pytest.mark.parametrize(
    "name",
    [
        "train",
        "cuts",
        "build",
        "evaluate",
        "bench",
        "predict",
        "explain",
        "export",
        "ideal",
        "theory",
    ],
)
def test_every_command_takes_the_common_options(call, name):
    text = call(name, "--help").out
    assert all(option in text for option in ("--json", "--seed", "--device"))


def test_every_command_can_be_quiet(call):
    for name in get_command(app).commands:
        assert "--quiet" in call(name, "--help").out, name
