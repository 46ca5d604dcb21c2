"""Which device fits ideals: by their size, or as told."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from vinets import ABM, fit_class_ideals
from vinets.ideals import device
from vinets.ideals.device import MIN_GPU_SIZE, choose_device

GPU = torch.device("cuda", 0)


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU, as far as the choice can see."""
    monkeypatch.setattr(device, "resolve_device", lambda owner, d: GPU if d == "auto" else d)


def points_of(size):
    return torch.zeros(max(1, round(size / 100)), 10)


def test_the_size_decides(gpu):
    assert choose_device("x", "auto", points_of(MIN_GPU_SIZE)) == GPU
    assert choose_device("x", "auto", points_of(MIN_GPU_SIZE - 100)).type == "cpu"
    assert choose_device("x", torch.device("cpu"), points_of(1e8)).type == "cpu"  # as told


def test_the_choice_is_the_one_that_was_measured_best(gpu):
    """But for one size at which both devices took the same time."""
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "devices.json"
    for row in json.loads(path.read_text())["rows"]:
        chosen = choose_device("x", "auto", torch.zeros(1024, row["variables"])).type
        faster = "cuda" if row["cuda_s"] < row["cpu_s"] else "cpu"
        assert chosen == row["chosen"]
        assert chosen == faster or row["cuda_s"] > 0.9 * row["cpu_s"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without GPU")
def test_without_a_gpu_auto_is_the_cpu():
    assert choose_device("x", "auto", torch.zeros(1, 10).expand(10**8, 10)).type == "cpu"
    with pytest.raises(ValueError, match="device"):
        choose_device("x", "cuda", points_of(10))


def test_what_was_found_elsewhere_comes_back(monkeypatch):
    """Another device is played by another place; what counts is where results are."""
    asked = []

    def elsewhere(owner, wanted, points):
        asked.append((wanted, tuple(points.shape)))
        return torch.device("cpu")

    monkeypatch.setattr("vinets.ideals.classwise.choose_device", elsewhere)
    Z, y = np.random.default_rng(0).uniform(-1, 1, (40, 2)), np.repeat([0, 1], 20)
    Z[:, 1] = Z[:, 0] * np.where(y, 1, -1)
    ideals = fit_class_ideals(Z, y, ABM(1e-4, max_degree=1), device="auto")
    assert asked == [("auto", (40, 2))] and ideals.n_generators == 2
    fit_class_ideals(Z, y, ABM(1e-4, max_degree=1))
    assert len(asked) == 1  # where the points lie, unless asked
