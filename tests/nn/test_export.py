from __future__ import annotations

import builtins
import importlib
import json
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from vinets.data import digits
from vinets.models import digits_cnn
from vinets.nn import VINet
from vinets.nn.export import EXPORT_FORMATS, ExportFormat, export_network
from vinets.nn.network import example_inputs
from vinets.pipeline import build

DIGITS = digits()
SMALL = {"components": 8, "keep": 4, "monomials": 32, "per_class": 40, "progress": None}


@pytest.fixture(scope="module")
def net() -> VINet:
    torch.manual_seed(0)
    return build(digits_cnn(), DIGITS.train, "relu3", linear_path=2, **SMALL)[0]


@pytest.fixture
def onnxruntime():
    for name in ("onnx", "onnxscript"):
        pytest.importorskip(name)
    return pytest.importorskip("onnxruntime")


def test_an_onnx_file_computes_the_same_and_knows_its_classes(net, tmp_path, onnxruntime, capfd):
    report = export_network(net, tmp_path / "net.onnx")
    assert capfd.readouterr() == ("", "")
    assert report.format == "onnx" and report.opset >= 18
    assert report.largest_difference < 1e-5 and report.batch_sizes == (1, 2, 7)
    assert report.size == (tmp_path / "net.onnx").stat().st_size
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    images = DIGITS.test.example(31)
    (logits,) = session.run(["logits"], {"input": images.numpy()})
    expected = net(images).detach().numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-4 * np.abs(expected).max())
    assert [axis.shape[0] for axis in (*session.get_inputs(), *session.get_outputs())] == [
        "batch",
        "batch",
    ]
    told = session.get_modelmeta().custom_metadata_map
    assert json.loads(told["classes"]) == list("0123456789")
    assert json.loads(told["preprocessing"]) == net.record.preprocessing


def test_a_program_computes_the_same_and_knows_its_classes(net, tmp_path):
    report = export_network(net, tmp_path / "net.pt2", batch_sizes=[3])
    assert report.format == "torch" and report.opset is None and report.batch_sizes == (3,)
    extra = {"metadata.json": ""}
    program = torch.export.load(tmp_path / "net.pt2", extra_files=extra).module()
    images = DIGITS.test.example(31)
    torch.testing.assert_close(program(images), net(images), atol=1e-4, rtol=1e-4)
    told = json.loads(extra["metadata.json"])
    assert told == {"classes": list("0123456789"), "preprocessing": net.record.preprocessing}


def test_the_network_is_folded_and_not_changed(net, tmp_path):
    before = {k: t.clone() for k, t in net.state_dict().items()}
    export_network(net, tmp_path / "net.pt2", batch_sizes=[2])
    assert all(torch.equal(t, before[k]) for k, t in net.state_dict().items())
    program = torch.export.load(tmp_path / "net.pt2")
    assert not [
        name for name in program.state_dict if ".norm." in name or "polynomials.scale" in name
    ]


def test_the_report_is_plain_json(net, tmp_path):
    told = export_network(net, tmp_path / "net.pt2", batch_sizes=(2,)).to_dict()
    assert json.loads(json.dumps(told)) == told
    assert told["path"] == str(tmp_path / "net.pt2") and told["batch_sizes"] == [2]


def test_no_warnings_leave(net, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export_network(net, tmp_path / "net.pt2", batch_sizes=(2,))


@pytest.mark.parametrize("name", ["net.pt2", "net.onnx"])
def test_a_file_that_computes_something_else_is_not_kept(net, tmp_path, monkeypatch, name, request):
    if name.endswith("onnx"):
        request.getfixturevalue("onnxruntime")
    (tmp_path / name).write_text("the old one")
    kind = EXPORT_FORMATS["onnx" if name.endswith("onnx") else "torch"]
    inner = kind.runner

    def wrong(self, path):
        right = inner(self, path)
        return lambda inputs: 1.01 * right(inputs)

    monkeypatch.setattr(kind, "runner", wrong)
    with pytest.raises(ValueError, match=r"differs from the network by 0\.01 of the largest logit"):
        export_network(net, tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "the old one"


class Stubborn(nn.Module):
    """Cannot be exported: what it does depends on the data."""

    def __init__(self):
        super().__init__()
        self.flat, self.out = nn.Flatten(), nn.Linear(64, 10)

    def forward(self, x):
        x = self.flat(-x if float(x.sum()) > 0 else x)
        return self.out(x)


@pytest.mark.parametrize("name", ["net.pt2", "net.onnx"])
def test_what_cannot_be_exported_says_so_and_leaves_nothing(tmp_path, name, request):
    if name.endswith("onnx"):
        request.getfixturevalue("onnxruntime")
    net = build(Stubborn(), DIGITS.train, "flat", **SMALL)[0]
    with pytest.raises(ValueError, match=r"^The network could not be exported to [^\n]+\.$"):
        export_network(net, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named_with_its_extra(net, tmp_path, monkeypatch):
    real = importlib.import_module

    def without(name, *args):
        if name == "onnxscript":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *args) if name not in EXPORT_FORMATS["onnx"].packages else builtins

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ModuleNotFoundError, match=r'onnxscript.*pip install "vinets\[onnx\]"'):
        export_network(net, tmp_path / "net.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("net.bin", {}, r"'path'.*ends in \.onnx or \.pt2.*format='onnx'"),
        ("net.pt2", {"format": "tflite"}, r"'format'.*'onnx', 'torch'"),
        ("net.pt2", {"opset": 18}, r"'opset'.*None unless the format is onnx"),
        ("net.onnx", {"opset": "x"}, r"'opset'.*positive integer"),
        ("net.pt2", {"batch_sizes": ()}, r"'batch_sizes'"),
        ("net.pt2", {"batch_sizes": (1, 0)}, r"'batch_sizes'.*positive integers"),
        ("net.pt2", {"batch_sizes": "12"}, r"'batch_sizes'"),
        ("", {"format": "torch"}, r"'path'.*name of a file"),
    ],
)
def test_bad_input_is_named(net, tmp_path, name, options, message):
    with pytest.raises(ValueError, match=message):
        export_network(net, tmp_path / name, **options)
    with pytest.raises(ValueError, match=r"'network'.*a CutNetwork.*Linear"):
        export_network(nn.Linear(2, 2), tmp_path / "net.pt2")
    assert list(tmp_path.iterdir()) == []


def test_any_name_will_do_if_the_format_is_given(net, tmp_path):
    report = export_network(net, tmp_path / "new" / "net.bin", format="torch", batch_sizes=(2,))
    assert report.path == tmp_path / "new" / "net.bin" and report.path.is_file()


@pytest.fixture
def scripted(monkeypatch):
    """A format of another distribution: traced TorchScript, which forgets the classes."""
    monkeypatch.setattr(EXPORT_FORMATS, "_entries", dict(EXPORT_FORMATS))

    class Scripted(ExportFormat):
        name = "script"
        title = "TorchScript"
        suffix = ".ts"

        def write(self, network, path, opset):
            torch.jit.trace(network, example_inputs(network.record.inputs, batch=2)).save(path)

        def runner(self, path):
            module = torch.jit.load(path)
            return lambda inputs: module(*inputs)


def test_a_format_from_outside_is_written_checked_and_named(scripted, net, tmp_path):
    report = export_network(net, tmp_path / "net.ts", batch_sizes=(1, 5))
    assert (report.format, report.opset) == ("script", None)
    images = DIGITS.test.example(5)
    torch.testing.assert_close(torch.jit.load(report.path)(images), net(images), atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match=r"\.onnx or \.ts or \.pt2.*format='script'"):
        export_network(net, tmp_path / "net.bin")
    with pytest.raises(ValueError, match=r"one of 'onnx', 'script', 'torch'"):
        export_network(net, tmp_path / "net.bin", format="bin")


@pytest.mark.parametrize(
    ("error", "told"),
    [(RuntimeError("\n  no room.\nadvice"), "no room"), (RuntimeError(), "RuntimeError")],
)
def test_the_first_line_of_the_last_cause_is_told(
    scripted, net, tmp_path, monkeypatch, error, told
):
    def fail(*_):
        raise OSError("try this, try that") from error

    monkeypatch.setattr(EXPORT_FORMATS["script"], "write", fail)
    with pytest.raises(ValueError, match=rf"could not be exported to TorchScript: {told}\.$"):
        export_network(net, tmp_path / "net.ts")
