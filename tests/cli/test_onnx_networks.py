"""A network in an ONNX file, from the command line."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pytest

from vinets.models.libraries import onnx as files
from vinets.models.libraries.torchvision import import_torchvision

NEEDED = ("onnx", "onnxscript", "onnxruntime", "torchvision", "onnx2torch")
if any(find_spec(name) is None for name in NEEDED):
    pytest.skip("needs the extra onnx", allow_module_level=True)
import_torchvision()  # which onnx2torch imports


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch):
    monkeypatch.setattr(files, "_named", {})


@pytest.fixture(scope="module")
def net(base, call, tmp_path_factory):
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    call("export", base, "--out", path)
    return path


def test_a_file_is_cut_built_saved_and_opened_again(net, base, call, refused, tmp_path):
    (cut,) = call("cuts", net, "--match", "relu_2", "--json").json()["points"]
    made, options = tmp_path / "made", ["--cut", cut["name"], "--head", "products"]
    done = call("build", net, "--data", "digits", *options, "--epochs", 1, "--out", made, "--json")
    uncut = call("evaluate", base, "--data", "digits", "--json").json()["accuracy"]
    assert done.json()["timed"]["uncut"] == pytest.approx(uncut, abs=1e-3)
    files._named.clear()
    assert "FOLDER@net.onnx for the folder" in refused("evaluate", made, "--data", "digits")
    renamed = tmp_path / "renamed.onnx"
    shutil.copy(net, renamed)
    again = call("evaluate", f"{made}@{renamed}", "--data", "digits", "--json").json()
    assert again["accuracy"] > 0.8
    call("export", base, "--out", tmp_path / "other.onnx", "--opset", 19)
    files._named.clear()
    told = refused("evaluate", f"{made}@{tmp_path / 'other.onnx'}", "--data", "digits")
    assert "another file than net.onnx:" in told


def test_the_file_still_predicts_by_its_own_runtime(net, base, call, pictures):
    both = [call("predict", one, pictures / "3", "--json").json() for one in (net, base)]
    first, second = (one["predictions"][0]["classes"] for one in both)
    assert [c["name"] for c in first] == [c["name"] for c in second]
    assert not files._named  # nothing was converted
