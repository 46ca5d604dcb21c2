"""Networks of the package: found by name, as they were made, as good as their cards say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
import torch

from vinets import CutNetwork, VINet, pretrained
from vinets.core.settings import RECIPES
from vinets.data import digits
from vinets.measure import evaluate, sizes
from vinets.networks.open import open_network
from vinets.runs.on_data import open_with_data

DIGITS = "vinets/digits-cnn-products"
NAMES = pretrained.names()


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """The networks in a folder that a test may damage."""
    here = tmp_path / "pretrained"
    shutil.copytree(pretrained.HERE, here)
    monkeypatch.setattr(pretrained, "HERE", here)
    yield here
    pretrained._cards.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_each_opens_by_name_and_is_what_its_card_says(name):
    facts, net = pretrained.facts(name), CutNetwork.from_pretrained(name)
    assert facts["head"] == net.head.kind
    assert name.rpartition("-" + ("vinet" if isinstance(net, VINet) else net.head.kind))[1]
    assert {p.dtype for p in net.parameters() if p.is_floating_point()} == {torch.float32}
    assert net.record.cut == facts["cut"]
    assert sum(sizes(net.folded()).by_part.values()) == facts["parameters"]
    assert facts["parameters"] < facts["uncut_parameters"]
    assert len(net.record.classes) == facts["classes"]
    assert net(torch.zeros(2, *facts["inputs"])).shape == (2, facts["classes"])
    assert facts["recipe"] in RECIPES
    file = pretrained.find(name) / "model.safetensors"
    assert file.stat().st_size == facts["bytes"] <= 4 << 20


def test_the_digits_are_recognised_as_often_as_the_card_says():
    opened, split = open_with_data(DIGITS, "digits")
    found = evaluate(opened.network, split.test.batches(512), device="cpu")
    # one image of 449 may be decided otherwise by another rounding
    assert found.accuracy == pytest.approx(pretrained.facts(DIGITS)["accuracy"], abs=0.0023)


def test_the_picture_is_a_test_image_that_is_recognised():
    pytest.importorskip("PIL.Image")
    opened, test = open_network(DIGITS), digits().test
    batch = opened.preprocessing.read(pretrained.example(DIGITS))
    assert torch.equal(batch, test.preprocessing(test.images[:1]))
    assert opened.network(batch).argmax().item() == test.labels[0]


# What Windows and macOS lack, and what takes longer to import than a prediction does.
PREDICT = """
import sys
for missing in ("resource", "fcntl", "triton"):
    sys.modules[missing] = None
from vinets.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code
slow = {"scipy", "sklearn", "sympy", "torch._dynamo"} & sys.modules.keys()
assert not slow, f"predict imports {slow}"
"""


def test_a_prediction_needs_no_modules_of_one_system_and_none_that_are_slow():
    pytest.importorskip("PIL.Image")
    words = ["predict", "vinets/digits-cnn-vinet", str(pretrained.example(DIGITS))]
    told = subprocess.run(
        [sys.executable, "-c", PREDICT, *words], capture_output=True, text=True, timeout=120
    )
    assert told.returncode == 0, told.stderr
    assert "100.00%" in told.stdout


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "example.png"])
def test_a_changed_or_missing_file_is_refused(copied, file):
    path = copied / "digits-cnn-products" / file
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=rf"{file} is not as {DIGITS} was published"):
        CutNetwork.from_pretrained(DIGITS)
    path.unlink()
    with pytest.raises(ValueError, match=rf"{file} is missing"):
        open_network(DIGITS)


def test_unknown_names_are_told_with_those_that_there_are():
    with pytest.raises(FileNotFoundError, match=rf"Did you mean '{DIGITS}'\? There are: "):
        CutNetwork.from_pretrained("vinets/digits-cnn-prodcuts")
    with pytest.raises(ValueError, match="has its own weights"):
        open_network(DIGITS, "weights.safetensors")


def test_a_folder_of_that_name_goes_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / DIGITS).mkdir(parents=True)
    with pytest.raises(FileNotFoundError, match="holds no saved network"):
        CutNetwork.from_pretrained(DIGITS)


def test_every_file_of_a_folder_is_in_its_card():
    folders = [f for f in pretrained.HERE.iterdir() if f.is_dir() and f.name != "__pycache__"]
    assert {pretrained.PREFIX + folder.name for folder in folders} == set(NAMES)
    for folder in folders:
        listed = json.loads((folder / pretrained.CARD).read_text())["files"]
        assert {file.name for file in folder.iterdir()} == {"README.md", pretrained.CARD, *listed}


def test_a_network_is_added_by_its_folder_alone(copied):
    shutil.copytree(copied / "digits-cnn-products", copied / "digits-cnn-more")
    pretrained._cards.cache_clear()
    assert pretrained.names()[0] == "vinets/digits-cnn-more"
    assert CutNetwork.from_pretrained("vinets/digits-cnn-more").record.cut == "relu1"


def test_an_old_name_is_told_with_the_new_one_and_products_are_no_vi_net():
    assert set(pretrained.RENAMED.values()) <= set(NAMES)
    for old, new in pretrained.RENAMED.items():
        with pytest.raises(FileNotFoundError, match=rf"{old} is called {new} since vinets 0.3"):
            open_network(old)
    with pytest.raises(ValueError, match="head of kind 'products', no VINet"):
        VINet.from_pretrained(DIGITS)
