"""``vinets cuts``, ``evaluate``, ``bench``, ``predict`` and ``export``."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from program import run
from safetensors.torch import load_file, save_file

from vinets.data import digits
from vinets.latent.cut import cut_points
from vinets.models import PRESETS, resnet18
from vinets.networks.open import noise_like, open_network
from vinets.search.space import choose_cuts

# --- cuts -------------------------------------------------------------------------------------


def test_cuts_are_those_of_the_library_few_by_default_and_presets_are_marked(call):
    words = ["cuts", "resnet18", "--shape", "3,32,32"]
    result, model = call(*words, "--json").json(), resnet18()
    points = cut_points(model, torch.zeros(1, 3, 32, 32), every=True)
    assert [p["name"] for p in result["points"]] == [p.name for p in points]
    assert [p["macs"] for p in result["points"]] == [p.macs for p in points]
    paper = {name: cut for name, (network, cut) in PRESETS.items() if network == "resnet18"}
    assert {p["preset"]: p["name"] for p in result["points"] if p["preset"]} == paper
    few, every = (call(*words, *more).out for more in ([], ["--all"]))
    shown = [p.name for p in points if f" {p.name} " in few]
    tried = {p.name for p in choose_cuts(points, sum(p.numel() for p in model.parameters()))}
    assert set(shown) == tried | {*paper.values()} and len(shown) < len(points) / 3
    assert f"{len(shown)} of {len(points)} cuts" in few and "--all" in few
    assert all(f" {p.name} " in every for p in points) and "--all" not in every


def test_cuts_know_the_inputs_of_a_folder_or_of_data(call, base):
    table = call("cuts", base, "--match", "relu").out
    assert "64×4×4" in table and "conv" not in table and " of " not in table
    assert call("cuts", "digits_cnn", "--data", "digits", "--match", "relu").out == table


# --- evaluate ---------------------------------------------------------------------------------


def test_evaluate_counts_what_the_network_says(call, vinet):
    result = call("evaluate", vinet, "--data", "digits", "--json", "--quiet").json()
    test = digits().test
    with torch.no_grad():
        network = open_network(str(vinet)).network
        guesses = network(test.preprocessing(test.images)).argmax(1)
    confusion = np.zeros((10, 10), dtype=int)
    np.add.at(confusion, (test.labels.numpy(), guesses.numpy()), 1)
    assert result["confusion"] == confusion.tolist()
    assert result["accuracy"] == pytest.approx(confusion.trace() / confusion.sum())
    assert result["classes"] == list(test.classes)
    assert result.keys() >= {"top5", "loss", "calibration_error", "per_class"}


def test_evaluate_shows_a_table_of_classes(call, base):
    done = call("evaluate", base, "--data", "digits", "--part", "train")
    assert "1,348" in done.out and "base on digits, train" in done.out
    assert "evaluating base" in done.err


# --- bench ------------------------------------------------------------------------------------

SHORT = ["--repeats", 2, "--seconds", 0.005, "--threads", 1]


def test_bench_compares_with_the_first_and_tells_equal_names_apart(call, base, vinet, tmp_path):
    result = call("bench", base, vinet, "--batch-sizes", "1,4", *SHORT, "--json", "-q").json()
    first, second = result["networks"]
    assert (first["name"], second["name"]) == ("base", "vinet")
    assert [speed["batch_size"] for speed in second["throughput"]] == [1, 4]
    assert [speed["ratio"] for speed in first["throughput"]] == [1, 1]
    assert second["sizes"]["by_part"] == open_network(str(vinet)).network.parts()
    assert second["flops"] < first["flops"]
    other = shutil.copytree(base, tmp_path / "base")
    nets = [base, other, "digits_cnn"]
    result = call("bench", *nets, "--batch-sizes", "2", *SHORT, "--json").json()
    assert [n["name"] for n in result["networks"]] == list(map(str, nets))


def test_bench_takes_exported_files_and_says_what_runs_them(call, base, vinet, tmp_path):
    pytest.importorskip("onnxruntime")
    out, int8 = tmp_path / "plain.onnx", tmp_path / "int8.onnx"
    call("export", vinet, "--out", out)
    rounded = ["--format", "onnx-int8", "--data", "digits", "--most-lost", 100]
    call("export", base, "--out", int8, *rounded)
    short = ["--batch-sizes", "1,4", *SHORT]
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
    table = call("bench", vinet, out, *short).out
    assert all(part in table for part in ("onnxruntime", "precision", "ratio", "backbone 28,192"))


def test_speed_is_that_on_inputs_that_differ(base, monkeypatch):
    seen = []

    def remember(networks, example, **options):
        seen.append(example)
        raise ValueError("enough")

    monkeypatch.setattr("vinets.measure.bench", remember)
    for seed in (0, 0, 1):
        run("bench", base, "--batch-sizes", "1,6", "--seed", seed)
    assert seen[0].shape == (6, 1, 8, 8) and len(seen[0].unique(dim=0)) == 6
    assert torch.equal(seen[0], seen[1]) and not torch.equal(seen[0], seen[2])
    made = noise_like({"ids": torch.tensor([[3, 1]]), "x": torch.zeros(1, 2)}, 3, 0)
    assert made["ids"].tolist() == [[3, 1]] * 3 and made["x"].shape == (3, 2)


# --- predict ----------------------------------------------------------------------------------


def test_predictions_are_those_of_the_network(call, base, pictures):
    words = ["predict", base, pictures, "--top", 4, "--batch-size", 3]
    found, test = call(*words, "--json").json()["predictions"], digits().test
    with torch.no_grad():
        shares = open_network(str(base)).network(test.preprocessing(test.images[:10])).softmax(1)
    assert [p["path"] for p in found] == [str(pictures / str(k) / "digit.png") for k in range(10)]
    for entry, row in zip(found, shares, strict=True):
        order = row.argsort(descending=True)[:4].tolist()
        assert [c["name"] for c in entry["classes"]] == [str(k) for k in order]
        told = [c["probability"] for c in entry["classes"]]
        np.testing.assert_allclose(told, row[order].numpy(), rtol=1e-4)
    assert call(*words).out.count("%") == 40


def test_a_network_of_the_package_is_used_by_its_name(call, pictures):
    """From nothing: a picture comes along, and others are taken."""
    own = call("predict", "vinets/digits-cnn-products", "--top", 1, "--json").json()
    assert own["predictions"][0]["classes"][0]["name"] == str(int(digits().test.labels[0]))
    call("predict", "vinets/digits-cnn-products", pictures / "3" / "digit.png")
    assert "vinets/digits-cnn-vinet" in call("predict", "--help").out


# --- export -----------------------------------------------------------------------------------


def test_export_writes_a_program_and_says_where(call, vinet, tmp_path):
    out = tmp_path / "vinet.pt2"
    done = call("export", vinet, "--out", out, "--json")
    report = done.json()
    assert (report["path"], report["format"]) == (str(out), "torch")
    assert report["size"] == out.stat().st_size
    assert done.err == f"Written to {out}\n"
    assert call("export", vinet, "--out", out, "--quiet").err == ""


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
    assert "is exported" in refused("export", out, "--out", tmp_path / "y.onnx")


def test_a_network_is_exported_by_name_with_its_weights(call, base, tmp_path):
    pytest.importorskip("onnxruntime")
    weights, by_name, by_folder = base / "weights.safetensors", "name.onnx", "folder.onnx"
    given = ["--weights", weights, "--data", "digits"]
    named = call("export", "digits_cnn", *given, "--out", tmp_path / by_name, "--json").json()
    call("export", base, "--data", "digits", "--out", tmp_path / by_folder)
    assert named["accuracy"] == named["network_accuracy"]
    assert (tmp_path / by_name).read_bytes() == (tmp_path / by_folder).read_bytes()


def test_several_images_and_folders_are_classified_at_once(call, products, tmp_path):
    for name in ("a.png", "b.png", "more/c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.fromarray(np.full((8, 8), 99, np.uint8)).save(tmp_path / name)
    paths = [tmp_path / "b.png", tmp_path / "a.png", tmp_path / "more"]
    told = call("predict", products, *paths, "--top", 1, "--json").json()["predictions"]
    assert [Path(one["path"]).name for one in told] == ["b.png", "a.png", "c.png"]


def test_answers_that_are_no_numbers_are_refused(base, tmp_path):
    weights = load_file(base / "weights.safetensors")
    weights["fc.bias"][3] = float("nan")
    save_file(weights, tmp_path / "weights.safetensors")
    given = ["digits_cnn", "--weights", tmp_path / "weights.safetensors", "--data", "digits"]
    assert "no number (NaN)" in run("evaluate", *given).err


def test_a_network_of_the_package_is_explained_with_its_own_picture_and_data(call, refused):
    told = call("explain", "vinets/digits-cnn-products", "--neighbours", 1, "--json").json()
    assert told["explanation"]["answer"] and told["image"].endswith("example.png")
    assert "Pass an image" in refused("explain", "vinets/resnet18-cifar10-vinet")
