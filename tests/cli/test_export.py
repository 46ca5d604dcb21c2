from __future__ import annotations

import torch

from vinets.data import digits
from vinets.pipeline.opening import open_network


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
    assert "is not cut" in refused("export", base, "--out", tmp_path / "x.onnx")
    assert "format" in refused("export", vinet, "--out", tmp_path / "x.bin")
    assert "holds no network" in refused("export", tmp_path, "--out", tmp_path / "x.onnx")
