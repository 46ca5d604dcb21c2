from __future__ import annotations

import shutil

import pytest
import torch

from vinets.networks.open import noise_like, open_network


def test_bench_compares_with_the_first(call, base, vinet):
    short = ["--batch-sizes", "1,4", "--repeats", 2, "--seconds", 0.005, "--threads", 1]
    result = call("bench", base, vinet, *short, "--json", "-q").json()
    first, second = result["networks"]
    assert (first["name"], second["name"]) == ("base", "vinet")
    assert [speed["batch_size"] for speed in second["throughput"]] == [1, 4]
    assert [speed["ratio"] for speed in first["throughput"]] == [1, 1]
    assert second["sizes"]["by_part"] == open_network(str(vinet)).network.parts()
    assert second["flops"] < first["flops"]
    table = call("bench", base, vinet, *short).out
    assert "ratio" in table and "backbone 28,192" in table


def test_bench_takes_names_and_tells_equal_names_apart(call, refused, base, tmp_path):
    other = shutil.copytree(base, tmp_path / "base")
    short = ["--batch-sizes", "2", "--repeats", 1, "--seconds", 0, "--json"]
    result = call("bench", base, other, "digits_cnn", *short).json()
    assert [n["name"] for n in result["networks"]] == [str(base), str(other), "digits_cnn"]
    assert "given twice" in refused("bench", base, base)
    assert "Pass the shape" in refused("bench", "digits_cnn")
    assert "does not take inputs" in refused("bench", base, "resnet18")


def test_bench_takes_exported_files_and_says_what_runs_them(call, refused, base, vinet, tmp_path):
    pytest.importorskip("onnxruntime")
    out, int8 = tmp_path / "plain.onnx", tmp_path / "int8.onnx"
    assert call("export", vinet, "--out", out).code == 0
    rounded = ["--format", "onnx-int8", "--data", "digits", "--most-lost", 100]
    assert call("export", base, "--out", int8, *rounded).code == 0
    short = ["--batch-sizes", "1,4", "--repeats", 2, "--seconds", 0.005, "--threads", 1]
    result = call("bench", base, out, int8, *short, "--json", "-q").json()
    kinds = [(n["name"], n["runtime"], n["precision"]) for n in result["networks"]]
    assert kinds == [
        ("base", "torch", "float32"),
        ("plain.onnx", "onnxruntime", "float32"),
        ("int8.onnx", "onnxruntime", "int8"),
    ]
    whole, plain, rounded = result["networks"]
    assert plain["flops"] is plain["sizes"] is plain["throughput"][0]["peak_memory"] is None
    assert plain["bytes"] == out.stat().st_size and rounded["bytes"] < whole["bytes"] / 2
    assert whole["bytes"] > 4 * whole["sizes"]["total"]
    assert all(len(speed["rates"]) == 2 for speed in rounded["throughput"])
    table = call("bench", base, out, *short).out
    assert "onnxruntime" in table and "precision" in table
    (tmp_path / "x.onnx").write_text("junk")
    assert "x.onnx cannot be run" in refused("bench", base, tmp_path / "x.onnx")
    assert call("export", vinet, "--out", tmp_path / "x.pt2").code == 0
    assert "may hold code" in refused("bench", base, tmp_path / "x.pt2")


def test_speed_is_that_on_inputs_that_differ(call, base, monkeypatch):
    seen = []

    def remember(networks, example, **options):
        seen.append(example)
        raise ValueError("enough")

    monkeypatch.setattr("vinets.measure.bench", remember)
    for seed in (0, 0, 1):
        call("bench", base, "--batch-sizes", "1,6", "--seed", seed)
    assert seen[0].shape == (6, 1, 8, 8) and len(seen[0].unique(dim=0)) == 6
    assert torch.equal(seen[0], seen[1]) and not torch.equal(seen[0], seen[2])


def test_tokens_are_repeated():
    made = noise_like({"ids": torch.tensor([[3, 1]]), "x": torch.zeros(1, 2)}, 3, 0)
    assert made["ids"].tolist() == [[3, 1]] * 3 and made["x"].shape == (3, 2)
