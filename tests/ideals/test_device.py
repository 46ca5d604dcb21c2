"""Which device fits ideals: by their size, by what was measured once, or as told."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from vinets import ABM, fit_class_ideals
from vinets.ideals import device
from vinets.ideals.device import USUAL, choose_device, dividing_size, measured_size

GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("VINETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU, as far as the choice can see."""
    monkeypatch.setattr(device, "resolve_device", lambda owner, d: GPU if d == "auto" else d)
    monkeypatch.setattr(device, "_machine", lambda gpu: "here")


def timer_with(dividing):
    """A GPU that takes a second whatever comes, a CPU that takes it at the dividing size."""
    asked = []

    def seconds(sets, where):
        asked.append(where.type)
        size = sum(len(points) * points.shape[1] ** 2 for points in sets)
        return 1.0 if where.type == "cuda" else size / dividing

    return seconds, asked


def points_of(size):
    return torch.zeros(max(1, round(size / 100)), 10)


@pytest.mark.parametrize("dividing", [3e5, 2e6, 9e6])
def test_the_size_is_found_between_two_that_were_timed(dividing):
    found = measured_size(GPU, timer_with(dividing)[0])
    assert dividing / 4 <= found <= 4 * dividing


def test_a_gpu_that_is_never_or_always_faster():
    never, always = (measured_size(GPU, timer_with(d)[0]) for d in (1e99, 1e-99))
    largest, smallest = (8 * 128 * n**2 for n in (max(device.VARIABLES), min(device.VARIABLES)))
    assert never > largest and always < smallest


def test_it_is_measured_once_and_remembered(gpu, home, capsys):
    timer, asked = timer_with(2e6)
    first = dividing_size(GPU, timer)
    count = len(asked)
    assert count and "Measuring once" in capsys.readouterr().err
    assert dividing_size(GPU, timer) == first and len(asked) == count
    assert capsys.readouterr().err == ""


def test_another_machine_is_measured_anew(gpu, monkeypatch):
    first = dividing_size(GPU, timer_with(2e6)[0])
    monkeypatch.setattr(device, "_machine", lambda gpu: "there")
    assert dividing_size(GPU, timer_with(3e5)[0]) < first


@pytest.mark.parametrize("text", ["", "[1]", '"fast"', "-1.0", "true"])
def test_a_file_of_no_use_is_measured_again(gpu, home, text):
    first = dividing_size(GPU, timer_with(2e6)[0])
    (file,) = home.rglob("*.json")
    file.write_text(text)
    assert dividing_size(GPU, timer_with(2e6)[0]) == first


def test_the_size_decides(gpu, monkeypatch):
    monkeypatch.setattr(device, "fit_seconds", timer_with(1e7)[0])
    assert choose_device("x", "auto", points_of(1e8)) == GPU
    assert choose_device("x", "auto", points_of(1e6)).type == "cpu"


def test_far_from_doubt_nothing_is_measured(gpu, monkeypatch):
    monkeypatch.setattr(device, "dividing_size", lambda gpu: pytest.fail("measured"))
    many = torch.zeros(1, 10).expand(round(USUAL), 10)  # no memory
    assert choose_device("x", "auto", many) == GPU
    assert choose_device("x", "auto", points_of(USUAL / 1000)).type == "cpu"


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


def test_real_fits_can_be_timed():
    sets = [device.curved_points(4, torch.Generator().manual_seed(0))]
    assert device.fit_seconds(sets, torch.device("cpu")) > 0
