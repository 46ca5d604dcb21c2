from __future__ import annotations

import pytest
import torch

from vinets.data import digits
from vinets.networks.open import open_network


def test_export_writes_a_program_that_computes_the_same(call, vinet, tmp_path):
    out = tmp_path / "vinet.pt2"
    report = call("export", vinet, "--out", out, "--json").json()
    assert (report["path"], report["format"]) == (str(out), "torch")
    assert report["size"] == out.stat().st_size
    images = digits().test.example(5)
    logits = torch.export.load(out).module()(images)
    with torch.no_grad():
        expected = open_network(str(vinet)).network(images)
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


def test_bad_input_to_export_is_refused(refused, base, vinet, tmp_path):
    out = tmp_path / "x.onnx"
    assert "Pass data" in refused("export", base, "--out", out, "--format", "onnx-int8")
    assert "random weights" in refused("export", "digits_cnn", "--data", "digits", "--out", out)
    assert "shape" in refused("export", "digits_cnn", "--out", out)
    assert "format" in refused("export", vinet, "--out", tmp_path / "x.bin")
    assert "holds no network" in refused("export", tmp_path, "--out", tmp_path / "x.onnx")


def test_an_uncut_network_is_exported_in_int8_with_its_accuracy(call, refused, base, tmp_path):
    pytest.importorskip("onnxruntime")
    out = tmp_path / "base.onnx"
    options = ["--format", "onnx-int8", "--data", "digits", "--calibration", 64, "--out", out]
    report = call("export", base, *options, "--json").json()
    told = call("evaluate", base, "--data", "digits", "--json").json()
    found = call("evaluate", out, "--data", "digits", "--json").json()
    assert report["network_accuracy"] == told["accuracy"]
    assert report["accuracy"] == found["accuracy"]
    assert (report["tested_on"], report["calibrated_on"]) == (told["examples"], 64)
    assert "file's" in call("export", base, *options, "--most-lost", 100).out
    assert "is exported" in refused("cuts", out)
    assert "is exported already" in refused("export", out, "--out", tmp_path / "y.onnx")


def test_a_network_is_exported_by_name_with_its_weights(call, base, tmp_path):
    pytest.importorskip("onnxruntime")
    weights, by_name, by_folder = base / "weights.safetensors", "name.onnx", "folder.onnx"
    given = ["--weights", weights, "--data", "digits"]
    named = call("export", "digits_cnn", *given, "--out", tmp_path / by_name, "--json").json()
    call("export", base, "--data", "digits", "--out", tmp_path / by_folder)
    assert named["accuracy"] == named["network_accuracy"]
    assert (tmp_path / by_name).read_bytes() == (tmp_path / by_folder).read_bytes()


def test_a_quiet_export_says_nothing_on_the_way(call, vinet, tmp_path):
    out = tmp_path / "vinet.pt2"
    assert call("export", vinet, "--out", out).err == f"Written to {out}\n"
    assert call("export", vinet, "--out", out, "--quiet").err == ""
