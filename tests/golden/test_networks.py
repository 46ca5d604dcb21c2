"""Networks that version 0.2 saved load, say what they said, and are saved as they were.

``0.2/expected.safetensors`` has inputs and the logits of every folder; ``make.py`` made them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from vinets import CutNetwork
from vinets.heads import HEADS
from vinets.networks.open import open_network

GOLDEN = Path(__file__).parent / "0.2"
FOLDERS = sorted(path for path in (GOLDEN / "networks").iterdir() if path.name != "uncut")
EXPECTED = load_file(GOLDEN / "expected.safetensors")
INPUTS = EXPECTED["inputs"]
BOUND = 1e-5  # of the largest value: machines round sums in other orders


def assert_close(values: torch.Tensor, expected: torch.Tensor) -> None:
    assert values.shape == expected.shape
    assert (values - expected).abs().max() <= BOUND * expected.abs().max()


@pytest.fixture(scope="module", params=FOLDERS, ids=lambda folder: folder.name)
def saved(request):
    return request.param, CutNetwork.from_pretrained(request.param)


@torch.no_grad()
def test_logits_are_those_of_the_release(saved):
    folder, network = saved
    assert_close(network.float()(INPUTS), EXPECTED[folder.name])


@torch.no_grad()
def test_distances_are_those_of_the_release(saved):
    folder, network = saved
    expected = EXPECTED.get(f"{folder.name}.distance")
    if expected is not None:
        assert_close(network.float().distance(INPUTS), expected)
    else:
        with pytest.raises(ValueError, match="knows no distances"):
            network.float().distance(INPUTS)


def test_a_network_is_described_and_saved_as_it_was(saved, tmp_path):
    folder = saved[0]
    network = CutNetwork.from_pretrained(folder)  # the other tests change the precision
    network.save_pretrained(tmp_path)
    before, after = (json.loads((path / "config.json").read_text()) for path in (folder, tmp_path))
    for part in ("format", "version", "reader", "head", "distances", "parts"):
        assert after.get(part) == before.get(part)
    for part in ("cut", "inputs", "source", "classes", "preprocessing"):
        assert after["record"][part] == before["record"][part]
    written, tensors = (load_file(path / "model.safetensors") for path in (folder, tmp_path))
    assert written.keys() == tensors.keys()
    assert all(torch.equal(tensors[name], tensor) for name, tensor in written.items())


def test_a_folded_network_says_the_same():
    for name in (folder.name for folder in FOLDERS):
        if f"{name}-folded" in EXPECTED and "half" not in name:  # halves are rounded twice
            assert_close(EXPECTED[f"{name}-folded"], EXPECTED[name])
            network = CutNetwork.from_pretrained(GOLDEN / "networks" / name).folded()
            with torch.no_grad():
                assert_close(network(INPUTS), EXPECTED[f"{name}-folded"])


def test_every_kind_of_head_of_the_release_is_here():
    kinds = {json.loads((f / "config.json").read_text())["head"]["kind"] for f in FOLDERS}
    polynomials = {"vanishing", "local", "products", "distance"}
    others = {"linear", "pooled", "components", "mlp", "relu-units", "simkd"}
    random = {"random", "same-degrees", "local-relu", "local-random", "local-same-degrees"}
    assert kinds == polynomials | others | random
    assert kinds <= set(HEADS)


@torch.no_grad()
def test_the_uncut_network_is_that_of_the_release():
    opened = open_network(GOLDEN / "networks" / "uncut")
    assert_close(opened.network(INPUTS), EXPECTED["uncut"])
    assert opened.classes == tuple("0123456789")
    assert opened.inputs == {"": {"shape": [1, 8, 8], "dtype": "float32"}}
    assert opened.preprocessing is not None and opened.preprocessing.size == (8, 8)
