"""How images are normalised and augmented, by choice and by what networks know."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from vinets.core.files import read_json
from vinets.data import digits
from vinets.models import create_model, normalisation_of, save_weights
from vinets.models.libraries.timm import import_timm
from vinets.runs.on_data import open_with_data

WRONG = ["--mean", "0.999", "--std", "0.001"]


def test_a_network_that_is_normalised_wrongly_is_told_of(
    call, refused, base, tmp_path, build_options
):
    weights = ["digits_cnn", "--weights", base / "weights.safetensors", "--data", "digits", "-q"]
    assert call("evaluate", *weights).err == ""
    wrong = call("evaluate", *weights, "--json", *WRONG)
    assert wrong.json()["accuracy"] < 0.2
    assert wrong.err.startswith("Warning: digits_cnn is right on ") and "--mean" in wrong.err
    assert wrong.err.count("\n") == 1
    built = call("build", *weights, *build_options, *WRONG, "--out", tmp_path / "vinet")
    assert built.err.startswith("Warning: The uncut network is right on ")
    assert built.err.count("Warning") == 1
    small = ["--epochs", 1, "--cuts", 1, "--limit", 200, "--no-int8", "--budget", "params=50%"]
    words = ["compress", *weights, *WRONG, *small, "--out", tmp_path / "small"]
    assert refused(*words).startswith("Error: The uncut network is right on ")
    assert not (tmp_path / "small" / "trials.jsonl").exists()
    done = call(*words, "--despite-doubt")
    assert "Warning: The uncut network is right on " in done.err


def test_another_order_of_classes_is_told_and_applied(call, refused, base, tmp_path, build_options):
    whole, parts = digits(), []
    for source, count in ((whole.train, 400), (whole.test, 300)):  # not the split of the training
        some = source.subset(torch.arange(count))
        for name, values in (("X", some.images), ("y", (some.labels + 3) % 10)):
            parts.append(tmp_path / f"{name}{count}.npy")
            np.save(parts[-1], values.numpy())
    words = ["digits_cnn", "--weights", base / "weights.safetensors", "--data"]
    words.append(",".join(map(str, parts)))
    done = call("evaluate", *words, "--json")
    told = done.json()
    assert told["accuracy"] < 0.1 and "classes are in the order of " in told["guessed"]
    assert told["guessed"] in done.err
    file = done.err.partition("check ")[2].partition(",")[0]
    small = ["--budget", "params=50%", "--quiet", "--out", tmp_path / "small"]
    assert "in another order it would be right on about" in refused("compress", *words, *small)
    words += ["--classes", file]
    done = call("evaluate", *words, "--json")
    assert done.json()["accuracy"] > 0.9 and "order" not in done.json()["guessed"]
    assert "matched by number with the 10 of digits_cnn" in done.err and "Warning" not in done.err
    # what is made of it has the order of the network, and finds the data by itself
    done = call("build", *build_options, *words, "--out", tmp_path / "vinet")
    assert "network is right on 9" in done.err and "Guessed: " in done.err
    names = read_json(tmp_path / "vinet" / "config.json")["record"]["classes"]
    assert names == [str((k + 3) % 10) for k in range(10)]
    done = call("evaluate", tmp_path / "vinet", "--data", words[4], "--json")
    (built,) = read_json(tmp_path / "vinet" / "results.json")["networks"].values()
    assert done.json()["accuracy"] == pytest.approx(built["accuracy"])


def test_data_have_the_classes_of_the_network_or_some_of_them(call, refused, colours, tmp_path):
    weights, names = tmp_path / "w.safetensors", tmp_path / "names.txt"
    save_weights(create_model("digits_cnn", 3, channels=3), weights)
    names.write_text("Light\ngrey\nDARK\n")
    words = ["digits_cnn", "--weights", weights, "--classes", names, "--data"]
    done = call("evaluate", *words, colours, "--json")
    assert "The 2 classes of images are matched by name with the 3 of digits_cnn." in done.err
    assert [sum(row) > 0 for row in done.json()["confusion"]] == [True, False, True]
    told = refused("build", *words, colours, "--cut", "pool", "-q", "--out", tmp_path / "out")
    assert "1 of the 3 classes have no examples to train on" in told


def test_weights_know_their_classes_from_a_config_beside_them(colours, tmp_path):
    weights = tmp_path / "w.safetensors"
    save_weights(create_model("resnet20", 3), weights)
    config = {"id2label": {"0": "Light", "1": "grey", "2": "DARK"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    opened, split = open_with_data("resnet20", colours, weights=weights)
    assert opened.classes == split.train.classes == ("Light", "grey", "DARK")
    assert set(split.train.labels.tolist()) == {0, 2}
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"0": 5, "x": "y"}}))
    with pytest.raises(ValueError, match="--classes FILE"):  # three outputs for two classes
        open_with_data("resnet20", colours, weights=weights)
    names = ("background", "dark", "light")
    opened, split = open_with_data("resnet20", colours, weights=weights, classes=names)
    assert opened.classes == split.test.classes == names


def test_a_network_that_fell_far_below_what_was_stated_is_told_of(call, base, tmp_path):
    stated = read_json(base / "network.json")["training"]["test"]["accuracy"]
    done = call("evaluate", base, "--data", "digits", "--quiet", "--mean", "0.5")
    assert f"far below the {100 * stated:.1f} % that were stated when it was saved" in done.err


def test_results_are_not_mixed_with_those_of_images_read_otherwise(
    call, refused, base, tmp_path, build_options
):
    start = ["build", base, *build_options, "--quiet", "--out", tmp_path / "out"]
    for _ in range(2):
        call(*start)
    assert "other preprocessing" in refused(*start, "--no-flip")
    assert "other preprocessing" in refused(*start, "--mean", "0.31")


def test_a_timm_network_is_given_images_as_timm_has_it(call, colours, tmp_path, build_options):
    try:
        import_timm()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    name, weights = "timm:mobilenetv3_small_050", tmp_path / "w.safetensors"
    model = create_model(name, 2)
    save_weights(model, weights)
    mean, std = model.pretrained_cfg["mean"], model.pretrained_cfg["std"]
    split = open_with_data(name, colours, weights=weights)[1]
    assert (split.test.preprocessing.mean, split.test.preprocessing.std) == (mean, std)
    split = open_with_data(name, colours, weights=weights, mean=(0.5,))[1]
    assert (split.train.preprocessing.mean, split.train.preprocessing.std) == ((0.5,) * 3, std)
    # it stays with what is made of the network
    cut, out = ["--data", colours, "--cut", "blocks.1.0", "--per-class", 8], tmp_path / "vinet"
    done = call("build", name, "--weights", weights, *build_options, *cut, "--out", out)
    assert f"normalised as timm tells, by mean {mean[0]:g}, " in done.err
    kept = read_json(out / "config.json")["record"]["preprocessing"]
    assert (tuple(kept["mean"]), tuple(kept["std"])) == (mean, std)
    image = colours / "dark" / "0.png"
    assert call("predict", out, image, "--json").json()["predictions"][0]["classes"]


def test_a_processor_beside_the_weights_tells_how_images_are_normalised(colours, tmp_path):
    pytest.importorskip("transformers")
    spec, weights = "hf:BertModel", tmp_path / "model.safetensors"
    told = {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(told))
    assert normalisation_of(spec, None, weights) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_mean": "x"}))
    assert normalisation_of(spec, None, weights) is None


def test_training_keeps_what_it_was_normalised_by(call, tmp_path):
    words = ["train", "--model", "digits_cnn", "--data", "digits", "--epochs", 1, "--quiet"]
    call(*words, "--out", tmp_path, "--mean", "0.5", "--std", "0.25")
    kept = read_json(tmp_path / "network.json")["preprocessing"]
    assert (kept["mean"], kept["std"]) == ([0.5], [0.25])


def test_photographs_are_left_out_and_cut_alike_by_all_commands(
    call, refused, random, build_options, tmp_path
):
    image, folder, base = pytest.importorskip("PIL.Image"), tmp_path / "photos", tmp_path / "base"
    for name, level in (("dark", 60), ("light", 160)):
        (folder / name).mkdir(parents=True)
        for i in range(12):
            pixels = random.integers(level, level + 40, (9, 16, 3), dtype=np.uint8)
            image.fromarray(pixels).save(folder / name / f"{i}.png")
    for name in ("dark/3.png", "light/7.png"):
        (folder / name).write_bytes((folder / name).read_bytes()[:90])
    words = ["train", "--model", "digits_cnn", "--data", folder, "--size", 8, "--epochs", 1]
    words += ["--resize", "crop", "--out", base]
    assert "2 of 24 files cannot be read" in refused(*words, "--quiet")
    told = call(*words, "--skip-unreadable").err
    assert "are cut around the middle to 8 × 8 pixels" in told
    assert "2 unreadable files left out" in told
    assert "--resize crop --skip-unreadable --budget" in told
    told = read_json(base / "network.json")
    assert told["preprocessing"]["resize"] == "crop" and told["training"]["data"]["skipped"] == 2
    assert "2 of 24 files" in refused("evaluate", base, "--data", folder, "-q")
    words = [base, "--data", folder, "--skip-unreadable"]
    done = call("evaluate", *words, "--json")
    assert "are cut around the middle to 8 × 8 pixels" in done.err and done.json()["skipped"] == 2
    assert "are squashed to 8 × 8 pixels" in call("evaluate", *words, "--resize", "squash").err
    done = call("build", *build_options, *words, "--out", tmp_path / "vinet", "--json")
    assert read_json(tmp_path / "vinet" / "results.json")["skipped"] == 2 == done.json()["skipped"]
    kept = read_json(tmp_path / "vinet" / "config.json")["record"]["preprocessing"]
    assert kept["resize"] == "crop"
    assert "2 of 24 files" in refused("predict", base, folder, "-q")
    done = call("predict", base, folder, "--skip-unreadable", "--json")
    assert "2 unreadable files left out" in done.err
    assert done.json()["skipped"] == 2 and len(done.json()["predictions"]) == 22


def test_folders_of_images_are_mirrored_only_if_asked(colours):
    weights = colours.parent / "w.safetensors"
    save_weights(create_model("resnet20", 2), weights)
    usual, large = ({}, (4, False)), ({"crop": 0.25, "flip": True}, (8, True))
    for chosen, expected in (usual, large, ({"crop": 0.0}, (0, False))):
        train = open_with_data("resnet20", colours, weights=weights, **chosen)[1].train
        assert (train.augmentation.padding, train.augmentation.flip) == expected


def test_a_network_of_ones_own_may_name_its_classes_in_a_config(colours, tmp_path):
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "class Net(nn.Sequential):\n"
        "    config = {'id2label': {'0': 'Light', '1': 'Dark'}}\n"
        "    def __init__(self, num_classes=2):\n"
        "        super().__init__(nn.Flatten(), nn.Linear(3072, num_classes))\n"
    )
    spec, weights = f"{tmp_path / 'net.py'}:Net", tmp_path / "w.safetensors"
    save_weights(create_model(spec, 2), weights)
    opened, split = open_with_data(spec, colours, weights=weights)
    assert opened.classes == split.test.classes == ("Light", "Dark")
    images = split.test.images[split.test.labels == 0].float()
    assert images.mean() > 150  # light, which is the second folder
