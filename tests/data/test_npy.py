from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from vinets.data import Augmentation, ImageSource, TensorSource, load_data, npy_pair

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(256, size=(10, 8, 9, 3), dtype=np.uint8)
LABELS = np.array([0, 1] * 5)


def write_arrays(folder, **arrays):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return [folder / f"{name}.npy" for name in arrays]


@pytest.mark.parametrize(
    ("stored", "channels_first"),
    [
        (IMAGES[..., 0], IMAGES[..., :1].transpose(0, 3, 1, 2)),
        (IMAGES, IMAGES.transpose(0, 3, 1, 2)),
        (IMAGES.transpose(0, 3, 1, 2), IMAGES.transpose(0, 3, 1, 2)),
    ],
)
def test_arrays_of_images_in_any_order_of_axes(tmp_path, stored, channels_first):
    x, y, other = write_arrays(tmp_path, x=stored, y=LABELS, other=255 - stored)
    data = load_data(f"{x},{y},{other},{y}")
    assert isinstance(data.train, ImageSource) and data.name == "x"
    np.testing.assert_array_equal(data.train.images.numpy(), channels_first)
    np.testing.assert_array_equal(data.test.labels.numpy(), LABELS)
    held = load_data(f"{x}, {y}").test
    assert held.labels.bincount().tolist() == [1, 1] and held.augmentation is None
    assert data.train.augmentation == Augmentation(padding=1, flip=False)


def test_arrays_of_features_become_float32(tmp_path):
    features = RANDOM.normal(size=(10, 4)).astype(">f8")
    data = npy_pair(*write_arrays(tmp_path, x=features, y=LABELS), seed=2)
    assert isinstance(data.train, TensorSource) and data.train.inputs.dtype == torch.float32
    both = torch.cat([data.train.inputs, data.test.inputs]).numpy()
    expected = features.astype(np.float32)
    np.testing.assert_array_equal(both[both[:, 0].argsort()], expected[expected[:, 0].argsort()])


def test_bad_arrays_are_refused_in_one_sentence(tmp_path):
    good = write_arrays(tmp_path, x=np.ones((10, 2)), y=LABELS)
    for bad in (np.ones((10, 2), int), np.ones(10), np.ones((10, 2, 5, 2), np.uint8)):
        write_arrays(tmp_path, bad=bad)
        with pytest.raises(ValueError, match=r"bad.npy must hold"):
            npy_pair(tmp_path / "bad.npy", good[1])
    write_arrays(tmp_path, nan=np.full((10, 2), np.nan), wide=np.ones((10, 3)))
    write_arrays(tmp_path, short=LABELS[:9], real=LABELS / 2)
    for names, message in (
        ("nan y", "nan.npy must hold finite"),
        ("x short", "short.npy.*as many as the examples"),
        ("x real", "real.npy.*integers 0..K-1"),
        ("none y", "none.npy does not exist"),
        ("x y x", "both test_inputs and test_labels"),
        ("x y wide y", "wide.npy must hold the same kind of inputs"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            npy_pair(*(tmp_path / f"{name}.npy" for name in names.split()))


def test_files_that_hold_no_array_of_numbers_are_refused(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.ones((1000, 2)))
    header = path.read_bytes()[:128].replace(b"(1000, 2)", b"(9999999999, 9)")
    np.savez(tmp_path / "z.npz", a=np.ones(2))
    np.save(tmp_path / "o.npy", np.array([{}, None]), allow_pickle=True)
    damaged = [b"", b"text", header, pickle.dumps([1]), (tmp_path / "z.npz").read_bytes()]
    for content in [*damaged, (tmp_path / "o.npy").read_bytes()]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x.npy must be a .npy file of numbers"):
            npy_pair(path, path)
