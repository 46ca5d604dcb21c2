"""What a run writes is enough to repeat it."""

from __future__ import annotations

import tomllib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from vinets.cli.app import parse
from vinets.cli.parameters import given_options, write_run

PLAIN = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z-]*", fullmatch=True), PLAIN | st.lists(PLAIN)))
def test_what_is_written_is_read(tmp_path_factory, values):
    path = write_run(tmp_path_factory.mktemp("config"), "train", values, "1")
    assert tomllib.loads(path.read_text("utf-8")) == {"command": "train", "version": "1"} | values


@pytest.mark.parametrize(
    "line",
    [
        "train --model digits_cnn --data digits --out o --epochs 1 --no-augment --mean 0.5,0.25 -q",
        "build net --data digits --cut pool --out o --keep 50% --max-degree all --tau inf --half",
        "build net --data digits --cut -1 --out o --head products --factors 3 --no-nesterov",
        "compress net --data digits --budget drop=1 --budget params=50% --out o --no-int8 --flip",
        "reproduce all claims --on digits --seeds 1 --quick --out o",
        "bench a b --batch-sizes 1,4 --threads 2 --amp",
    ],
)
def test_a_file_stands_for_the_line_that_it_was_written_for(tmp_path, line):
    words = line.split()
    call = parse(words)
    path = write_run(tmp_path, words[0], given_options(call.arguments), "1")
    again = parse([words[0], "--config", str(path)])
    ours, theirs = call.bound.arguments, again.bound.arguments
    assert [key for key in ours if key != "common" and ours[key] != theirs[key]] == []
    assert given_options(again.arguments) == given_options(call.arguments)
    assert "quiet" not in tomllib.loads(path.read_text())


def test_a_run_is_repeated_from_its_file(call, tmp_path):
    words = ["--data", "digits", "--epochs", "1", "--no-augment", "--seed", "3", "--quiet"]
    call("train", "--model", "digits_cnn", *words, "--out", tmp_path / "one")
    written = tmp_path / "one" / "run.toml"
    told = call("train", "--config", written, "--out", tmp_path / "two", "--json", "--quiet")
    one, two = (load_file(tmp_path / n / "weights.safetensors") for n in ("one", "two"))
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)
    assert told.json()["recipe"]["seed"] == 3
    values = tomllib.loads(written.read_text())
    second = tomllib.loads((tmp_path / "two" / "run.toml").read_text())
    assert second == values | {"out": str(tmp_path / "two"), "json": True}


def test_a_file_of_options_may_name_the_head(refused, tmp_path):
    path = tmp_path / "run.toml"
    text = "model = 'base'\ndata = 'digits'\ncut = 'pool'\nfactors = 3\nparameters = 2000\n"
    path.write_text(text + "head = 'products'\n")
    arguments = parse(["build", "--config", str(path), "--out", "o"]).bound.arguments
    assert arguments["options"] == {"factors": 3, "parameters": 2000}
    for words in ([], ["--head", "local"]):
        path.write_text(text if not words else text + "head = 'products'\n")
        told = refused("build", "--config", path, *words, "--out", tmp_path / "no")
        assert "is an option of other heads: products" in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("command = 'build'", "is for vinets build, and this is vinets train"),
        ("epoch = 3", "has no option 'epoch'. Did you mean 'epochs'"),
        ("[train]\nepochs = 3", "has no option 'train'"),
        ("[epochs]\nx = 3", "must be a value or a list of values"),
        ("epochs = ", "is not a TOML file"),
        ("epochs = 'many'", "--epochs must be a positive integer. Got 'many' instead."),
        ("augment = 'no way'", "--augment"),
    ],
)
def test_files_that_are_wrong_are_one_sentence(refused, tmp_path, text, told):
    path = tmp_path / "run.toml"
    path.write_text(text)
    words = ["--model", "digits_cnn", "--data", "digits", "--out", tmp_path / "out"]
    assert told in refused("train", "--config", path, *words)
    assert not (tmp_path / "out").exists()
