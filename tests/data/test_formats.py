from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from vinets.data import (
    DATA_FORMATS,
    Augmentation,
    DataFormat,
    DataSplit,
    Preprocessing,
    TensorSource,
    digits,
    load_data,
)


def test_digits_are_those_of_scikit_learn_each_once_and_split_by_class():
    data, raw, pairs = load_data("digits", seed=1), load_digits(), set()
    for source in (data.train, data.test):
        assert source.images.shape[1:] == (1, 8, 8) and source.classes == tuple("0123456789")
        images = [image.tobytes() for image in source.images.numpy()]
        pairs |= set(zip(images, source.labels.tolist(), strict=True))
        assert source.preprocessing == Preprocessing.from_images(data.train.images)
    levels = np.round(raw.images * 255 / 16).astype(np.uint8)
    assert pairs == {(x.tobytes(), y) for x, y in zip(levels, raw.target, strict=True)}
    assert len(data.train) + len(data.test) == 1797
    assert data.train.images.max() == 255
    assert data.train.augmentation == Augmentation(1, False, "zero")
    assert torch.equal(data.train.images, digits(seed=1).train.images)
    assert not torch.equal(data.train.images, digits(seed=2).train.images)
    shares = np.bincount(data.test.labels.numpy()) / np.bincount(raw.target)
    assert (abs(shares - 0.25) < 0.01).all()


def test_unknown_names_are_answered_with_what_is_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for spec in ("", "mnist", "cifar10", "a.npy", "a.npy,b.npy,c.npy", "x.csv,y.csv"):
        with pytest.raises(ValueError, match="must be 'digits', 'cifar10:DIR'"):
            load_data(spec)


def test_a_folder_does_not_shadow_a_name_and_only_folders_are_resized(tmp_path, monkeypatch):
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_data("digits").name == "digits"
    for name, value in (("size", 16), ("resize", "crop"), ("skip_unreadable", True)):
        with pytest.raises(ValueError, match=f"'{name}' parameter of load_data must be left out"):
            load_data("digits", **{name: value})
    with pytest.raises(FileNotFoundError, match="must hold cifar100"):
        load_data("cifar100:nowhere")


@pytest.fixture
def circles(monkeypatch):
    """A format of another distribution: circle:COUNT, with two classes."""
    monkeypatch.setattr(DATA_FORMATS, "_entries", dict(DATA_FORMATS))

    class Circles(DataFormat):
        name = "circles"
        written = "'circles:COUNT'"

        def matches(self, spec):
            return spec.startswith("circles:")

        def load(self, spec, *, seed, size):
            count = int(spec.partition(":")[2])
            angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, count)
            values = torch.from_numpy(np.c_[np.cos(angle), np.sin(angle)])
            source = TensorSource(values, np.arange(count) % 2)
            return DataSplit("circles", source, TensorSource(2 * values, [0] * count))


def test_a_format_from_outside_is_loaded_and_named(circles, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = load_data("circles:6", seed=1)
    assert (data.name, len(data.train)) == ("circles", 6)
    torch.testing.assert_close(data.train.example(6).square().sum(1), torch.ones(6).double())
    with pytest.raises(ValueError, match=r"be 'digits', .*'circles:COUNT', a folder of images"):
        load_data("circle:6")
    with pytest.raises(ValueError, match="must be left out for circles:6"):
        load_data("circles:6", size=3)
