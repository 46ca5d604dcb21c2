from __future__ import annotations

import shutil

from vinets.pipeline.opening import open_network


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
