from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from vinets.data import digits
from vinets.ideals.abm import ABM
from vinets.models import resnet18, save_weights
from vinets.nn import CutNetwork, VINet
from vinets.pipeline import BuildReport
from vinets.pipeline.experiment import Timing, run_build
from vinets.training import Recipe

BASELINES = {"linear, flat", "linear, pooled", "MLP", "random monomials"}
ROW = {
    "name",
    "accuracy",
    "parameters",
    "parameters_head",
    "parts",
    "images_per_second",
    "images_per_second_std",
    "seconds_build",
    "seconds_train",
    "best_epoch",
}


def accuracy(network: torch.nn.Module) -> float:
    test = digits().test
    with torch.no_grad():
        guesses = network.eval()(test.preprocessing(test.images)).argmax(1)
    return (guesses == test.labels).double().mean().item()


@pytest.fixture(scope="module")
def results(vinet):
    return json.loads((vinet / "results.json").read_text())


def test_the_results_have_what_they_promise(results):
    assert results.keys() >= {"command", "machine", "seed", "uncut", "build", "rows"}
    names = [row["name"] for row in results["rows"]]
    assert names[0] == "VI-Net" and set(names) >= BASELINES
    assert all(row.keys() == ROW for row in results["rows"])
    assert list(results["histories"]) == names
    assert results["build"]["cut"] == "relu3"
    assert results["build"]["generators_kept"] == 40


def test_the_saved_networks_are_as_accurate_and_as_large_as_the_table_says(vinet, results):
    folders = {"VI-Net": vinet, "MLP": vinet / "baselines" / "mlp"}
    rows = {row["name"]: row for row in results["rows"]}
    for name, folder in folders.items():
        network = CutNetwork.from_pretrained(folder)
        assert accuracy(network) == pytest.approx(rows[name]["accuracy"])
        assert rows[name]["parts"] == network.parts()
        assert rows[name]["parameters"] == sum(network.parts().values())
    assert isinstance(VINet.from_pretrained(vinet), VINet)
    assert rows["VI-Net"]["parameters"] == results["build"]["parameters"]
    backbone = rows["VI-Net"]["parts"]["backbone"]
    assert rows["VI-Net"]["parameters_head"] == rows["VI-Net"]["parameters"] - backbone


def test_the_uncut_network_comes_first(base, results):
    trained = json.loads((base / "network.json").read_text())["training"]["test"]
    assert results["uncut"]["accuracy"] == trained["accuracy"]
    assert results["uncut"]["parameters"] == 103_466


def test_the_same_command_goes_on_and_gives_the_same(call, base, vinet, results, build_options):
    done = call("build", base, "--out", vinet, *build_options, "--baselines", "--views", 1)
    assert done.code == 0
    for name in ["uncut", "VI-Net", *BASELINES]:
        assert f"  {name} " in done.out
    again = json.loads((vinet / "results.json").read_text())
    assert again["histories"] == results["histories"]  # seconds of the epochs included
    for ours, theirs in zip(again["rows"], results["rows"], strict=True):
        assert ours["accuracy"] == theirs["accuracy"]


def test_equal_seeds_give_equal_networks(call, base, vinet, results, build_options, tmp_path):
    done = call("build", base, "--out", tmp_path, *build_options, "--views", 1, "--json", "-q")
    (row,) = done.json()["rows"]
    assert done.err == ""
    assert row["accuracy"] == results["rows"][0]["accuracy"]
    ours, theirs = (VINet.from_pretrained(f).state_dict() for f in (tmp_path, vinet))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_the_library_does_without_the_program(base, vinet, results, tmp_path):
    from vinets.pipeline.opening import open_with_data

    opened, split = open_with_data(str(base), "digits")
    seen: list[BuildReport] = []
    found = run_build(
        opened.network,
        split,
        "relu3",
        tmp_path,
        ideal=ABM(psi=0.1, max_degree=2),
        options={"n_components": 8, "keep": 4, "monomials": 32, "per_class": 40},
        recipe=Recipe(epochs=2),
        views=1,
        timing=Timing(16, 1, 0.0),
        device="cpu",
        on_build=seen.append,
        progress=None,
    )
    assert found["rows"][0]["accuracy"] == results["rows"][0]["accuracy"]
    assert seen[0].parameters == found["rows"][0]["parameters"]
    written = json.loads((tmp_path / "results.json").read_text())
    assert (written["rows"], written["uncut"]) == (found["rows"], found["uncut"])


def test_options_reach_the_library(call, base, build_options, tmp_path):
    more = ["--placement", "local", "--algorithm", "oavi", "--oracle", "exact", "--psi", 0.2]
    training = ["--distill", 0.5, "--temperature", 3, "--clip", 1, "--schedule", "constant"]
    options = [*build_options, *more, *training, "--keep", "all", "--cut", "50%", "--seed", 5]
    result = call("build", base, "--out", tmp_path, *options, "--json").json()
    assert result["build"]["placement"] == "local"
    assert result["build"]["cut"] == "pool"
    recipe = result["histories"]["VI-Net"]["recipe"]
    assert (recipe["distillation"], recipe["temperature"], recipe["clip"]) == (0.5, 3, 1)
    assert (recipe["schedule"], recipe["seed"], result["seed"]) == ("constant", 5, 5)
    kept = json.loads((tmp_path / "settings.json").read_text())
    assert kept["ideal"]["algorithm"] == "OAVI"
    assert (kept["ideal"]["oracle"], kept["ideal"]["psi"]) == ("exact", 0.2)
    assert kept["options"]["keep"] is None


def test_a_preset_names_network_and_cut_and_gives_way_to_options(
    call, refused, tmp_path, random, build_options
):
    np.save(tmp_path / "X.npy", random.integers(256, size=(30, 16, 16, 3), dtype=np.uint8))
    np.save(tmp_path / "y.npy", np.arange(30) % 3)
    torch.manual_seed(0)
    save_weights(resnet18(3), tmp_path / "w.safetensors")
    data = ["--data", f"{tmp_path / 'X.npy'},{tmp_path / 'y.npy'}"]
    options = [*data, "--weights", tmp_path / "w.safetensors", "--preset", "vi-net18-tiny"]
    small = ["--components", 4, "--monomials", 20, "--per-class", 8, "--max-degree", 2]
    quick = ["--epochs", 1, "--seconds", 0, "--repeats", 1, "--batch", 2, "--json"]
    result = call("build", *options, *small, *quick, "--out", tmp_path / "out").json()
    assert result["build"]["cut"] == "layer2.1.bn2"
    kept = json.loads((tmp_path / "out" / "settings.json").read_text())["options"]
    assert (kept["n_components"], kept["keep"], kept["monomials"]) == (4, 128, 20)
    wrong = [*data, "--preset", "VI-Net34-Tiny", "--weights", tmp_path / "w.safetensors"]
    assert "VI-Net34-Tiny is a resnet34" in refused("build", "resnet18", *wrong, "--out", tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Pass --cut"),
        (["--cut", "relu9"], "nearest names are relu"),
        (["--preset", "VI-Net19"], "The nearest are"),
        (["--cut", "relu3", "--keep", "none"], "positive integer or 'all'"),
        (["--cut", "relu3", "--placement", "both"], "'global', 'local'"),
        (["--cut", "relu3", "--learning-rate", "-1"], "learning_rate"),
        (
            ["--cut", "relu3", "--components", "2", "--psi", "1e-30", "--max-degree", "1"],
            "raise psi or max_degree",
        ),
        (["--cut", "relu3", "--preset", "VI-Net18-Tiny"], "is a resnet18"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(refused, base, tmp_path, options, message):
    given = ["--data", "digits", "--out", tmp_path, "--per-class", 20, "--quiet"]
    assert message in refused("build", base, *given, *options)


def test_networks_that_cannot_be_cut_are_refused(refused, base, vinet, tmp_path):
    given = ["--data", "digits", "--cut", "relu3", "--out", tmp_path]
    assert "random weights" in refused("build", "digits_cnn", *given)
    assert "is cut already" in refused("build", vinet, *given)
    assert "Pass MODEL" in refused("build", *given)


def test_other_settings_in_the_same_folder_are_refused(refused, base, vinet, build_options):
    given = [*build_options, "--views", 1, "--psi", 0.05, "--out", vinet]
    assert "differ in psi." in refused("build", base, *given)
