"""``vinets train``, ``build`` and ``compress``."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from program import run
from safetensors.torch import load_file

from vinets import pretrained
from vinets.cli.shared import ReadingOptions, TrainingReadingOptions
from vinets.core.plain import from_plain
from vinets.core.settings import RECIPES
from vinets.data import digits
from vinets.models import digits_cnn
from vinets.networks import CutNetwork, VINet
from vinets.paper.backbones import SIZES
from vinets.runs.compare import BuildResult, compare_heads
from vinets.runs.on_data import open_with_data
from vinets.runs.trial import Trial, trial_from
from vinets.training import epochs

BASELINES = {"linear, flat", "linear, pooled", "MLP", "random monomials"}


def accuracy(network: torch.nn.Module) -> float:
    test = digits().test
    with torch.no_grad():
        guesses = network.eval()(test.preprocessing(test.images)).argmax(1)
    return (guesses == test.labels).double().mean().item()


def same_weights(*folders) -> bool:
    one, two = (load_file(folder / "weights.safetensors") for folder in folders)
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


# --- train ------------------------------------------------------------------------------------

TRAIN = ["train", "--model", "digits_cnn", "--data", "digits"]


def test_the_folder_holds_a_network_that_is_as_good_as_it_says(base):
    told = json.loads((base / "network.json").read_text())
    assert told["source"]["name"] == "digits_cnn"
    assert told["classes"] == [str(k) for k in range(10)]
    recipe = told["training"]["recipe"]
    assert (recipe["epochs"], recipe["batch_size"]) == (3, 64)
    model = digits_cnn()
    model.load_state_dict(load_file(base / "weights.safetensors"))
    assert 0.6 < accuracy(model) == pytest.approx(told["training"]["test"]["accuracy"])


def test_an_interrupted_training_goes_on_to_the_same_weights(call, base, tmp_path, monkeypatch):
    options = [*TRAIN, "--out", tmp_path, "--epochs", 3, "--json"]
    whole = epochs._epoch

    def stop_in_the_second(*arguments):
        if arguments[3] == 2:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(epochs, "_epoch", stop_in_the_second)
    assert run(*options).code == 130
    assert not (tmp_path / "network.json").exists()
    monkeypatch.setattr(epochs, "_epoch", whole)
    result = call(*options).json()
    assert result["out"] == str(tmp_path)
    assert {"parameters", "test", "recipe", "best_epoch", "seconds", "machine"} <= result.keys()
    assert same_weights(base, tmp_path)


def test_coloured_images_of_any_number_of_classes_are_taken(call, tmp_path, random):
    np.save(tmp_path / "X.npy", random.integers(256, size=(40, 6, 6, 3), dtype=np.uint8))
    np.save(tmp_path / "y.npy", np.arange(40) % 4)
    data, out = f"{tmp_path / 'X.npy'},{tmp_path / 'y.npy'}", tmp_path / "out"
    words = ["train", "--model", "digits_cnn", "--data", data, "--epochs", 1, "--out", out]
    done = call(*words, "--split-seed", 3)
    assert f"Next: vinets compress {out} --data {data} --split-seed 3 --" in done.err
    told = json.loads((out / "network.json").read_text())
    assert told["source"]["options"] == {"num_classes": 4, "channels": 3}
    assert told["inputs"][""]["shape"] == [3, 6, 6]


def test_a_recipe_has_network_data_and_training(call, base, tmp_path, monkeypatch):
    """The same as by --model and --data, and what to expect is told where nothing is changed."""
    done = call("train", "--recipe", "digits-cnn", "--epochs", 3, "--out", tmp_path / "three")
    assert "known to reach" not in done.err
    assert f"compress {tmp_path / 'three'} --data digits --budget drop=1" in done.err
    assert same_weights(base, tmp_path / "three")
    told = f"{100 * np.mean(pretrained.expected('digits-cnn')['accuracies']):.2f}%"
    short = replace(RECIPES["digits-cnn"].recipe, epochs=1)
    monkeypatch.setitem(RECIPES, "digits-cnn", replace(RECIPES["digits-cnn"], recipe=short))
    assert f"reach {told}" in call("train", "--recipe", "digits-cnn", "--out", tmp_path / "1").err


def test_a_network_that_learned_nothing_is_told_of(call, tmp_path):
    done = call(*TRAIN, "--epochs", 1, "-q", "--learning-rate", 1e-6, "--out", tmp_path, "--json")
    assert done.err.startswith("Warning: ")
    assert "of chance: train it for more --epochs" in done.err


# --- build ------------------------------------------------------------------------------------

QUICK = ["--epochs", 1, "--repeats", 1, "--seconds", 0, "--batch", 16, "--quiet"]
POOL = ["--data", "digits", "--cut", "pool", *QUICK]


def read(folder) -> BuildResult:
    return BuildResult.read(folder / "results.json")


def settings(folder) -> Trial:
    """What the network in the folder was made by."""
    return trial_from(json.loads((folder / "store.json").read_text())["saved"]["."])


def parameters_changed(net: CutNetwork, base) -> list[str]:
    uncut = open_with_data(base, "digits")[0].network
    mine, given = dict(net.backbone.named_parameters()), dict(uncut.named_parameters())
    return [name for name, weight in mine.items() if not torch.equal(weight, given[name])]


@pytest.fixture(scope="module")
def results(vinet) -> BuildResult:
    return read(vinet)


def test_the_results_have_what_they_promise(base, results):
    assert results.command[0] == "vinets" and results.machine["torch"]
    assert (results.data, results.seed) == ("digits", 0)
    assert next(iter(results.networks)) == "VI-Net" and results.networks.keys() >= BASELINES
    for name, network in results.networks.items():
        assert results.timed.speeds[name].mean > 0 and network.seconds > 0
        assert len(network.history.epochs) == 2 and network.history.best in (1, 2)
        assert network.accuracy == pytest.approx(1 - len(network.wrong) / 449)
        assert sum(network.build.seconds.values()) > 0
    assert (results.cut, results.shape) == ("relu3", (64, 16))
    assert results.first.build.generators_kept == 40
    trained = json.loads((base / "network.json").read_text())["training"]["test"]
    assert results.timed.uncut == pytest.approx(trained["accuracy"])
    assert results.timed.parameters == 103_466


def test_the_saved_networks_are_as_accurate_and_as_large_as_the_table_says(vinet, results):
    folders = {"VI-Net": vinet, "MLP": vinet / "baselines" / "mlp"}
    found = results.networks
    for name, folder in folders.items():
        network = CutNetwork.from_pretrained(folder)
        assert accuracy(network) == pytest.approx(found[name].accuracy)
        assert found[name].parts == network.parts()
    ours, network = found["VI-Net"], VINet.from_pretrained(vinet)
    assert network.record.notes["accuracy"] == ours.accuracy
    assert ours.parts == ours.build.parts


def test_the_same_command_goes_on_and_other_settings_are_refused(
    call, refused, base, vinet, results, build_options
):
    words = ["build", base, "--out", vinet, *build_options, "--baselines", "--views", 1]
    printed = call(*words).out
    assert all(f"\n{name} " in printed for name in ["uncut", "VI-Net", *BASELINES])
    assert read(vinet).networks == results.networks  # seconds and speed included
    assert "differ in psi." in refused(*words, "--psi", 0.05, "--quiet")


def test_equal_seeds_give_equal_networks_with_the_program_and_without(
    call, base, vinet, results, build_options, tmp_path
):
    out = tmp_path / "program"
    done = call("build", base, "--out", out, *build_options, "--views", 1, "--json", "-q")
    assert done.err == ""
    assert from_plain(BuildResult, done.json()).first.wrong == results.first.wrong
    ours, theirs = (VINet.from_pretrained(f).state_dict() for f in (out, vinet))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    opened, split = open_with_data(base, "digits")
    sizes = {"components": 8, "keep": 4, "monomials": 32, "max_degree": 2, "per_class": 40}
    sizes["trained"] = "coefficients"
    trial = Trial.of("vanishing", cut="relu3", **(SIZES["digits_cnn"] | sizes))
    trial = trial.change(epochs=2, views=1, batch=16, repeats=1, seconds=0.0)
    found = compare_heads(opened.network, split, trial, tmp_path / "library", device="cpu")
    assert found.first.wrong == results.first.wrong
    assert read(tmp_path / "library").networks == found.networks


PRODUCTS = Trial.of("products", epochs=1)
SMALLER = PRODUCTS.change(parameters=3000, nesterov=False)
IDEAL = {"algorithm": "oavi", "oracle": "exact", "psi": 0.2, "components": 8, "keep": None}
TAUGHT = {"distill": 0.5, "temperature": 3.0, "clip": 1.0, "schedule": "constant"}
MADE = {
    "": Trial.of("vanishing", epochs=1, **SIZES["digits_cnn"]),
    "--head products": PRODUCTS,
    "--head products --parameters 3000 --batch-size 64 --no-nesterov": replace(
        SMALLER, recipe=replace(SMALLER.recipe, batch_size=64)
    ),
    "--head local --algorithm oavi --oracle exact --psi 0.2 --components 8 --keep all --seed 5 "
    "--distill 0.5 --temperature 3 --clip 1 --schedule constant --per-class 40 --cut 50%": Trial.of(
        "local", seed=5, per_class=40, epochs=1, **IDEAL, **TAUGHT
    ),
}


@pytest.mark.parametrize(("words", "trial"), MADE.items())
def test_a_network_is_made_by_options_and_what_suits_its_head(call, base, tmp_path, words, trial):
    done = call("build", base, *POOL, *words.split(), "--out", tmp_path, "--json")
    kept, result = settings(tmp_path), from_plain(BuildResult, done.json())
    for name in ("head", "options", "latents", "recipe", "seed"):
        assert getattr(kept, name) == getattr(trial, name)
    assert (result.cut, result.seed, kept.timing.batch) == ("pool", trial.seed, 16)
    recipe = result.first.history.recipe
    assert (recipe.schedule, recipe.seed) == (trial.recipe.schedule, trial.seed)
    kind = CutNetwork if trial.head == "products" else VINet
    net = kind.from_pretrained(tmp_path)
    assert type(net) is kind and net.head.kind == trial.head
    # the backbone that was given is left as it was
    tuned = list(dict(net.backbone.named_parameters())) if kind is CutNetwork else []
    assert parameters_changed(net, base) == tuned


def test_closed_forms_need_no_epochs(call, base, tmp_path):
    command = ["build", base, "--data", "digits", "--cut", "pool", "--repeats", 1, "--seconds", 0]
    found = call(*command, "--head", "closed", "--out", tmp_path / "out", "--json", "-q")
    ours = from_plain(BuildResult, found.json()).first
    assert ours.accuracy > 0.93 and [one.epoch for one in ours.history.epochs] == [0]
    assert "closed form:" in call(*command, "--head", "closed", "--out", tmp_path / "out").err
    net = CutNetwork.from_pretrained(tmp_path / "out")
    assert parameters_changed(net, base) == [] and accuracy(net) == pytest.approx(ours.accuracy)


def test_heads_of_one_size_are_compared(base, products):
    found = read(products)
    sizes = {name: one.parameters_head for name, one in found.networks.items()}
    assert next(iter(sizes)) == "product head" and "linear, pooled" in sizes
    assert 7600 < sizes["product head"] <= 8000
    assert 7600 < sizes["local ReLU units"] <= 8000 >= sizes["SimKD"]
    assert "random monomials" not in sizes  # no polynomials were found that these could control
    net = CutNetwork.from_pretrained(products)
    assert net.record.notes["tuned"] == "backbone" and net.head.factors == 3
    assert accuracy(net) == pytest.approx(found.first.accuracy)
    uncut = open_with_data(base, "digits")[0].network  # which is as it was
    assert accuracy(uncut) == pytest.approx(found.timed.uncut)


def test_a_vector_takes_products_and_what_stands_beside_them(call, base, tmp_path):
    words = ["--data", "digits", "--cut", "avgpool", *QUICK, "--baselines", "--parameters", 4000]
    call("build", base, *words, "--head", "products", "--out", tmp_path)
    found = read(tmp_path)
    assert found.shape[1] == 1
    assert found.networks.keys() >= {"product head", "MLP", "local ReLU units"}


def test_a_network_in_half_precision_answers_as_it_did(base, call, tmp_path):
    options = ["build", base, "--data", "digits", "--cut", "pool", "--out"]
    call(*options, tmp_path / "single")
    call(*options, tmp_path / "half", "--half")
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("single", "half")]
    assert sizes[1] < 0.65 * sizes[0]  # positions of monomials stay whole numbers
    single, half = (
        open_with_data(tmp_path / name, "digits")[0].network for name in ("single", "half")
    )
    assert next(half.parameters()).dtype == torch.float32
    assert accuracy(half) == pytest.approx(accuracy(single), abs=0.005)


def test_a_full_disk_leaves_nothing_half_written(refused, base, build_options, tmp_path, full_disk):
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    trained, built = tmp_path / "trained", tmp_path / "built"
    with full_disk(2_000):
        for words in ([*TRAIN, "--out", trained], ["build", base, *build_options, "--out", built]):
            said = refused(*words, "--epochs", 1, "--quiet")
            assert "could not be written" in said and "File too large" in said
    assert {path: path.read_bytes() for path in before} == before
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert not left & {"checkpoint.safetensors", "network.json", "config.json"}
    assert {name for name in left if name.startswith(".")} <= {".lock"}


# --- compress ---------------------------------------------------------------------------------

SMALL = ["--data", "digits", "--epochs", 1, "--cuts", 1, "--device", "cpu", "--quiet"]


@pytest.fixture(scope="module")
def words(base, tmp_path_factory):
    out = tmp_path_factory.mktemp("compress") / "small"
    options = [*SMALL, "--limit", 600, "--seed", 3, "--crop", 0.1, "--no-int8", "--out", out]
    # one epoch: one round, in which all are trained to the end
    return ["compress", base, *options, "--budget", "params=90%"]


@pytest.fixture(scope="module")
def found(call, words):
    return call(*words, "--json").json()


@pytest.mark.parametrize("head", ["products", "relu-units", "vanishing"])
def test_a_command_makes_the_same_network_again(call, found, head):
    one = next(one for one in found["attempts"] if one["candidate"]["head"] == head)
    program, *words = one["command"]
    assert program == "vinets" and words[words.index("--head") + 1] == head
    result = call(*words, "--quiet", "--json", "--seconds", 0.01).json()
    (network,) = result["networks"].values()
    assert sum(network["parts"].values()) == one["cost"]["parameters"]
    # it is tested on both halves, the one to choose by and the other
    halves = found["validation"], found["tested"]
    right = one["accuracies"]["1"] * halves[0] + one["test"] * halves[1]
    assert network["accuracy"] * sum(halves) == pytest.approx(right)
    assert right > 0.3 * sum(halves)  # chance would be no evidence


def test_a_person_reads_table_verdict_and_commands(call, found, words, base):
    printed = call(*words).out  # trains nothing, because all is there
    assert found["verdict"].partition(",")[0] in printed
    assert printed.count("vinets build ") == printed.count("--cut ") >= 2
    assert f"vinets evaluate {base} --data digits --device cpu" in printed


def test_a_plan_is_printed_and_nothing_is_written(call, base, tmp_path):
    options = [*SMALL[:-1], "--limit", 100, "--out", tmp_path / "out", "--dry-run"]
    done = call("compress", base, *options, "--budget", "macs=90%")
    assert " test examples and " in done.err and " of 100 training examples.\n" in done.err
    printed = done.out
    assert "What would be tried" in printed and "multiply-" in printed
    assert "Trained in rounds: " in printed and not (tmp_path / "out").exists()


def test_words_of_a_command_are_those_that_were_given():
    given = TrainingReadingOptions(weights="w.safetensors", size=8, mean=(0.5,), flip=False)
    words = ("--weights", "w.safetensors", "--size", "8", "--mean", "0.5")
    assert (given.words(ReadingOptions), given.words()) == (words, (*words, "--no-flip"))
