from __future__ import annotations

import copy
import json
import resource
from contextlib import contextmanager
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from vinets import build
from vinets.data import Preprocessing, digits
from vinets.latent.collect import record_of
from vinets.models import digits_cnn, save_weights
from vinets.models.origin import example_inputs
from vinets.networks import VINet
from vinets.networks.runtimes import WholeNetwork
from vinets.networks.storage import read_uncut, write_uncut
from vinets.testing.sources import assert_same
from vinets.training import fine_tune

DIGITS = digits()
SMALL = {"components": 8, "keep": 4, "monomials": 32, "per_class": 40, "progress": None}


@pytest.fixture(scope="module")
def net() -> VINet:
    torch.manual_seed(0)
    net = build(digits_cnn(), DIGITS.train, "relu3", linear_path=3, **SMALL)[0]
    fine_tune(net, DIGITS.train, epochs=1, progress=None)
    return net


@pytest.fixture
def folder(net, tmp_path):
    net.save_pretrained(tmp_path / "net")
    return tmp_path / "net"


def test_everything_comes_back(net, folder):
    again = VINet.from_pretrained(folder)
    assert again.record == net.record and again.reader.config() == net.reader.config()
    assert again.record.classes == tuple("0123456789")
    assert again.record.preprocessing["size"] == [8, 8]
    assert again.parts() == net.parts() == json.loads((folder / "config.json").read_text())["parts"]
    assert not again.training
    assert not any(p.requires_grad for p in again.backbone.parameters())
    ours, theirs = net.state_dict(), again.state_dict()
    assert list(ours) == list(theirs)
    assert_same(theirs, ours)


class Own(nn.Module):
    """A class that only its user has."""

    def __init__(self):
        super().__init__()
        self.conv, self.relu = nn.Conv2d(1, 4, 3), nn.ReLU()
        self.out = nn.Linear(144, 10)

    def forward(self, x):
        return self.out(self.relu(self.conv(x)).flatten(1))


def test_a_class_of_ones_own_has_to_be_passed(tmp_path):
    net = build(Own(), DIGITS.train, "relu", **SMALL)[0]
    net.save_pretrained(tmp_path)
    images = DIGITS.test.example(6)
    with pytest.raises(ValueError, match=r"class of its own.*backbone=network"):
        VINet.from_pretrained(tmp_path)
    assert torch.equal(VINet.from_pretrained(tmp_path, backbone=Own())(images), net(images))
    with pytest.raises(ValueError, match=r"do not fit|does not describe"):
        VINet.from_pretrained(tmp_path, backbone=digits_cnn())


# --- files that are not what they should be ---------------------------------------------------


def changed(folder, path, value) -> None:
    """Set one entry of the config, by its keys with dots; a value of KeyError deletes it."""
    config = json.loads((folder / "config.json").read_text())
    *above, last = path.split(".")
    place = reduce(getitem, above, config)
    place[last] = value
    if value is KeyError:
        del place[last]
    (folder / "config.json").write_text(json.dumps(config))


def entries(values):
    """Parametrize a test by entries of the config and what is put there."""
    pairs = [(path, value) for path, several in values.items() for value in several]
    return pytest.mark.parametrize(("path", "value"), pairs)


SYSTEM = {"library": "os", "name": "system", "options": {}}
STRANGE = {"": {"shape": [1, 8, 8], "dtype": "os"}}
ENDLESS = {"": {"shape": [1e400], "dtype": "float32"}}


@entries(
    {
        **{"format": ["other"], "version": [99], "reader": [None], "reader.kind": ["nothing"]},
        **{"head": [[]], "head.kind": ["unknown", []], "head.arguments": [{"order": "none"}]},
        **{"head.projection": [[8], [8, -3]], "head.classes": ["many", 11], "head.path": [[1]]},
        **{"head.polynomials": [None], "head.polynomials.n_variables": [2], "head.folded": [True]},
        **{"head.polynomials.count": [KeyError, 2**62], "record": [KeyError, "text"]},
        **{"record.classes": [7], "record.extra": [1], "record.inputs": [[], STRANGE, ENDLESS]},
        **{"record.cut": ["nowhere", None, "relu2"], "record.source": [SYSTEM, "digits_cnn"]},
        **{"record.source.options": [{"num_classes": -4}]},
    }
)
def test_a_changed_description_is_refused_in_one_sentence(folder, path, value):
    changed(folder, path, value)
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        VINet.from_pretrained(folder)


@entries(
    {
        "record.classes": [[f"other {k}" for k in range(10)]],
        "record.data": [None],
        "record.notes": [{"accuracy": 1.0}],
        "head.order": [[3]],
        "digest": [KeyError, "0" * 32],
    }
)
def test_a_description_that_fits_but_was_edited_is_refused(folder, path, value):
    changed(folder, path, value)
    with pytest.raises(ValueError, match=r"not written together|does not describe"):
        VINet.from_pretrained(folder)


def test_networks_of_the_version_before_are_read(folder):
    changed(folder, "digest", KeyError)
    changed(folder, "version", 2)
    assert VINet.from_pretrained(folder).record.cut


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b'"text"', b"\x00\x01", b"\xff\xfe{}"]
)
def test_files_that_are_no_description_are_refused(folder, content):
    (folder / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"not readable JSON|does not describe a network"):
        VINet.from_pretrained(folder)


def test_missing_files_are_named(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"config\.json is missing"):
        VINet.from_pretrained(tmp_path / "nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors does not exist"):
        VINet.from_pretrained(folder)


def test_truncated_and_pickled_weights_are_refused(folder):
    path = folder / "model.safetensors"
    data = path.read_bytes()
    for share in (0.0, 0.001, 0.5, 0.99, None):
        if share is None:
            torch.save({"head.linear.weight": torch.zeros(3)}, path)
        else:
            path.write_bytes(data[: int(share * len(data))])
        with pytest.raises(ValueError, match="not a readable safetensors file"):
            VINet.from_pretrained(folder)


@pytest.mark.parametrize(
    ("key", "tensor", "message"),
    [
        ("head.linear.weight", None, "do not fit"),
        ("head.linear.weight", torch.zeros(3), "do not fit"),
        ("head.linear.bias", torch.zeros(10, dtype=torch.int64), "do not fit"),
        ("head.linear.bias", torch.zeros(10), "not written together"),  # of a network like it
        ("backbone.conv1.weight", torch.zeros(1), "do not fit"),
        ("foreign", torch.zeros(1), "do not fit"),
        ("head.polynomials.monomials.terms_1", None, "do not fit|does not describe"),
        ("head.polynomials.monomials.terms_1", torch.tensor([[99]]), "does not describe"),
    ],
)
def test_weights_of_another_network_are_refused_in_one_sentence(folder, key, tensor, message):
    state = load_file(folder / "model.safetensors")
    state.pop(key, None)
    if tensor is not None:
        state[key] = tensor
    save_file(state, folder / "model.safetensors")
    with pytest.raises(ValueError, match=rf"^[^\n]*({message})[^\n]*\.$"):
        VINet.from_pretrained(folder)


@pytest.mark.parametrize("name", ["leading", "columns_0"])
def test_indices_of_blocks_are_checked(tmp_path, name):
    options = SMALL | {"keep": None, "monomials": None}
    build(digits_cnn(), DIGITS.train, "relu3", **options)[0].save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    state[f"head.polynomials.{name}"][0] = 10**6
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="positions of the"):
        VINet.from_pretrained(tmp_path)


@contextmanager
def little_memory():
    """The process may grow by a gigabyte, and no more."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


HUGE = 1 << 30
WIDE = {"size": [8, 8], "width": HUGE, "num_classes": 10}
DEEP = {"blocks": [HUGE] * 4, "num_classes": 10, "maxpool": False}
SOURCES = [
    {"library": "vinets", "name": name, "options": options}
    for name, options in (("vit", WIDE), ("resnet", DEEP))
]


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@entries(
    {
        **{"head.rescale": [[HUGE, 2]], "head.classes": [HUGE], "head.polynomials.count": [HUGE]},
        **{"head.polynomials.n_variables": [HUGE], "head.projection": [[HUGE, HUGE]]},
        **{"head.path": [[HUGE, 2, HUGE, 2]], "record.inputs..shape": [[1, 1 << 16, 1 << 16]]},
        **{"record.source.options.num_classes": [1 << 20], "record.source": SOURCES},
        **{"record.cut": ["50%"]},
    }
)
def test_a_small_config_takes_no_memory_before_it_fits_the_weights(folder, path, value):
    changed(folder, path, value)
    with little_memory(), pytest.raises(ValueError, match=r"^[^\n]+\.$") as caught:
        VINet.from_pretrained(folder)
    assert "allocate" not in str(caught.value) and "emory" not in str(caught.value).replace(
        "takes far more memory", ""
    )


def test_weights_that_are_a_link_out_of_the_folder_are_not_followed(folder, tmp_path):
    (folder / "model.safetensors").rename(tmp_path / "elsewhere")
    (folder / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is a link out of"):
        VINet.from_pretrained(folder)


# --- uncut networks ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def uncut():
    model = digits_cnn()
    notes = {"data": {"name": "digits"}}
    return WholeNetwork(model, record_of(model, DIGITS.train, notes=notes))


@pytest.fixture
def base(uncut, tmp_path):
    write_uncut(tmp_path / "base", uncut.model, uncut.record)
    return tmp_path / "base"


def test_a_folder_gives_the_network_back(uncut, base):
    found = read_uncut(base)
    assert_same(found.model.state_dict(), uncut.model.state_dict())
    assert found.record == uncut.record


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "does not describe a network of vinets"),
        ({"version": 9}, "this release reads version 2"),
        ({"source": {"library": "os", "name": "system", "options": {}}}, "can make"),
        ({"source": None}, "can make"),
        ({"classes": [1, 2]}, "must be a text"),
        ({"inputs": {"": {"shape": [1], "dtype": "Tensor"}}}, "unknown dtype"),
        ({"inputs": 3}, "can make"),
        ({"preprocessing": {"size": 1}}, "can make"),
    ],
)
def test_a_damaged_description_is_refused_in_one_sentence(base, change, message):
    path = base / "network.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ValueError, match=message):
        read_uncut(base)
    path.write_text("{")
    with pytest.raises(ValueError, match="not readable JSON"):
        read_uncut(base)


def test_description_and_weights_of_an_uncut_network_belong_together(uncut, base):
    path = base / "network.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"classes": values["classes"][::-1]}))
    with pytest.raises(ValueError, match="not written together"):
        read_uncut(base)
    # the version before had no digest
    earlier = {name: value for name, value in values.items() if name != "digest"}
    path.write_text(json.dumps(earlier | {"version": 1}))
    network = read_uncut(base)
    assert network.record.classes == uncut.record.classes
    path.write_text(json.dumps(values))
    network.model.fc.bias.data[0] += 1  # another training
    save_weights(network.model, base / "weights.safetensors")
    with pytest.raises(ValueError, match="not written together"):
        read_uncut(base)


def test_weights_that_are_no_numbers_are_refused(net, tmp_path):
    broken = copy.deepcopy(net)
    with torch.no_grad():
        broken.head.linear.bias[0] = float("nan")
    broken.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"no number \(NaN\), in head\.linear\.bias\. Train"):
        VINet.from_pretrained(tmp_path)


def test_inputs_are_bounded_in_sum():
    many = {f"x{i}": {"shape": [3, 1024, 1024], "dtype": "float32"} for i in range(6)}
    with pytest.raises(ValueError, match="'x5' must have 1 to 16,777,216 values"):
        example_inputs(many)
    with pytest.raises(ValueError, match="at most 16,777,216 values an image"):
        Preprocessing(3, (8000, 8000), (0.0,) * 3, (1.0,) * 3)
