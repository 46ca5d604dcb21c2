"""What a run writes is enough to repeat it."""

from __future__ import annotations

import tomllib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from vinets.cli.config import write_config

PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z-]*", fullmatch=True), PLAIN | st.lists(PLAIN)))
def test_what_is_written_is_read(tmp_path_factory, values):
    path = write_config(tmp_path_factory.mktemp("config"), "train", values, "1")
    assert tomllib.loads(path.read_text("utf-8")) == {"command": "train", "version": "1"} | values


def test_a_run_is_repeated_from_its_file(call, tmp_path):
    words = ["--data", "digits", "--epochs", "1", "--no-augment", "--seed", "3", "--quiet"]
    assert call("train", "--model", "digits_cnn", *words, "--out", tmp_path / "one").code == 0
    written = tmp_path / "one" / "run.toml"
    values = tomllib.loads(written.read_text())
    assert values["command"] == "train" and values["augment"] is False and values["seed"] == 3
    assert "quiet" not in values
    told = call("train", "--config", written, "--out", tmp_path / "two", "--json", "--quiet")
    one, two = (load_file(tmp_path / n / "weights.safetensors") for n in ("one", "two"))
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    assert told.json()["recipe"]["seed"] == 3


def test_arguments_and_lists_are_repeated_and_the_command_line_goes_before_them(
    call, base, build_options, tmp_path
):
    first, second = tmp_path / "one", tmp_path / "two"
    one = call("build", base, *build_options, "--out", first, "--json", "--quiet").json()
    values = tomllib.loads((first / "run.toml").read_text())
    assert values["model"] == str(base) and values["out"] == str(first)
    words = ("--config", first / "run.toml", "--out", second, "--json", "--quiet")
    two = call("build", *words).json()
    told = [found["comparison"]["networks"][0]["accuracies"] for found in (one, two)]
    assert told[0] == told[1]
    assert tomllib.loads((second / "run.toml").read_text()) == values | {"out": str(second)}
    plan = tmp_path / "plan.toml"
    plan.write_text(f"model = '{base}'\ndata = 'digits'\nbudget = ['drop=1', 'params=50%']\n")
    found = call("compress", "--config", plan, "--out", tmp_path / "no", "--dry-run", "--quiet")
    assert found.code == 0 and not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("command = 'build'", "is for vinets build, and this is vinets train"),
        ("epoch = 3", "has no option 'epoch'. Did you mean epochs"),
        ("[train]\nepochs = 3", "has no option 'train'"),
        ("[epochs]\nx = 3", "must be a value or a list of values"),
        ("epochs = ", "is not a TOML file"),
        ("epochs = 'many'", "epochs"),
    ],
)
def test_files_that_are_wrong_are_one_sentence(call, tmp_path, text, told):
    path = tmp_path / "run.toml"
    path.write_text(text)
    words = ["--model", "digits_cnn", "--data", "digits", "--out", tmp_path / "out"]
    found = call("train", "--config", path, *words)
    assert found.code == 2 and told in found.err and "Traceback" not in found.err
    assert not (tmp_path / "out").exists()
