"""Tiny IDX files, whole and damaged in every way, written here and read back."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from vinets.data import Augmentation, ImageSource, Preprocessing, idx_folder, load_data

RANDOM = np.random.default_rng(0)
COUNTS = {"train": 40, "t10k": 20}
IMAGES = {p: RANDOM.integers(256, size=(n, 16, 18), dtype=np.uint8) for p, n in COUNTS.items()}
LABELS = {p: (np.arange(n) % 10).astype(np.uint8) for p, n in COUNTS.items()}
IMAGE_FILE, LABEL_FILE = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def encoded(values, shape=None, magic=None):
    """An IDX file as bytes, perhaps with a header that does not tell the truth."""
    shape = values.shape if shape is None else shape
    magic = bytes((0, 0, 8, len(shape))) if magic is None else magic
    return magic + struct.pack(f">{len(shape)}I", *shape) + values.tobytes()


def write(folder, *, suffix="", mark="-"):
    folder.mkdir(exist_ok=True)
    for part in COUNTS:
        for what, values in (("images", IMAGES[part]), ("labels", LABELS[part])):
            content = encoded(values)
            path = folder / f"{part}-{what}{mark}idx{values.ndim}-ubyte{suffix}"
            path.write_bytes(gzip.compress(content) if suffix else content)
    return folder


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("spec", ["{}", "idx:{}", "fashion-mnist:{}"])
def test_what_was_written_is_read(tmp_path, suffix, mark, spec):
    folder = write(tmp_path / "grey", suffix=suffix, mark=mark)
    data = load_data(spec.format(folder))
    for source, part in ((data.train, "train"), (data.test, "t10k")):
        assert isinstance(source, ImageSource)
        np.testing.assert_array_equal(source.images[:, 0].numpy(), IMAGES[part])
        np.testing.assert_array_equal(source.labels.numpy(), LABELS[part])
    assert data.name == "grey"
    assert data.test.preprocessing == Preprocessing.from_images(data.train.images)


def test_only_what_is_said_to_be_fashion_is_mirrored(tmp_path):
    folder = write(tmp_path / "fashion-mnist")  # the name of a folder decides nothing
    for spec in (f"{folder}", f"idx:{folder}"):
        digits = load_data(spec)
        assert digits.train.augmentation == Augmentation(2, False, "zero")
        assert digits.test.augmentation is None and digits.train.classes == tuple("0123456789")
    fashion = load_data(f"fashion-mnist:{folder}")
    assert fashion.train.augmentation == Augmentation(2, True, "zero")
    assert fashion.train.classes[9] == "Ankle boot" and fashion.test.classes[0] == "T-shirt/top"
    assert idx_folder(folder, flip=True).train.augmentation.flip


HUGE = (2**31, 2**15, 2**15)
DAMAGED = {
    "empty": (lambda values: b"", r"IDX file of unsigned bytes .* missing instead"),
    "short header": (lambda values: encoded(values)[:6], r"IDX file of unsigned bytes"),
    "text": (lambda values: b"label,pixels\n" * 9, r"first bytes are 6c 61 62 65"),
    "floats": (lambda values: encoded(values, magic=b"\0\0\x0d\x03"), r"unsigned bytes"),
    "truncated": (lambda values: encoded(values)[:-1], r"what its header says|whole IDX file"),
    "more": (lambda values: encoded(values) + b"\0", r"what its header says|are more bytes"),
    "huge": (lambda values: encoded(values, HUGE[: values.ndim]), r"what its header says"),
    "none": (lambda values: encoded(values[:0]), r"at least one number"),
}


def refuses(folder, message, memory):
    """Fail unless the folder is refused in one sentence, within so many bytes of memory."""
    tracemalloc.start()
    with pytest.raises(ValueError, match=message) as caught:
        load_data(f"idx:{folder}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert IMAGE_FILE in str(caught.value) and "\n" not in str(caught.value)
    assert peak < memory


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_files_are_refused_in_one_sentence_before_much_is_allocated(
    tmp_path, suffix, damage
):
    folder = write(tmp_path, suffix=suffix)
    change, message = DAMAGED[damage]
    files = [(IMAGE_FILE, IMAGES)]
    files += [(LABEL_FILE, LABELS)] if damage in ("huge", "none") else []  # as many are claimed
    for name, values in files:
        content = change(values["train"])
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(content) if suffix else content)
    refuses(folder, message, 4 << 20)


def test_a_header_that_compression_could_hold_takes_no_more_than_what_is_there(tmp_path):
    folder = write(tmp_path, suffix=".gz")
    count = 2**20  # 300 MB of pixels are claimed by an archive that could just unpack to it
    labels = np.zeros(count, np.uint8)
    (folder / f"{LABEL_FILE}.gz").write_bytes(gzip.compress(encoded(labels)))
    noise = RANDOM.bytes(400_000)
    content = encoded(np.frombuffer(noise, np.uint8), (count, 16, 18), bytes((0, 0, 8, 3)))
    (folder / f"{IMAGE_FILE}.gz").write_bytes(gzip.compress(content))
    refuses(folder, r"whole IDX file.* 400,000 bytes where", 8 << 20)


def test_broken_archives_are_refused_in_one_sentence(tmp_path):
    folder = write(tmp_path, suffix=".gz")
    path = folder / f"{IMAGE_FILE}.gz"
    whole = path.read_bytes()
    checksum = whole[:-6] + bytes([whole[-6] ^ 255]) + whole[-5:]
    for content in (whole[:-20], whole[: len(whole) // 2], checksum, b"no archive", b""):
        path.write_bytes(content)
        refuses(folder, IMAGE_FILE, 4 << 20)


def test_parts_that_do_not_go_together_are_refused(tmp_path):
    folder = write(tmp_path)
    (folder / LABEL_FILE).write_bytes(encoded(LABELS["train"][:-1]))
    with pytest.raises(ValueError, match=r"as many labels as there are images \(40\)"):
        load_data(str(folder))
    (folder / LABEL_FILE).write_bytes(encoded(LABELS["train"] + 1))
    with pytest.raises(ValueError, match="10"):
        load_data(f"fashion-mnist:{folder}")
    write(folder)
    (folder / "t10k-images-idx3-ubyte").write_bytes(encoded(IMAGES["t10k"][:, :8]))
    with pytest.raises(ValueError, match="16 x 18 to train on and 8 x 18 to test on"):
        load_data(str(folder))
    (folder / "t10k-images-idx3-ubyte").unlink()
    with pytest.raises(FileNotFoundError, match="t10k-images-idx3-ubyte is missing"):
        load_data(str(folder))
    with pytest.raises(FileNotFoundError, match="train-images-idx3-ubyte is missing"):
        load_data(f"idx:{tmp_path / 'nowhere'}")
