from __future__ import annotations

import json
import shutil

import pytest
import torch

from vinets.data import digits
from vinets.models import digits_cnn, save_weights, source_of
from vinets.models.facts import input_fields
from vinets.networks.files import UncutNetwork, read_uncut, write_uncut

TRAIN = digits().train


@pytest.fixture(scope="module")
def uncut():
    model = digits_cnn()
    inputs, facts = input_fields(TRAIN.example()), {"data": {"name": "digits"}}
    parts = (source_of(model), inputs, TRAIN.classes, TRAIN.preprocessing, facts)
    return UncutNetwork(model, *parts)


@pytest.fixture(scope="module")
def base(uncut, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uncut") / "base"
    write_uncut(folder, uncut)
    return folder


def test_a_folder_gives_the_network_back(uncut, base):
    found = read_uncut(base)
    mine, other = uncut.model.state_dict(), found.model.state_dict()
    assert mine.keys() == other.keys()
    assert all(torch.equal(other[name], tensor) for name, tensor in mine.items())
    for name in ("source", "inputs", "classes", "preprocessing", "training"):
        assert getattr(found, name) == getattr(uncut, name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "does not describe a network of vinets"),
        ({"version": 9}, "this release reads version 2"),
        ({"source": {"library": "os", "name": "system", "options": {}}}, "can make"),
        ({"source": None}, "can make"),
        ({"classes": [1, 2]}, "no names"),
        ({"inputs": {"": {"shape": [1], "dtype": "Tensor"}}}, "unknown dtype"),
        ({"inputs": 3}, "can make"),
        ({"preprocessing": {"size": 1}}, "can make"),
    ],
)
def test_a_damaged_description_is_refused_in_one_sentence(base, tmp_path, change, message):
    folder = shutil.copytree(base, tmp_path / "copy")
    told = json.loads((folder / "network.json").read_text())
    (folder / "network.json").write_text(json.dumps(told | change))
    with pytest.raises(ValueError, match=message):
        read_uncut(folder)
    (folder / "network.json").write_text("{")
    with pytest.raises(ValueError, match="not readable JSON"):
        read_uncut(folder)


def test_description_and_weights_belong_together(uncut, base, tmp_path):
    folder = shutil.copytree(base, tmp_path / "copy")
    told = json.loads((folder / "network.json").read_text())
    other = told | {"classes": told["classes"][::-1]}
    (folder / "network.json").write_text(json.dumps(other))
    with pytest.raises(ValueError, match="not written together"):
        read_uncut(folder)
    # the version before had no digest
    earlier = {name: value for name, value in told.items() if name != "digest"}
    (folder / "network.json").write_text(json.dumps(earlier | {"version": 1}))
    assert read_uncut(folder).classes == uncut.classes


def test_weights_of_another_training_are_refused(base, tmp_path):
    folder = shutil.copytree(base, tmp_path / "copy")
    found = read_uncut(folder)
    found.model.fc.bias.data[0] += 1
    save_weights(found.model, folder / "weights.safetensors")
    with pytest.raises(ValueError, match="not written together"):
        read_uncut(folder)
