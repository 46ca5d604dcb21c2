"""What identifies a network with its data, the code of own networks included; setups of files."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from vinets.core.settings import TrainingOptions
from vinets.data import DataSplit, digits
from vinets.models import create_model, digits_cnn, save_weights
from vinets.models.origin import code_of
from vinets.runs.compare import compare_heads
from vinets.runs.scratch import train_into
from vinets.runs.setup import Identity, SetupFiles
from vinets.runs.trial import Trial
from vinets.training import train_classifier

WHOLE = digits()
DATA = DataSplit("digits", WHOLE.train.subset(torch.arange(200)), WHOLE.test)
SOURCE = """
from torch import nn
from {neighbour} import WIDTH

class Net(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.first = nn.Linear(64, WIDTH)
        self.middle = nn.{activation}()
        self.last = nn.Linear(WIDTH, num_classes)

    def forward(self, x):
        return self.last(self.middle(self.first(x.flatten(1))))

def made(num_classes=10):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.{activation}(), nn.Linear(8, 10))
"""


def write(folder, activation="ReLU", neighbour="widths_of_net"):
    """Write a network of the user's own, with a module that it imports; return the file."""
    (folder / f"{neighbour}.py").write_text("WIDTH = 8\n")
    (folder / "net.py").write_text(SOURCE.format(activation=activation, neighbour=neighbour))
    return folder / "net.py"


@pytest.fixture
def file(tmp_path):
    return write(tmp_path)


def train(file, out):
    recipe = TrainingOptions(epochs=2, batch_size=64)
    network = f"{file}:Net"
    return train_into(out, network, DATA, recipe=recipe, device="cpu", progress=None).test


def compare(file, out):
    model = create_model(f"{file}:Net")
    nn.init.ones_(model.first.weight)  # the same network at every call
    for weights in (model.first.bias, model.last.weight, model.last.bias):
        nn.init.constant_(weights, 0.1)
    trial = Trial.of("ridge", cut="middle", per_class=8, repeats=1, seconds=0)
    compare_heads(model, DATA, trial, out, device="cpu", progress=None)


def train_alone(file, out, maker="Net"):
    torch.manual_seed(0)
    options = {"directory": out, "epochs": 1, "progress": None}
    train_classifier(create_model(f"{file}:{maker}"), DATA.train, **options)


@pytest.mark.filterwarnings("ignore::vinets.measure.doubt.AccuracyWarning")
@pytest.mark.parametrize(
    ("work", "message"),
    [
        (train, r"holds results of .*:Net with other code\. Choose"),
        (compare, "holds results of uncut with other code"),
        (train_alone, "belongs to another training: code differ"),
        (partial(train_alone, maker="made"), "belongs to another training: code differ"),
    ],
)
def test_no_work_goes_on_with_other_code_of_the_same_shapes(file, tmp_path, work, message):
    out = tmp_path / "out"
    work(file, out)
    write(tmp_path, "Sigmoid")
    with pytest.raises(ValueError, match=message):
        work(file, out)
    write(tmp_path)
    work(file, out)  # the code that it was


def test_the_code_is_that_of_the_file_and_of_what_it_imports(file, tmp_path):
    code = code_of(create_model(f"{file}:Net"))
    assert code and code == code_of(create_model(f"{file}:made"))
    assert code_of(copy.deepcopy(create_model(f"{file}:Net")).middle) == code
    assert code_of(digits_cnn()) == code_of(nn.Linear(2, 2)) == ""
    codes = set()
    for name, width in (("one", 8), ("two", 9), ("three", 8)):
        folder = tmp_path / name / "own"
        folder.mkdir(parents=True)
        neighbour = f"widths_{width}"
        write(folder, neighbour="package_of_net")
        (folder / "package_of_net.py").unlink()
        package = folder / "package_of_net"
        package.mkdir()
        (package / "__init__.py").write_text(f"from .{neighbour} import WIDTH\n")
        (package / f"{neighbour}.py").write_text(f"WIDTH = {width}\n")
        (folder / "not_imported.py").write_text(f"NAME = {name!r}\n")
        codes.add(code_of(create_model(f"{folder / 'net.py'}:made")))
    assert len(codes) == 2  # where the file lies, and what lies next to it, do not count


def test_a_neighbour_that_changes_is_imported_again(tmp_path):
    file = write(tmp_path, neighbour="changing_widths")
    codes = {code_of(create_model(f"{file}:Net")) for _ in range(2)}
    (tmp_path / "changing_widths.py").write_text("WIDTH = 16\n")
    wide = create_model(f"{file}:Net")
    assert wide.last.in_features == 16 and len(codes | {code_of(wide)}) == 2


def test_identities_differ_by_what_both_wrote_down():
    identity = Identity.of(digits_cnn(), DATA)
    assert identity.code == "" and identity.differences(identity) == []
    known, other = Identity("w", "d", code="a"), Identity("w", "d", code="b")
    assert known.differences(other) == ["code"]
    assert Identity("w", "d").differences(other) == []  # an earlier release kept no digest
    assert known.differences(Identity("w", "d")) == ["code"]
    # Dropout changes no shape and no weight.
    drops = [Identity.of(create_model("vit", size=8, dropout=p), DATA).options for p in (0, 0, 0.1)]
    assert drops[0] == drops[1] != drops[2] and identity.options == ""
    known, other = (Identity("w", "d", options=drop) for drop in drops[1:])
    assert known.differences(other) == ["options"] and known.differences(identity) != ["options"]


def test_a_network_takes_as_many_channels_as_the_images_have(tmp_path):
    inputs, labels, weights = (tmp_path / name for name in ("x.npy", "y.npy", "w.safetensors"))
    np.save(inputs, np.random.default_rng(0).normal(size=(20, 1, 8, 8)).astype(np.float32))
    np.save(labels, np.arange(20) % 2)
    save_weights(create_model("resnet18", 2, inputs=1), weights)
    files = SetupFiles("resnet18", str(weights), f"{inputs},{labels}")
    setup = files.open("grey", torch.device("cpu"))
    assert setup.model.conv1.in_channels == 1
    assert 0 < len(setup.test) < 20 and 0 <= setup.accuracy <= 1
