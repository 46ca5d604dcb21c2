from __future__ import annotations

import numpy as np
import pytest
import torch

from vinets.data import image_folder, load_data

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
    data = image_folder(tmp_path)
    assert data.name == tmp_path.name and data.train.classes == ("cat", "dog")
    assert data.train.labels.tolist() == [0] * 5 + [1] * 5
    order = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
    for part, expected in ((data.train, order), (data.test, [0, 2, 1, 3])):
        np.testing.assert_array_equal(part.images.permute(0, 2, 3, 1).numpy(), IMAGES[expected])
    np.testing.assert_allclose(data.train.preprocessing.mean, IMAGES.mean(axis=(0, 1, 2)) / 255)
    assert data.test.preprocessing == data.train.preprocessing


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
    with pytest.raises(ValueError, match=r"classes of the training part only. Got fox"):
        image_folder(tmp_path)
    with pytest.raises(ValueError, match=r"needs 1.3 KiB for 6 images.*allows 100 B"):
        image_folder(tmp_path / "train", memory_limit=100)
    with pytest.raises(ValueError, match="'size' parameter"):
        image_folder(tmp_path / "train", size=(1, 2, 3))
    (tmp_path / "train" / "cat" / "1.png").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"1.png must be a readable 8-bit image"):
        image_folder(tmp_path / "train")
