"""``--model-option`` and ``--weights`` of a file of ``torch.save``, from the command line."""

from __future__ import annotations

import pytest
import torch

from vinets.cli.shared import ReadingOptions
from vinets.core.files import read_json
from vinets.models import source_of
from vinets.networks.open import open_network

SOURCE = """
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes=10, width=16, act="relu", last=True):
        super().__init__()
        make = {"relu": nn.ReLU, "gelu": nn.GELU}[act]
        self.conv = nn.Conv2d(1, width, 3)
        self.norm = nn.BatchNorm2d(width)
        self.act = make()
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.fc = nn.Linear(4 * width, num_classes) if last else None

    def forward(self, x):
        return self.fc(self.pool(self.act(self.norm(self.conv(x)))).flatten(1))
"""
OPTIONS = ("--model-option", "width=8", "--model-option", "act=gelu")
SMALL = ("--data", "digits", "--epochs", 1, "--quiet")


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    file = tmp_path_factory.mktemp("options") / "net.py"
    file.write_text(SOURCE)
    return f"{file}:Net"


@pytest.fixture(scope="module")
def base(call, net, tmp_path_factory):
    out = tmp_path_factory.mktemp("options") / "base"
    done = call("train", "--model", net, *OPTIONS, *SMALL, "--out", out)
    assert done.code == 0, done.err
    return out


@pytest.fixture(scope="module")
def weights(base, net):
    """What was trained, as PyTorch 0.4 would have saved it on several devices."""
    state = open_network(f"{base}@{net}").network.state_dict()
    kept = {f"module.{k}": v for k, v in state.items() if "num_batches_tracked" not in k}
    path = base.parent / "model_best.pth.tar"
    content = {"state_dict": kept, "best_prec1": 93.0}
    torch.save(content, path, _use_new_zipfile_serialization=False)
    return path


def test_a_trained_folder_and_a_checkpoint_are_one_network(call, base, net, weights):
    opened = open_network(f"{base}@{net}").network
    assert source_of(opened)["options"] == {"num_classes": 10, "width": 8, "act": "gelu"}
    folder = call("evaluate", f"{base}@{net}", "--data", "digits", "--json").json()
    done = call("evaluate", net, *OPTIONS, "--weights", weights, "--data", "digits", "--json")
    assert done.json()["accuracy"] == folder["accuracy"]
    assert f"Warning: The weights are 'state_dict' of {weights}." in done.err


def test_what_is_built_belongs_to_its_options(call, net, weights, build_options, tmp_path):
    options = [o if o != "relu3" else "act" for o in build_options]
    line = ["build", net, "--weights", weights, *options, "--quiet", "--out", tmp_path / "out"]
    done = call(*line, *OPTIONS)
    assert done.code == 0, done.err
    kept = read_json(tmp_path / "out" / "config.json")["record"]["source"]["options"]
    assert kept == {"num_classes": 10, "width": 8, "act": "gelu"}
    assert call("build", "--config", tmp_path / "out" / "run.toml").code == 0
    assert call("evaluate", f"{tmp_path / 'out'}@{net}", "--data", "digits").code == 0
    done = call(*line, *OPTIONS[:3], "act=relu")
    assert done.code == 2 and "with other options" in done.err.splitlines()[-1]


REFUSED = [
    (("--model-option", "width"), "--model-option must be KEY=VALUE. Got ['width'] instead."),
    (("--model-option", "widht=8"), "'widht'. Its arguments are num_classes, width, act, last"),
    (("--model-option", "act=../x"), "may not have the option act=../x"),
    (("--model-option", "last=yes", "--weights", "{weights}"), "does not fit this Net"),
]


@pytest.mark.parametrize(("options", "told"), REFUSED)
def test_other_options_are_refused_in_one_sentence(call, net, weights, options, told):
    words = [word.format(weights=weights) for word in options]
    done = call("cuts", net, "--shape", "1,8,8", *words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err.splitlines()[-1]


def test_values_are_numbers_words_and_lists_and_are_written_again():
    written = ("8", "true", "False", "0.5", "gelu", "[1, 2]", "None", "a=b")
    pairs = tuple(f"{key}={text}" for key, text in zip("abcdefgh", written, strict=True))
    reading = ReadingOptions(model_option=pairs)
    values = [*reading.keywords()["options"].values()]
    assert values == [8, True, False, 0.5, "gelu", [1, 2], None, "a=b"]
    assert reading.words()[:4] == ("--model-option", "a=8", "--model-option", "b=true")
