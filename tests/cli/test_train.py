from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from vinets.data import digits
from vinets.models import digits_cnn

OPTIONS = ["--model", "digits_cnn", "--data", "digits"]


def test_the_folder_holds_a_network_that_is_as_good_as_it_says(base):
    told = json.loads((base / "network.json").read_text())
    assert told["source"]["name"] == "digits_cnn"
    assert told["classes"] == [str(k) for k in range(10)]
    assert told["training"]["recipe"]["epochs"] == 3
    assert told["training"]["recipe"]["batch_size"] == 64
    model = digits_cnn()
    model.load_state_dict(load_file(base / "weights.safetensors"))
    test = digits().test
    with torch.no_grad():
        guesses = model.eval()(test.preprocessing(test.images)).argmax(1)
    accuracy = (guesses == test.labels).double().mean().item()
    assert accuracy == pytest.approx(told["training"]["test"]["accuracy"])
    assert accuracy > 0.6


def test_an_interrupted_training_goes_on_to_the_same_weights(call, base, tmp_path, monkeypatch):
    from vinets.training import loop

    options = [*OPTIONS, "--out", tmp_path, "--epochs", 3, "--json"]
    whole = loop._epoch

    def stop_in_the_second(*arguments):
        if arguments[3] == 2:
            raise KeyboardInterrupt
        return whole(*arguments)

    monkeypatch.setattr(loop, "_epoch", stop_in_the_second)
    done = call("train", *options)
    assert done.code == 130
    assert "Run the same command again" in done.err
    assert not (tmp_path / "network.json").exists()
    monkeypatch.setattr(loop, "_epoch", whole)
    result = call("train", *options).json()
    assert result["out"] == str(tmp_path)
    assert {"parameters", "test", "recipe", "best_epoch", "seconds", "machine"} <= result.keys()
    theirs, ours = (load_file(f / "weights.safetensors") for f in (base, tmp_path))
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)


def test_other_settings_in_the_same_folder_are_refused(refused, base):
    assert "differ in epochs." in refused("train", *OPTIONS, "--out", base, "--epochs", 4)
    other = ["--epochs", 3, "--split-seed", 1]
    assert "with other data." in refused("train", *OPTIONS, "--out", base, *other)


def test_grey_and_coloured_images_of_any_number_of_classes_are_taken(call, tmp_path, random):
    np.save(tmp_path / "X.npy", random.integers(256, size=(40, 6, 6, 3), dtype=np.uint8))
    np.save(tmp_path / "y.npy", np.arange(40) % 4)
    data = f"{tmp_path / 'X.npy'},{tmp_path / 'y.npy'}"
    options = ["--model", "digits_cnn", "--data", data, "--epochs", 1, "--out", tmp_path / "out"]
    done = call("train", *options, "--split-seed", 3)
    assert done.code == 0
    assert f"Next: vinets compress {tmp_path / 'out'} --data {data} --split-seed 3 --" in done.err
    told = json.loads((tmp_path / "out" / "network.json").read_text())
    assert told["source"]["options"] == {"num_classes": 4, "channels": 3}
    assert told["inputs"][""]["shape"] == [3, 6, 6]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "digits_cn", "--data", "digits"], "nearest names are digits_cnn"),
        (
            ["--model", "text_transformer", "--data", "digits"],
            "does not take inputs of shape (1, 8, 8)",
        ),
        (["--model", "digits_cnn", "--data", "cifar9"], "'cifar10:DIR'"),
        (["--model", "digits_cnn", "--data", "imags"], "There is no such file or folder."),
        ([*OPTIONS, "--device", "cuda:99"], "CUDA"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(refused, tmp_path, options, message):
    assert message in refused("train", *options, "--out", tmp_path)


def test_bad_values_are_refused_before_any_work(refused, tmp_path, monkeypatch):
    monkeypatch.setattr("vinets.data.load_data", lambda *_, **__: pytest.fail("data was read"))
    out = tmp_path / "out"
    assert "--momentum must be" in refused("train", *OPTIONS, "--out", out, "--momentum", 1)
    assert "with nesterov" in refused("train", *OPTIONS, "--out", out, "--momentum", 0)
    assert not out.exists()


def test_a_trained_folder_is_no_network_to_train(refused, base, tmp_path):
    message = refused("train", "--model", base, "--data", "digits", "--out", tmp_path)
    assert "to train from scratch" in message


def test_a_recipe_has_network_data_and_training(call, base, tmp_path):
    """The same as by --model and --data, where the recipe is theirs."""
    done = call("train", "--recipe", "digits-cnn", "--epochs", 3, "--out", tmp_path)
    assert done.code == 0
    assert "known to reach" not in done.err  # of three epochs, nothing is known
    assert f"Next: vinets compress {tmp_path} --data digits --budget drop=1" in done.err
    theirs, ours = (load_file(f / "weights.safetensors") for f in (base, tmp_path))
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)


def test_what_to_expect_is_told_at_the_end(call, tmp_path, monkeypatch):
    from vinets import pretrained
    from vinets.core.settings import RECIPES

    facts = pretrained.expected("digits-cnn")
    told = f"{100 * np.mean(facts['accuracies']):.2f}%"
    short = replace(RECIPES["digits-cnn"].recipe, epochs=1)
    monkeypatch.setitem(RECIPES, "digits-cnn", replace(RECIPES["digits-cnn"], recipe=short))
    assert f"reach {told}" in call("train", "--recipe", "digits-cnn", "--out", tmp_path).err


def test_a_recipe_that_is_none_or_has_a_rival_is_refused(refused, tmp_path):
    out = ["--out", tmp_path]
    assert "Did you mean 'digits-cnn'?" in refused("train", "--recipe", "digit-cnn", *out)
    other = ["--recipe", "digits-cnn", "--model", "resnet18"]
    assert "digits-cnn is for digits_cnn" in refused("train", *other, *out)
    assert "Pass --model and --data, or --recipe" in refused("train", "--model", "vit", *out)


def test_a_network_that_learned_nothing_is_told_of(call, tmp_path):
    words = ["train", "--model", "digits_cnn", "--data", "digits", "--epochs", 1, "--quiet"]
    done = call(*words, "--learning-rate", 1e-6, "--out", tmp_path)
    assert done.code == 0 and "of chance: train it for more --epochs" in done.err
    assert "Warning" in call(*words, "--learning-rate", 1e-6, "--out", tmp_path, "--json").err
