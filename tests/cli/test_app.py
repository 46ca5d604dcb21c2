from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from program import python, run

import vinets
from vinets.cli import app
from vinets.cli.app import COMMANDS, parse, sentence
from vinets.paper.plan import EXPERIMENTS

DOCS = Path(__file__).parents[2] / "docs"
OPTIONS = {
    "train": "model recipe data out epochs batch-size learning-rate weight-decay schedule "
    "label-smoothing precision validation seed device",
    "cuts": "data shape match weights all seed device",
    "build": "data cut head out algorithm psi max-degree oracle tau components order keep "
    "monomials per-class epochs views distill temperature baselines batch half seed device wait",
    "compress": "data budget out epochs cuts limit int8 despite-doubt dry-run classes "
    "jobs cluster flip crop wait",
    "evaluate": "data weights part classes size split-seed mean std seed device",
    "bench": "batch-sizes repeats seconds amp compile threads seed device",
    "predict": "top batch-size seed device",
    "ood": "data ood layers per-class count seed device",
    "explain": "data against top neighbours per-class out seed device",
    "export": "out format opset calibration most-lost data seed device",
    "theory": "cut weights shape data examples vinet components per-class monomials tau constant "
    "out seed device",
    "reproduce": "data weights out seeds quick on jobs cluster device wait",
    "report": "out title",
    "ideal": "label algorithm psi max-degree scale normalization border variable-order oracle "
    "tau all out first samples seed device",
}
TRAIN = "train --model digits_cnn --data digits --out o"
BUILD = "build net --data digits --cut relu3 --out o"
REFUSED = {
    "trian": 'Unknown command "trian". Did you mean "train"?',
    "demo": "vinets demo is no command any more. Run vinets reproduce all --on digits",
    "train --model digits_cnn --data digits": "--out is missing. Folder for the network.",
    f"{TRAIN} --epoch 3": "Unknown option: --epoch. Did you mean --epochs?",
    f"{TRAIN} --epochs": "--epochs must be followed by a value.",
    f"{TRAIN} --validation 1.5": "--validation must be a number in [0, 1). Got '1.5' instead.",
    f"{TRAIN} --mean half": "--mean must be numbers with commas in between, one per channel",
    f"{TRAIN} --vanish 1": "Unknown option: --vanish.",
    "build --data digits --cut relu3 --out o": "MODEL is missing. A folder of vinets train",
    "build net --data digits --out o": "--cut is missing. Name or index of a cut",
    f"{BUILD} --head both": "There is no head 'both'. There are: ",
    f"{BUILD} --psi 1.5": "--psi must be a number in [0, 1). Got '1.5' instead.",
    f"{BUILD} --train all": "--train must be 'classifier', 'coefficients', 'backbone' or 'last:N'",
    f"{BUILD} --factors=3": "--factors is an option of other heads: products. Leave it out, or "
    "pass --head products.",
    f"{BUILD} --head products --factors 6": "--factors must be an integer from 1 to 5. Got '6'",
    f"{BUILD} --head products --max-degree 2": "--max-degree is an option of other heads: "
    "vanishing, local. Leave it out, or pass --head vanishing.",
    f"{BUILD} --head closed --keep 4": "--keep is an option of other heads: vanishing, local.",
    "compress net --data digits --out o": "--budget is missing. What may be lost",
    "evaluate net": "--data is missing. 'digits', 'cifar10:DIR'",
    "evaluate net --data digits --batch-size 0": "--batch-size must be a positive integer. Got '0'",
    "cuts net --shape 0,1": "--shape must be positive integers with commas in between, such as",
    "bench net --batch-sizes 1,,4": "--batch-sizes must be positive integers with commas",
    "ood net --data digits --ood noise --count 7": "--count must be an integer of at least 8.",
    "theory net --cut relu2 --tau 0": "--tau must be a positive, finite number. Got '0' instead.",
    "ideal x.csv y.csv": "No argument is left for 'y.csv'.",
    "report results --seed 1": "Unknown option: --seed.",
}


def page_of_lines() -> list[tuple[str, str]]:
    """The old and the new lines that the page on 0.2 sets side by side, where both are whole."""
    text = (DOCS / "from_0_2.md").read_text(encoding="utf-8").split("## In Python")[0]
    rows = re.findall(r"^\| `vinets (.*?)`.* \| `vinets (.*?)`", text, re.MULTILINE)
    assert len(rows) >= 6
    return rows


@pytest.mark.parametrize(("line", "message"), REFUSED.items())
def test_a_line_that_is_wrong_is_refused_before_any_work_in_one_sentence(refused, line, message):
    assert refused(*shlex.split(line)).startswith(f"Error: {message}")
    assert not Path("o").exists()


@pytest.mark.parametrize(("old", "new"), page_of_lines())
def test_lines_of_version_0_2_are_refused_with_a_hint_and_new_ones_are_taken(refused, old, new):
    told = refused(*shlex.split(old))
    assert " is no option any more. " in told or " is no command any more. " in told
    assert parse(shlex.split(new)).command.__name__ == new.split()[0]


def test_what_is_written_last_goes_first():
    arguments = parse(f"{BUILD} --cut 50% --cut -1 --psi 0.2 --psi 0.3".split()).bound.arguments
    assert (arguments["cut"], arguments["options"]) == (-1, {"psi": 0.3})
    assert parse(["bench", "a", "b", "--shape", "3,32,32"]).bound.arguments["shape"] == (3, 32, 32)


def test_the_help_lists_every_command(call):
    text = call("--help").out
    assert all(re.search(rf" {name} +[A-Z]", text) for name in OPTIONS)
    assert {*OPTIONS} == {name for names in COMMANDS.values() for name in names}
    assert run()[:2] == (2, text)


@pytest.mark.parametrize("command", OPTIONS)
def test_the_help_of_a_command_has_an_example_and_its_options(call, command):
    done = call(command, "--help")
    assert done.err == "" and f"vinets {command} " in done.out.split("Example:")[1]
    names = [*OPTIONS[command].split(), "json", "quiet", "config"]
    assert [name for name in names if not re.search(rf"--{name}\b", done.out)] == []
    assert not re.search(r"\{[a-z ]+\}", done.out)
    assert ("─ Arguments ─" in done.out) == (command != "train")
    assert run(command)[:2] == (2, done.out)


def test_the_page_names_every_experiment():
    page = (DOCS / "reproduction.md").read_text()
    assert [name for name in EXPERIMENTS if f"| `{name}` |" not in page] == []


def test_options_of_heads_are_none_of_an_uncut_network(call):
    text = call("train", "--help").out
    for flag in ("--train ", "--vanish", "--backbone-rate", "--views", "--distill"):
        assert flag not in text
    assert "90; 15 for digits_cnn" in text and "99.0" in text  # what to expect of a recipe


def test_the_version_is_told_with_what_a_report_of_a_fault_needs(call):
    first, *facts = call("--version").out.splitlines()
    assert first == f"vinets {vinets.__version__}"
    text = "\n".join(facts)
    assert f"torch {torch.__version__}" in text and "scikit-learn 1." in text
    for part in ("bfloat16 is", "cores: ", "threads of torch: ", "OMP_WAIT_POLICY: "):
        assert part in text


def test_help_imports_neither_torch_nor_numpy():
    script = (
        "import sys; from vinets.cli.app import run\n"
        "for words in (['--help'], ['train', '--help'], ['theory', '-h'], ['report', '--help']):\n"
        "    assert run(words) == 0\n"
        "assert not {'torch', 'numpy', 'sklearn'} & sys.modules.keys()"
    )
    python(script)


def test_a_prediction_does_not_import_the_compiler_of_torch():
    """Heads have a kernel for compiled networks, and torch._dynamo takes seconds to import."""
    script = (
        "import sys, vinets.heads; from vinets.cli.app import run;"
        "run(['predict', 'vinets/digits-cnn-products', '--device', 'cpu']);"
        "assert 'torch' in sys.modules and 'torch._dynamo' not in sys.modules"
    )
    python(script)


def test_the_shell_completes(call):
    script = call("--show-completion", "bash").out
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert all(word in script for word in ("predict", "--recipe", "--install-completion"))
    assert "digits-cnn" in call("__complete", "train", "--recipe", "").out


# --- errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("psi is\n   too large."), "psi is too large."),
        (TypeError("an odd type"), "an odd type"),
        (FileNotFoundError("x.npy does not exist."), "x.npy does not exist."),
        (FileNotFoundError(2, "No such file or directory", "x"), "x: No such file or directory."),
        (PermissionError(13, "Permission denied", "x"), "x may not be read or written."),
        (ImportError('pip install "vinets[vision]"'), 'pip install "vinets[vision]"'),
        (torch.OutOfMemoryError("CUDA out of memory."), "The GPU ran out of memory."),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you"), "The memory of this"),
    ],
)
def test_what_may_happen_is_one_sentence_and_code_2(refused, error, text, monkeypatch):
    monkeypatch.setattr(app, "parse", lambda words: fail(error))
    assert refused("cuts").startswith(f"Error: {text}")
    monkeypatch.setenv("VINETS_TRACEBACK", "1")
    with pytest.raises(type(error)):
        app.run(["cuts"])


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("x"), AssertionError()])
def test_a_bug_keeps_its_traceback(error, monkeypatch):
    assert sentence(error) is None
    monkeypatch.setattr(app, "parse", lambda words: fail(error))
    with pytest.raises(type(error)):
        app.run(["cuts"])


def test_an_interruption_tells_how_to_go_on(monkeypatch):
    monkeypatch.setattr(app, "parse", lambda words: fail(KeyboardInterrupt()))
    told = "Stopped. Run the same command again: it goes on after the last step that was kept.\n"
    assert run("cuts") == (130, "", told)


def test_a_reader_that_has_seen_enough_ends_it_without_a_word():
    line = f"{sys.executable} -m vinets cuts digits_cnn --shape 1,8,8 --json | head -c 1"
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    done = subprocess.run(line, shell=True, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("{", "")
