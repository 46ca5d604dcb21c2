from __future__ import annotations

import numpy as np
import pytest
import torch

from vinets.data import digits
from vinets.networks.open import open_network


def test_evaluate_counts_what_the_network_says(call, vinet):
    result = call("evaluate", vinet, "--data", "digits", "--json", "--quiet").json()
    test = digits().test
    with torch.no_grad():
        network = open_network(str(vinet)).network
        guesses = network(test.preprocessing(test.images)).argmax(1)
    confusion = np.zeros((10, 10), dtype=int)
    for label, guess in zip(test.labels.tolist(), guesses.tolist(), strict=True):
        confusion[label, guess] += 1
    assert result["confusion"] == confusion.tolist()
    assert result["accuracy"] == pytest.approx(confusion.trace() / confusion.sum())
    assert result["classes"] == list(test.classes)
    assert result.keys() >= {"top5", "loss", "calibration_error", "per_class"}


def test_evaluate_shows_a_table_of_classes(call, base):
    done = call("evaluate", base, "--data", "digits", "--part", "train")
    assert "1,348" in done.out and "base on digits, train" in done.out
    assert "evaluating base" in done.err


def test_bad_input_to_evaluate_is_refused(refused, base, tmp_path):
    told = refused("evaluate", "digits_cnn", "--data", "digits")
    assert "random weights" in told
    assert "vinets train --model digits_cnn --data digits --out out/uncut" in told
    told = refused("evaluate", "resnet18", "--data", "digits", "--weights", "nothing.safetensors")
    assert "vinets train --recipe cifar10-resnet18 --out out/cifar10-resnet18" in told
    assert "'test', 'train'" in refused("evaluate", base, "--data", "digits", "--part", "all")
    np.save(tmp_path / "X.npy", np.random.default_rng(0).integers(0, 255, (9, 8, 8), np.uint8))
    np.save(tmp_path / "y.npy", np.arange(9) % 3)
    data = f"{tmp_path / 'X.npy'},{tmp_path / 'y.npy'}"
    assert "knows 10 classes, and X has 3" in refused("evaluate", base, "--data", data)
