from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch

from vinets.data import Augmentation, ImageSource, TensorSource, image_folder, load_data, npy_pair

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(256, size=(10, 8, 9, 3), dtype=np.uint8)
LABELS = np.array([0, 1] * 5)


def write_folders(root, count, classes=("cat", "dog"), suffix="png"):
    image = pytest.importorskip("PIL.Image")
    for k, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for i in range(count):
            image.fromarray(IMAGES[2 * i + k]).save(root / name / f"{i}.{suffix}")


@pytest.mark.parametrize("other", ["test", "val"])
def test_folders_to_train_and_to_test_on(tmp_path, other):
    write_folders(tmp_path / "train", 5)
    write_folders(tmp_path / other, 2)
    (tmp_path / "train" / "cat" / "notes.txt").write_text("no image")
    (tmp_path / "train" / ".cache").mkdir()
    seen = []
    data = image_folder(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert data.name == tmp_path.name and data.train.classes == ("cat", "dog")
    assert data.train.labels.tolist() == [0] * 5 + [1] * 5
    order = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
    np.testing.assert_array_equal(data.train.images.permute(0, 2, 3, 1).numpy(), IMAGES[order])
    np.testing.assert_array_equal(
        data.test.images.permute(0, 2, 3, 1).numpy(), IMAGES[[0, 2, 1, 3]]
    )
    np.testing.assert_allclose(data.train.preprocessing.mean, IMAGES.mean(axis=(0, 1, 2)) / 255)
    assert data.test.preprocessing == data.train.preprocessing
    assert seen == [(i, 14) for i in range(1, 15)]


@pytest.mark.parametrize("below", ["", "train"])
def test_a_single_level_is_split_by_class(tmp_path, below):
    write_folders(tmp_path / below, 5)
    data, same = image_folder(tmp_path, seed=1), load_data(tmp_path, seed=1)
    assert data.train.labels.bincount().tolist() == [4, 4]
    assert data.test.labels.bincount().tolist() == [1, 1]
    assert torch.equal(data.test.images, same.test.images)
    both = {x.numpy().tobytes() for s in (data.train, data.test) for x in s.images}
    assert both == {x.transpose(2, 0, 1).tobytes() for x in IMAGES}


@pytest.mark.parametrize("suffix", ["JPG", "jpeg", "webp", "bmp", "gif"])
def test_every_kind_of_file_is_read_and_resized(tmp_path, suffix):
    write_folders(tmp_path, 3, suffix=suffix)
    for size, shape in (((4, 6), (3, 4, 6)), (5, (3, 5, 5)), (None, (3, 8, 9))):
        data = load_data(str(tmp_path), size=size)
        assert data.train.images.shape[1:] == shape == data.test.images.shape[1:]
    assert image_folder(tmp_path, channels=1).train.images.shape[1] == 1


def test_bad_folders_are_refused_in_one_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist or is not a folder"):
        image_folder(tmp_path / "none")
    with pytest.raises(ValueError, match=r"two or more classes. Got 0"):
        image_folder(tmp_path)
    write_folders(tmp_path / "train", 3)
    write_folders(tmp_path / "test", 1, classes=("cat", "fox"))
    with pytest.raises(ValueError, match=r"classes of the training part only. Got fox besides"):
        image_folder(tmp_path)
    with pytest.raises(ValueError, match=r"needs 1.3 KiB for 6 images.*allows 100 B"):
        image_folder(tmp_path / "train", memory_limit=100)
    with pytest.raises(ValueError, match="'size' parameter"):
        image_folder(tmp_path / "train", size=(1, 2, 3))
    (tmp_path / "train" / "cat" / "1.png").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"1.png must be a readable 8-bit image"):
        image_folder(tmp_path / "train")


def write_arrays(folder, **arrays):
    paths = []
    for name, array in arrays.items():
        paths.append(folder / f"{name}.npy")
        np.save(paths[-1], array)
    return paths


@pytest.mark.parametrize(
    ("stored", "channels_first"),
    [
        (IMAGES[..., 0], IMAGES[..., :1].transpose(0, 3, 1, 2)),
        (IMAGES, IMAGES.transpose(0, 3, 1, 2)),
        (IMAGES.transpose(0, 3, 1, 2), IMAGES.transpose(0, 3, 1, 2)),
    ],
)
def test_arrays_of_images_in_any_order_of_axes(tmp_path, stored, channels_first):
    x, y = write_arrays(tmp_path, x=stored, y=LABELS)
    data = load_data(f"{x},{y},{x},{y}")
    assert isinstance(data.train, ImageSource) and data.name == "x"
    np.testing.assert_array_equal(data.train.images.numpy(), channels_first)
    np.testing.assert_array_equal(data.test.labels.numpy(), LABELS)
    held = load_data(f"{x}, {y}").test
    assert held.labels.bincount().tolist() == [1, 1] and held.augmentation is None
    assert data.train.augmentation == Augmentation(padding=1)


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
    write_arrays(tmp_path, nan=np.full((10, 2), np.nan), short=LABELS[:9], real=LABELS / 2)
    with pytest.raises(ValueError, match=r"nan.npy must hold finite"):
        npy_pair(tmp_path / "nan.npy", good[1])
    with pytest.raises(ValueError, match=r"short.npy.*as many as the examples"):
        npy_pair(good[0], tmp_path / "short.npy")
    with pytest.raises(ValueError, match=r"real.npy.*integers 0..K-1"):
        npy_pair(good[0], tmp_path / "real.npy")
    with pytest.raises(FileNotFoundError, match=r"none.npy does not exist"):
        npy_pair(tmp_path / "none.npy", good[1])
    with pytest.raises(ValueError, match="both test_inputs and test_labels"):
        npy_pair(*good, good[0])
    write_arrays(tmp_path, wide=np.ones((10, 3)))
    with pytest.raises(ValueError, match=r"wide.npy must hold the same kind of inputs"):
        npy_pair(*good, tmp_path / "wide.npy", good[1])


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
