from __future__ import annotations

import os
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from vinets.data import folders, image_folder
from vinets.data.digest import examples_digest, identify
from vinets.data.images import Preprocessing
from vinets.data.mapped import RESIDENT_BYTES, MappedImages

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(256, size=(2, 6, 12, 10, 3), dtype=np.uint8)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """Two classes of six images to train on, and of two to test on."""
    image = pytest.importorskip("PIL.Image")
    for part, count in (("train", 6), ("test", 2)):
        for name, some in zip(("cat", "dog"), IMAGES, strict=True):
            folder = tmp_path / "animals" / part / name
            folder.mkdir(parents=True)
            for i in range(count):
                pixels = some[i] if part == "train" else 255 - some[i]
                image.fromarray(pixels).save(folder / f"{i}.bmp")
    monkeypatch.setenv("VINETS_CACHE", str(tmp_path / "kept"))
    return tmp_path / "animals"


def in_a_file(root, **options):
    return image_folder(root, memory_limit=0, progress=None, **options)


def kept_files(root):
    return sorted((root.parent / "kept").rglob("*.pixels"))


@pytest.fixture
def undecoded(monkeypatch):
    """Let no image be decoded from now on."""
    return lambda: monkeypatch.setattr(folders, "read_images", None)


@pytest.mark.parametrize("part", ["", "train"])
@pytest.mark.parametrize("detail", [1.0, 1.6])
def test_images_in_a_file_are_those_in_memory(root, part, detail):
    how = {"size": (6, 5), "seed": 3, "detail": detail}
    file, memory = in_a_file(root / part, **how), image_folder(root / part, **how)
    assert identify(file) == identify(memory) and file.train.classes == memory.train.classes
    assert examples_digest(file.train, file.test) == examples_digest(memory.train, memory.test)
    order = torch.randperm(len(file.train), generator=torch.Generator().manual_seed(0))[:7]
    for ours, theirs in ((file.train, memory.train), (file.test, memory.test)):
        assert isinstance(ours.images, MappedImages) and ours.images.shape == theirs.images.shape
        assert torch.equal(ours.labels, theirs.labels)
        assert ours.preprocessing == theirs.preprocessing
        assert torch.equal(ours.images[:], theirs.images)
        assert torch.equal(ours.images[1], theirs.images[1])
        assert torch.equal(torch.cat([*ours.images.split(3)]), theirs.images)
    if detail > 1:
        assert torch.equal(file.train.large[:], memory.train.large)
        assert file.train.large.shape == (len(file.train), 3, 10, 8)
    again = pickle.loads(pickle.dumps(file.train.subset(order)))
    assert isinstance(again.images, MappedImages)
    pairs = (
        some.batches(4, augment=torch.Generator().manual_seed(1))
        for some in (again, memory.train.subset(order))
    )
    for (x, y), (images, labels) in zip(*pairs, strict=True):
        assert torch.equal(x, images) and torch.equal(y, labels)


def test_another_call_decodes_nothing(root, undecoded):
    first = in_a_file(root)
    undecoded()
    assert identify(in_a_file(root)) == identify(first)
    for other in ({"size": 5}, {"resize": "crop"}, {"channels": 1}, {"skip_unreadable": True}):
        with pytest.raises(TypeError):  # what is read in another way is decoded
            in_a_file(root, **other)


@pytest.mark.parametrize("change", ["content", "replaced", "added", "removed", "renamed"])
def test_a_changed_folder_is_decoded_anew(root, change):
    before, files = in_a_file(root), kept_files(root)
    path = root / "train" / "cat" / "0.bmp"
    facts, content = path.stat(), bytearray(path.read_bytes())
    content[60] ^= 255  # a pixel
    if change in ("content", "replaced"):  # by one of the same size and date
        other = path if change == "content" else root.parent / "other.bmp"
        other.write_bytes(content)
        os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        os.replace(other, path)
    elif change == "added":
        shutil.copy(path, path.with_name("another.bmp"))
    elif change == "removed":
        path.unlink()
    else:
        path.rename(path.with_name("9.bmp"))  # it comes last now
    after = in_a_file(root)
    assert identify(after) != identify(before)
    assert identify(after) == identify(image_folder(root))
    # The file that nobody would read again is deleted.
    assert len(kept_files(root)) == len(files) == 1 and kept_files(root) != files


def test_unreadable_images_are_left_out_or_named(root, undecoded):
    (root / "train" / "cat" / "2.bmp").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"2.bmp must be a readable image|cannot be read"):
        in_a_file(root)
    assert not kept_files(root)
    first = in_a_file(root, skip_unreadable=True, detail=1.6)
    undecoded()
    for data in (first, in_a_file(root, skip_unreadable=True, detail=1.6)):
        assert data.skipped == 1 and len(data.train) == len(data.train.large) == 11
        np.testing.assert_array_equal(data.train.images[2].permute(1, 2, 0), IMAGES[0, 3])


def test_an_interrupted_call_leaves_no_file(root, monkeypatch):
    def interrupted(*args):
        yield 0, np.zeros((3, 12, 10), dtype=np.uint8)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(folders, "read_images", interrupted)
        in_a_file(root)
    assert {path.name for path in (root.parent / "kept").rglob("*") if path.is_file()} == {".lock"}
    assert identify(in_a_file(root)) == identify(image_folder(root))


def test_a_full_disk_is_told_before_anything_is_read(root, monkeypatch):
    usage = shutil.disk_usage(root)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(ValueError, match=r"needs 5.6 KiB for 16 images.*100 B left.*VINETS_CACHE"):
        in_a_file(root)


def test_the_folder_is_that_of_the_system_or_the_users_own(monkeypatch, tmp_path):
    monkeypatch.delenv("VINETS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert folders.cache_folder() == tmp_path / ".cache" / "vinets"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "system"))
    assert folders.cache_folder() == tmp_path / "system" / "vinets"
    monkeypatch.setenv("VINETS_CACHE", str(tmp_path / "own"))
    assert folders.cache_folder() == tmp_path / "own"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_was_read_does_not_stay_in_memory(tmp_path):
    def resident():
        return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    each, count = (3, 512, 512), 4 * RESIDENT_BYTES // (3 * 512 * 512)
    with open(tmp_path / "some.pixels", "wb") as file:
        file.truncate(count * 3 * 512 * 512)
    images, before = MappedImages(tmp_path / "some.pixels", each), resident()
    highest = max(resident() for _ in images.split(16))
    assert highest - before < 1.5 * RESIDENT_BYTES
    assert Preprocessing.from_images(images.subset(torch.arange(0, count, 20))).mean == (0, 0, 0)
