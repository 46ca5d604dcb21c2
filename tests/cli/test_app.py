from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import vinets
from vinets.cli.build import build
from vinets.cli.train import SHOWN, recipe_for
from vinets.experiments.reproduce import EXPERIMENTS
from vinets.pipeline import build as build_network
from vinets.pipeline import collect
from vinets.training import BACKBONE, Recipe

OPTIONS = {
    "train": "model data out epochs batch-size learning-rate weight-decay schedule "
    "label-smoothing precision validation seed device",
    "cuts": "data shape match weights json",
    "build": "data cut preset out algorithm psi max-degree oracle tau placement components keep "
    "monomials per-class epochs views distill temperature baselines batch",
    "evaluate": "data weights part json",
    "bench": "batch-sizes repeats amp compile threads",
    "predict": "top device json",
    "export": "out format opset",
    "theory": "cut weights shape data vinet components tau constant out json",
    "reproduce": "data weights out seeds quick backbone jobs json",
    "report": "out title json",
    "ideal": "label algorithm psi max-degree scale normalization border variable-order oracle "
    "tau all out json",
}


def test_the_help_lists_every_command_and_the_version_is_told(call):
    text = call("--help").out
    assert all(f" {name} " in text for name in OPTIONS)
    assert call("--version").out == f"vinets {vinets.__version__}\n"


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


def test_defaults_of_build_are_those_of_the_library():
    ours = {name: p.default for name, p in inspect.signature(build).parameters.items()}
    theirs = {f.name: f.default for f in fields(Recipe)}
    for function in (collect, build_network):
        found = inspect.signature(function).parameters
        theirs |= {
            name: p.default
            for name, p in found.items()
            if name != "batch_size" and p.kind is inspect.Parameter.KEYWORD_ONLY
        }
    # written as text, in other units, or chosen anew for the command line
    theirs["per_class"] = str(theirs["per_class"])
    theirs["memory_limit"] /= 2**30
    theirs["distill"] = theirs["distillation"]
    theirs |= {"keep": None, "monomials": None, "weight_decay": None, "device": "auto"}
    shared = ours.keys() & theirs.keys()
    assert len(shared) > 20
    assert {name: ours[name] for name in shared} == {name: theirs[name] for name in shared}


@pytest.mark.parametrize("name", SHOWN)
def test_defaults_in_the_help_of_train_are_those_of_the_recipes(name):
    whole, _, small = SHOWN[name].partition("; ")
    kind = type(getattr(BACKBONE, name))
    assert kind(whole) == getattr(recipe_for("resnet18", 0), name) == getattr(BACKBONE, name)
    value = getattr(recipe_for("digits_cnn", 0), name)
    assert kind(small.removesuffix(" for digits_cnn") or whole) == value


def test_the_program_imports_neither_torch_nor_numpy_before_a_command_runs():
    script = "import sys, vinets.cli; assert not {'torch', 'numpy'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "vinets.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"vinets {vinets.__version__}\n"


@pytest.mark.parametrize(
    "name",
    ["train", "cuts", "build", "evaluate", "bench", "predict", "export", "ideal", "theory", "demo"],
)
def test_every_command_takes_the_common_options(call, name):
    text = call(name, "--help").out
    assert all(option in text for option in ("--json", "--seed", "--device"))
