"""Latency on another device: what is written to be timed there, and what is read back."""

from __future__ import annotations

import json

import pytest
import torch

from vinets.pipeline.opening import open_side_by_side
from vinets.search import compress, write_to_time
from vinets.search.elsewhere import file_names, read_timings
from vinets.side_by_side import bench

BUDGET = "latency=40%@pi,batch=4"
OPTIONS = {"epochs": 1, "cuts": 1, "int8": False, "device": "cpu", "progress": None}
FILES = file_names(["uncut", "a", "b"], "weights", torch.zeros(1, 1, 8, 8))


def told(path, seconds, batch=4, **more):
    """A file of timings by the name of a file."""
    rows = [
        {"name": name, "throughput": [{"batch_size": batch, "latency_ms": 1e3 * value}]}
        for name, value in seconds.items()
    ]
    path.write_text(json.dumps({"networks": rows, **more}))
    return path


@pytest.fixture(scope="module")
def written(model, data, tmp_path_factory):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    folder = tmp_path_factory.mktemp("elsewhere")
    budget = [BUDGET, "params=20%"]
    return folder, write_to_time(model, data, budget, folder, **(OPTIONS | {"int8": True}))


def test_figures_of_another_device_decide(written, model, data, tmp_path):
    folder, files = written
    listed = json.loads((folder / "networks.json").read_text())
    assert list(listed["networks"]) == [file.name for file in files]
    assert listed["batch"] == 4
    # what the command does there
    opened, example = open_side_by_side([str(folder)])
    networks = {name: one.network for name, one in opened.items()}
    found = bench(networks, example, batch_sizes=(4,), device="cpu", repeats=1, seconds=0.01)
    measured = found.to_dict()
    assert {one["name"] for one in measured["networks"]} == {file.name for file in files}
    # there, one is fast and all others are too slow for the budget, whatever they are here
    for one in measured["networks"]:
        (row,) = one["throughput"]
        row["latency_ms"] = 1.0 if "pooled" in one["name"] else 3.0
    path = tmp_path / "timings.json"
    path.write_text(json.dumps(measured))
    options = OPTIONS | {"timings": path}
    result = compress(model, data, [BUDGET, "params=20%"], **options).result
    assert result.met and result.choice.candidate.head == "pooled"
    assert result.choice.latency == result.choice.cost.latency == pytest.approx(1e-3)
    assert result.uncut.latency == pytest.approx(3e-3)
    assert {one.candidate.head for one in result.tried} == {"pooled"}
    assert result.elsewhere["timings"] == "timings.json" and "processor" in result.elsewhere
    assert "1 ms a pass at batch 4 on pi, where the uncut one takes 3 ms" in result.verdict
    for one in measured["networks"]:
        one["throughput"][0]["latency_ms"] = 3.0
    path.write_text(json.dumps(measured))
    assert not compress(model, data, [BUDGET, "params=20%"], **options).result.met


def test_only_what_other_limits_leave_has_to_be_timed(written, model, data, tmp_path, monkeypatch):
    _, files = written
    exported = []
    monkeypatch.setattr(
        "vinets.search.elsewhere.export_network", lambda _, path, **more: exported.append(path)
    )
    fewer = [BUDGET, "params=10%"]
    few = write_to_time(model, data, fewer, tmp_path, **OPTIONS)
    assert few == exported
    assert {file.name for file in few} < {file.name for file in files}
    assert any("uncut" in file.name for file in few)


def test_a_network_is_told_by_its_digest(tmp_path):
    seconds = dict.fromkeys(FILES.values(), 0.5)
    found = read_timings(told(tmp_path / "t", seconds), FILES, 4)
    assert found.seconds == dict.fromkeys(FILES, 0.5)
    # in another order, another folder and another format
    moved = {f"x/7{file.removesuffix('.onnx')[2:]}.tflite": 0.5 for file in FILES.values()}
    assert len(read_timings(told(tmp_path / "t", moved), FILES, 4).seconds) == 3
    others = file_names(["uncut", "a", "b"], "other weights", torch.zeros(1, 1, 8, 8))
    shapes = file_names(["uncut", "a", "b"], "weights", torch.zeros(1, 1, 9, 9))
    for wrong in (others, shapes):
        with pytest.raises(ValueError, match="other networks than these"):
            read_timings(told(tmp_path / "t", seconds), wrong, 4)


def test_what_is_missing_is_named(tmp_path):
    seconds = {FILES["uncut"]: 1.0, FILES["a"]: 0.5}
    with pytest.raises(ValueError, match=f"lacks 1 of 3 networks: {FILES['b']}\\."):
        read_timings(told(tmp_path / "t", seconds), FILES, 4)
    every = dict.fromkeys(FILES.values(), 1.0)
    with pytest.raises(ValueError, match="at batch 4, and the budget is for batch 8"):
        read_timings(told(tmp_path / "t", every), FILES, 8)


@pytest.mark.parametrize(
    "text",
    ["[]", "3", "{}", '{"networks": 3}', '{"networks": [{"name": "a"}]}', '{"networks": [3]}'],
)
def test_other_files_are_refused_in_one_sentence(text, tmp_path):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(ValueError, match=r"holds no timings: .* Pass what vinets bench"):
        read_timings(tmp_path / "t.json", FILES, 4)
    with pytest.raises(ValueError, match="not above 0"):
        read_timings(told(tmp_path / "t", {FILES["a"]: 0.0}), FILES, 4)


def test_timings_and_budgets_go_together(model, data, tmp_path):
    with pytest.raises(ValueError, match="Timings are for a budget on latency"):
        compress(model, data, "drop=1", timings=told(tmp_path / "t", {}), **OPTIONS)
    with pytest.raises(ValueError, match="no device 'pi' here"):
        compress(model, data, BUDGET, **OPTIONS)
    with pytest.raises(ValueError, match="without a budget on latency"):
        write_to_time(model, data, "drop=1", tmp_path, **OPTIONS)
