from __future__ import annotations

import os
import sys

import numpy as np
import pytest
import torch

from vinets.data import Preprocessing, image_folder, load_data

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


@pytest.mark.parametrize("suffix", ["JPG", "jpeg", "webp", "bmp", "gif", "tiff"])
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
    with pytest.raises(ValueError, match="'size' parameter"):
        image_folder(tmp_path / "train", size=(1, 2, 3))


def test_unreadable_files_are_all_named_or_all_left_out(tmp_path):
    write_folders(tmp_path, 5)
    whole = (tmp_path / "dog" / "1.png").read_bytes()
    (tmp_path / "cat" / "0.png").write_bytes(b"damaged")  # the first, which has the size
    (tmp_path / "dog" / "1.png").write_bytes(whole[:-60])
    (tmp_path / "dog" / "phone.HEIC").write_bytes(b"a photograph")
    with pytest.raises(ValueError, match=r"^3 of 11 files cannot be read: ") as error:
        image_folder(tmp_path)
    for words in ("cat/0.png (damaged", "dog/1.png (truncated)", "phone.HEIC (", "--skip-unread"):
        assert words in str(error.value)
    data = image_folder(tmp_path, skip_unreadable=True)
    assert data.skipped == 3 and data.train.images.shape[2:] == (8, 9)
    images = torch.cat([data.train.images, data.test.images]).permute(0, 2, 3, 1).numpy()
    labels = torch.cat([data.train.labels, data.test.labels]).tolist()
    read = {(image.tobytes(), label) for image, label in zip(images, labels, strict=True)}
    kept = [2, 4, 6, 8, 1, 5, 7, 9]  # even ones are cats
    assert read == {(IMAGES[i].tobytes(), i % 2) for i in kept} and len(labels) == 8
    for i in range(1, 5):
        (tmp_path / "cat" / f"{i}.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"of every class.*Got none of cat"):
        image_folder(tmp_path, skip_unreadable=True)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_no_utf8_are_refused_when_listed(tmp_path):
    write_folders(tmp_path, 1, classes=("cat", os.fsdecode(b"caf\xe9")))
    with pytest.raises(ValueError, match=r"caf.*udce9 cannot be written as UTF-8"):
        image_folder(tmp_path)


def test_how_images_are_resized_is_recorded(tmp_path):
    write_folders(tmp_path, 3)
    for how in ("squash", "crop"):
        data = load_data(tmp_path, size=4, resize=how)
        reading = data.test.preprocessing
        assert reading.resize == how and Preprocessing.from_dict(reading.to_dict()) == reading
        known = {reading.read(path).numpy().tobytes() for path in tmp_path.rglob("*.png")}
        assert {inputs.numpy().tobytes() for inputs, _ in data.test.batches(1)} <= known
