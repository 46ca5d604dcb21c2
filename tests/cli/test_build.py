from __future__ import annotations

import json

import pytest
import torch

from vinets.core.plain import from_plain
from vinets.data import digits
from vinets.networks import CutNetwork, VINet
from vinets.paper.backbones import SIZES
from vinets.runs.compare import BuildResult, compare_heads
from vinets.runs.open import open_with_data
from vinets.runs.trial import Trial, trial_from

PRODUCTS = ["--head", "products"]
BASELINES = {"linear, flat", "linear, pooled", "MLP", "random monomials"}


def accuracy(network: torch.nn.Module) -> float:
    test = digits().test
    with torch.no_grad():
        guesses = network.eval()(test.preprocessing(test.images)).argmax(1)
    return (guesses == test.labels).double().mean().item()


def read(folder) -> BuildResult:
    return BuildResult.read(folder / "results.json")


@pytest.fixture(scope="module")
def results(vinet) -> BuildResult:
    return read(vinet)


def test_the_results_have_what_they_promise(results):
    assert results.command[0] == "vinets" and results.machine["torch"]
    assert (results.data, results.seed) == ("digits", 0)
    names = [*results.networks]
    assert names[0] == "VI-Net" and set(names) >= BASELINES
    for name, network in results.networks.items():
        assert results.timed.speeds[name].mean > 0 and network.seconds > 0
        assert len(network.history.epochs) == 2 and network.history.best in (1, 2)
        assert network.accuracy == pytest.approx(1 - len(network.wrong) / 449)
        assert sum(network.build.seconds.values()) > 0
    assert (results.cut, results.shape) == ("relu3", (64, 16))
    assert results.first.build.generators_kept == 40


def test_the_saved_networks_are_as_accurate_and_as_large_as_the_table_says(vinet, results):
    folders = {"VI-Net": vinet, "MLP": vinet / "baselines" / "mlp"}
    found = results.networks
    for name, folder in folders.items():
        network = CutNetwork.from_pretrained(folder)
        assert accuracy(network) == pytest.approx(found[name].accuracy)
        assert found[name].parts == network.parts()
        assert found[name].parameters == sum(network.parts().values())
    assert isinstance(VINet.from_pretrained(vinet), VINet)
    ours = found["VI-Net"]
    assert ours.parts == ours.build.parts
    assert ours.parameters_head == ours.parameters - ours.parts["backbone"]


def test_the_uncut_network_is_the_one_that_was_trained(base, results):
    trained = json.loads((base / "network.json").read_text())["training"]["test"]
    assert results.timed.uncut == pytest.approx(trained["accuracy"])
    assert results.timed.parameters == 103_466


def test_the_same_command_goes_on_and_gives_the_same(call, base, vinet, results, build_options):
    done = call("build", base, "--out", vinet, *build_options, "--baselines", "--views", 1)
    assert done.code == 0
    for name in ["uncut", "VI-Net", *BASELINES]:
        assert f"\n{name} " in done.out
    assert read(vinet).networks == results.networks  # seconds and speed included


def test_equal_seeds_give_equal_networks(call, base, vinet, results, build_options, tmp_path):
    done = call("build", base, "--out", tmp_path, *build_options, "--views", 1, "--json", "-q")
    ours = from_plain(BuildResult, done.json()).first
    assert done.err == ""
    assert ours.wrong == results.first.wrong
    ours, theirs = (VINet.from_pretrained(f).state_dict() for f in (tmp_path, vinet))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_the_library_does_without_the_program(base, results, tmp_path):
    opened, split = open_with_data(base, "digits")
    sizes = {"components": 8, "keep": 4, "monomials": 32, "max_degree": 2, "per_class": 40}
    sizes["trained"] = "coefficients"
    trial = Trial.of("vanishing", cut="relu3", **(SIZES["digits_cnn"] | sizes))
    trial = trial.change(epochs=2, views=1, batch=16, repeats=1, seconds=0.0)
    found = compare_heads(opened.network, split, trial, tmp_path, device="cpu", progress=None)
    (ours,) = found.networks.values()
    assert ours.wrong == results.first.wrong
    assert read(tmp_path).networks == found.networks


def test_options_reach_the_library(call, base, build_options, tmp_path):
    more = ["--head", "local", "--algorithm", "oavi", "--oracle", "exact", "--psi", 0.2]
    training = ["--distill", 0.5, "--temperature", 3, "--clip", 1, "--schedule", "constant"]
    options = [*build_options, *more, *training, "--keep", "all", "--cut", "50%", "--seed", 5]
    result = call("build", base, "--out", tmp_path, *options, "--json").json()
    found = from_plain(BuildResult, result)
    assert (found.first.build.head, found.cut, result["seed"]) == ("local", "pool", 5)
    recipe = found.first.history.recipe
    assert (recipe.distill, recipe.temperature, recipe.clip) == (0.5, 3, 1)
    assert (recipe.schedule, recipe.seed) == ("constant", 5)
    kept = settings(tmp_path)
    options = kept.options
    assert (options.algorithm, options.oracle, options.psi) == ("oavi", "exact", 0.2)
    assert options.keep is None
    assert (kept.seed, kept.timing.batch) == (5, 16)


QUICK = ["--epochs", 1, "--repeats", 1, "--seconds", 0, "--batch", 16, "--quiet"]


def parameters_changed(net: CutNetwork, base) -> list[str]:
    uncut = open_with_data(base, "digits")[0].network
    mine, given = dict(net.backbone.named_parameters()), dict(uncut.named_parameters())
    return [name for name, weight in mine.items() if not torch.equal(weight, given[name])]


def test_what_is_made_of_a_network_when_nothing_is_said(call, base, tmp_path):
    command = ["build", base, "--data", "digits", "--cut", "pool", *QUICK]
    assert call(*command, "--out", tmp_path / "out").code == 0
    paper = Trial.of("vanishing", cut="pool", **SIZES["digits_cnn"]).change(epochs=1)
    kept = settings(tmp_path / "out")
    for name in ("cut", "head", "options", "latents", "recipe"):
        assert getattr(kept, name) == getattr(paper, name)
    net = VINet.from_pretrained(tmp_path / "out")
    assert net.head.kind == "vanishing" and parameters_changed(net, base) == []


def test_products_are_tuned_with_the_backbone(call, base, tmp_path):
    command = ["build", base, "--data", "digits", "--cut", "pool", *QUICK]
    assert call(*command, *PRODUCTS, "--out", tmp_path / "out").code == 0
    kept, usual = settings(tmp_path / "out"), Trial.of("products", epochs=1)
    assert (kept.options, kept.latents, kept.recipe) == (usual.options, usual.latents, usual.recipe)
    net = CutNetwork.from_pretrained(tmp_path / "out")
    assert type(net) is CutNetwork and net.head.label == "product head"
    # the backbone that was given is left as it was
    assert parameters_changed(net, base) == list(dict(net.backbone.named_parameters()))
    assert net.head.kind == "products" and net.record.notes["tuned"] == "backbone"


def test_closed_forms_need_no_epochs(call, base, tmp_path):
    command = ["build", base, "--data", "digits", "--cut", "pool", "--repeats", 1, "--seconds", 0]
    found = call(*command, "--head", "closed", "--out", tmp_path / "out", "--json", "-q")
    ours = from_plain(BuildResult, found.json()).first
    assert ours.accuracy > 0.8 and [one.epoch for one in ours.history.epochs] == [0]
    assert "closed form:" in call(*command, "--head", "closed", "--out", tmp_path / "out").err
    net = CutNetwork.from_pretrained(tmp_path / "out")
    assert parameters_changed(net, base) == []


def test_a_head_that_is_as_large_as_the_vi_net_is(call, base, tmp_path):
    words = ("build", base, "--data", "digits", "--cut", "pool", "--seconds", 0.01, "--json")
    sizes = []
    for head in ("vanishing", "mlp"):
        out = tmp_path / head
        result = call(*words, "--head", head, "--epochs", 1, "--out", out).json()
        (network,) = result["networks"].values()
        sizes.append(sum(network["parts"].values()))
    assert 0.9 * sizes[0] < sizes[1] <= sizes[0]


@pytest.mark.parametrize("cut", ["relu2", "avgpool"])
def test_a_map_and_a_vector_take_products_and_what_stands_beside_them(call, base, tmp_path, cut):
    command = ["build", base, "--data", "digits", "--cut", cut, *QUICK, "--baselines"]
    products = [*PRODUCTS, "--parameters", 4000]
    done = call(*command, *products, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    found = read(tmp_path / "out")
    assert (found.shape[1] == 1) == (cut == "avgpool")
    assert found.networks.keys() >= {
        "product head",
        "MLP",
        "local ReLU units",
    }


def settings(folder) -> Trial:
    """What the network in the folder was made by."""
    return trial_from(json.loads((folder / "store.json").read_text())["saved"]["."])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cut", "relu9"], "nearest names are relu"),
        (
            ["--cut", "relu3", "--components", "2", "--psi", "1e-30", "--max-degree", "1"],
            "raise psi or max_degree",
        ),
    ],
)
def test_bad_input_is_refused_in_one_sentence(refused, base, tmp_path, options, message):
    given = ["--data", "digits", "--out", tmp_path, "--quiet"]
    assert message in refused("build", base, *given, *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--algorithm", "gb"], "'abm', 'oavi', 'vca'"),
        (["--head", "local", "--tau", "5"], "tau is no option of abm"),
        ([*PRODUCTS, "--project-once"], "--project-once is for a backbone that stays as it is"),
        ([*PRODUCTS, "--views", "2"], "--views is for a backbone that stays as it is"),
        (["--head", "ridge", "--baselines"], "A head of kind 'ridge' has no baselines"),
        ([*PRODUCTS, "--start", "ideal", "--factors", "3"], "--factors must be 2 with start"),
        (["--nesterov", "--momentum", "0"], "above 0 with nesterov"),
    ],
)
def test_bad_values_are_refused_before_any_work(
    refused, base, tmp_path, monkeypatch, options, message
):
    monkeypatch.setattr("vinets.runs.open.load_data", lambda *_, **__: pytest.fail("work"))
    monkeypatch.setattr("vinets.runs.open.open_network", lambda *_: pytest.fail("work"))
    given = ["--data", "digits", "--cut", "relu3", "--out", tmp_path / "out"]
    assert message in refused("build", base, *given, *options)
    assert not (tmp_path / "out").exists()


def test_networks_that_cannot_be_cut_are_refused(refused, base, vinet, tmp_path):
    given = ["--data", "digits", "--cut", "relu3", "--out", tmp_path]
    assert "random weights" in refused("build", "digits_cnn", *given)
    assert "is cut already" in refused("build", vinet, *given)


def test_other_settings_in_the_same_folder_are_refused(refused, base, vinet, build_options):
    given = [*build_options, "--views", 1, "--psi", 0.05, "--out", vinet]
    assert "differ in psi." in refused("build", base, *given)


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
