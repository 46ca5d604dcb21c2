"""Tiny data sets in every layout, written here and read back."""

from __future__ import annotations

import os
import pickle
from collections import OrderedDict
from functools import partial

import numpy as np
import pytest

from vinets.data import Augmentation, cifar, load_data
from vinets.data.cifar import CLASSES, read_pickle

RANDOM = np.random.default_rng(0)
PARTS = {"train": 50, "test": 25}  # a sheet has 25 images in a row
IMAGES = {p: RANDOM.integers(256, size=(n, 3, 32, 32), dtype=np.uint8) for p, n in PARTS.items()}
FINE = {part: RANDOM.permutation(100)[:n] for part, n in PARTS.items()}
NAMES = [f"name{k}" for k in range(100)]
META = {"cifar10": "batches.meta.txt", "cifar100": "fine_label_names.txt"}
TEN = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def files(name):
    """Names of the files of a data set, with the images and labels for each."""
    train = [f"data_batch_{i}" for i in range(1, 6)] if name == "cifar10" else ["train"]
    test = "test_batch" if name == "cifar10" else "test"
    for part, stems in (("train", train), ("test", [test])):
        images, labels = np.split(IMAGES[part], len(stems)), np.split(FINE[part], len(stems))
        yield from zip(stems, images, labels, strict=True)


def expected_labels(name, part):
    return FINE[part] % 10 if name == "cifar10" else FINE[part]


def write_binary(top, name):
    folder = top / {"cifar10": "cifar-10-batches-bin", "cifar100": "cifar-100-binary"}[name]
    folder.mkdir()
    for stem, images, fine in files(name):
        columns = [fine % 10] if name == "cifar10" else [fine // 5, fine]
        records = [np.column_stack(columns).astype(np.uint8), images.reshape(len(images), -1)]
        np.concatenate(records, axis=1).tofile(folder / f"{stem}.bin")
    (folder / META[name]).write_text("\n".join(NAMES[: CLASSES[name]]) + "\n\n")
    return folder


def write_pickled(top, name, module="numpy._core"):
    folder = top / {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python"}[name]
    folder.mkdir()
    for stem, images, fine in files(name):
        content = {b"data": images.reshape(len(images), -1), b"filenames": [b"a"] * len(images)}
        if name == "cifar10":
            content[b"labels"] = [int(k) % 10 for k in fine]
        else:
            content |= {b"fine_labels": fine.tolist(), b"coarse_labels": (fine // 5).tolist()}
        text = pickle.dumps(content, protocol=2).replace(b"numpy._core", module.encode())
        (folder / stem).write_bytes(text)
    if name == "cifar10":
        meta, content = "batches.meta", {"label_names": NAMES[:10]}
    else:
        meta, content = "meta", {"fine_label_names": NAMES, "coarse_label_names": ["x"]}
    (folder / meta).write_bytes(pickle.dumps(content, protocol=2))
    return folder


def write_sheets(top, name):
    image = pytest.importorskip("PIL.Image")
    folder = top / f"{name}_sheets"
    folder.mkdir()
    for part, images in IMAGES.items():
        for i in range(0, len(images), 25):
            sheet = np.concatenate(list(images[i : i + 25].transpose(0, 2, 3, 1)), axis=1)
            path = folder / f"{part}_{i // 25:03d}.webp"
            image.fromarray(sheet).save(path, lossless=True, quality=100, exact=True)
        fine = expected_labels(name, part)
        labels = fine if name == "cifar10" else np.column_stack([fine // 5, fine])
        np.save(folder / f"{part}_labels.npy", labels.astype(np.uint8))
    (folder / META[name]).write_text("\n".join(NAMES[: CLASSES[name]]))
    return folder


old_pickled = partial(write_pickled, module="numpy.core")
LAYOUTS = [write_binary, write_pickled, old_pickled, write_sheets]


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("write", LAYOUTS)
def test_every_layout_gives_the_same_data_set(tmp_path, name, write):
    folder = write(tmp_path, name)
    found = [cifar(tmp_path, name), cifar(str(folder), name)]
    found += [load_data(f"{name}:{tmp_path}"), load_data(folder)]
    for data in found:
        assert data.name == name
        for part, source in (("train", data.train), ("test", data.test)):
            np.testing.assert_array_equal(source.images.numpy(), IMAGES[part])
            np.testing.assert_array_equal(source.labels.numpy(), expected_labels(name, part))
            assert source.classes == tuple(NAMES[: CLASSES[name]])
        assert data.train.augmentation == Augmentation(4, True, "reflect")
        assert data.test.augmentation is None
        assert data.train.preprocessing.std == (0.2470, 0.2435, 0.2616)


def test_names_are_known_or_numbers_without_the_meta_file(tmp_path):
    (write_binary(tmp_path, "cifar10") / "batches.meta.txt").unlink()
    (write_binary(tmp_path, "cifar100") / "fine_label_names.txt").unlink()
    assert list(cifar(tmp_path, "cifar10").train.classes) == TEN
    assert list(cifar(tmp_path, "cifar100").train.classes) == [str(k) for k in range(100)]


def test_a_missing_file_is_named_with_what_belongs_there(tmp_path):
    (write_binary(tmp_path, "cifar10") / "data_batch_3.bin").unlink()
    with pytest.raises(FileNotFoundError, match=r"data_batch_3.bin is missing.*test_batch.bin"):
        cifar(tmp_path)
    with pytest.raises(FileNotFoundError, match="must hold cifar100: cifar-100-binary or"):
        cifar(tmp_path, "cifar100")
    with pytest.raises(ValueError, match="one of 'cifar10', 'cifar100'"):
        cifar(tmp_path, "cifar")


def test_sizes_labels_and_names_out_of_range_are_refused(tmp_path):
    folder = write_binary(tmp_path, "cifar10")
    path = folder / "data_batch_2.bin"
    whole = path.read_bytes()
    for size in (0, 3072, 3 * 3073 - 1):
        path.write_bytes(bytes(size))
        with pytest.raises(ValueError, match=rf"batch_2.bin must .* 3,073 bytes.* {size:,} bytes"):
            cifar(tmp_path)
    path.write_bytes(whole)
    (folder / "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(ValueError, match=r"batches.meta.txt must hold 10 names .* Got 2"):
        cifar(tmp_path)
    (folder / "test_batch.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(ValueError, match=r"test_batch.bin\) must be .* 0..9,.* from 10 to 10"):
        cifar(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"labels": [1]}, r"must hold 'data'.*NoneType"),
        ({"data": np.zeros((2, 5), np.uint8), "labels": [1, 1]}, r"'data'.*shape \(2, 5\)"),
        ({"data": np.zeros((2, 3072), np.uint8)}, "must hold 'labels'"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, "as many as the examples"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [1, "a"]}, "integers 0..K-1"),
    ],
)
def test_pickles_with_other_contents_are_refused(tmp_path, content, message):
    path = write_pickled(tmp_path, "cifar10") / "test_batch"
    path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(ValueError, match=message):
        cifar(tmp_path)


class Malicious:
    def __init__(self, call, *arguments):
        self.reduced = call, arguments

    def __reduce__(self):
        return self.reduced


def read(tmp_path, content):
    path = tmp_path / "batch"
    path.write_bytes(content)
    return read_pickle(path)


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_bytes_come_back(tmp_path, protocol, order):
    array = np.arange(200, 248, dtype=np.uint8).reshape(6, 8, order=order)
    content = {"data": array, b"labels": [1, 2], "batch_label": b"a\xff"}
    found = read(tmp_path, pickle.dumps(content, protocol=protocol))
    np.testing.assert_array_equal(found["data"].values, array)
    assert found["labels"] == [1, 2] and found["batch_label"] == b"a\xff"


def test_a_pickle_of_python_2_comes_back(tmp_path):
    """As Python 2 wrote the official files: byte strings without a mark."""
    text = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b"
        b"\x87R(K\x01K\x02K\x03\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff"
        b"\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06\x00\x01\x7f\x80\xfe\xfftbU\x06labels]K\x07au."
    )
    found = read(tmp_path, text)
    np.testing.assert_array_equal(found["data"].values, [[0, 1, 127], [128, 254, 255]])
    assert found["labels"] == [7]


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("nested", [False, True])
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path, protocol, nested):
    target = tmp_path / "made"
    payload = Malicious(os.mkdir, str(target))
    content = pickle.dumps({"data": [payload]} if nested else payload, protocol=protocol)
    with pytest.raises(ValueError, match=r"batch must be a file .* asks for (posix|nt).mkdir"):
        read(tmp_path, content)
    assert not target.exists()
    pickle.loads(content)  # it would have worked
    assert target.exists()


@pytest.mark.parametrize(
    "payload",
    [
        *(Malicious(eval, "1"), Malicious(getattr, "a", "upper"), Malicious(np.load, "file")),
        *(OrderedDict(), np.zeros(2), np.array([None]), np.zeros(2, dtype="u1,u1"), np.float64(1)),
        *(Malicious(np.ndarray, (2**40,)), Malicious(np.dtype, "O")),
    ],
)
def test_whatever_such_files_do_not_need_is_refused(tmp_path, payload):
    with pytest.raises(ValueError, match="batch must be a file"):
        read(tmp_path, pickle.dumps({"data": payload}, protocol=2))


@pytest.mark.parametrize("name", [b"numpy\ndtype", b"_codecs\nencode"])
def test_no_pickle_can_change_the_reader(tmp_path, name):
    # GLOBAL, then BUILD with (None, {"text": 1}): would set attributes of what was named.
    with pytest.raises(ValueError, match="batch must"):
        read(tmp_path, b"}U\x01ac" + name + b"\n(N}U\x04textK\x01stbs.")
    array = np.zeros((2, 3), np.uint8)
    again = read(tmp_path, pickle.dumps({"data": array}, protocol=2))["data"]
    np.testing.assert_array_equal(again.values, array)


def test_a_small_pickle_cannot_take_all_memory(tmp_path):
    assert read(tmp_path, b"}r\xff\xff\xff\xff.") == {}  # LONG_BINPUT at position 2**32 - 1
    with pytest.raises(ValueError, match="cannot be read"):  # a bytearray of 24 GB, it says
        read(tmp_path, b"\x80\x05}\x96" + (6 << 32).to_bytes(8, "little") + b"x.")
    again = b"h\x00h\x01h\x02\x86R"  # encode(text, "latin1"), the text being large
    begin = b"c_codecs\nencode\nq\x00X" + (1 << 20).to_bytes(4, "little") + b"x" * (1 << 20)
    content = begin + b"q\x01X\x06\x00\x00\x00latin1q\x02]" + again * 1000 + b"."
    with pytest.raises(ValueError, match="it calls encode with values that no such file has"):
        read(tmp_path, content)


def doubled(begin: bytes, double: bytes, times: int) -> bytes:
    """A value that stands twice in the next one, and so on: 2**times long when written out."""
    return begin + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + double for i in range(times))


@pytest.mark.parametrize(
    "content",
    [
        b"}" + doubled(b"K\x01", b"\x86", 60) + b"K\x01s.",  # a key, to be hashed
        b"}(" + doubled(b"K\x01", b"\x86", 60) + b"K\x01u.",
        b"(" + doubled(b"K\x01", b"\x86", 60) + b"K\x01d.",
        b"}U\x01a\x8f(" + doubled(b"K\x01", b"\x86", 60) + b"\x90s.",  # an item of a set
        b"}U\x01a(" + doubled(b"K\x01", b"\x86", 60) + b"\x91s.",
        b"}" + b")" + b"\x85" * 500_000 + b"K\x01s.",  # a key whose hash exhausts the stack
        b"}U\x04data" + doubled(b"]", b"\x86", 60) + b"s.",
        b"}U\x06labels]" + doubled(b"]", b"\x86", 60) + b"as.",
        b"}U\x04data" + b")" + b"\x85" * 500_000 + b"s.",
        b"}U\x06labels" + b"]" * 500_000 + b"a" * 499_999 + b"s.",
        b"}U\x06labels]\x8a\x09" + b"\x7f" * 9 + b"as.",
        b"}U\x04datacnumpy\nndarray\ns.",
        b"}U\x04datacnumpy\ndtype\n" + b"]" * 9 + b"a" * 8 + b"\x85Rs.",
    ],
)
def test_pickles_that_would_take_years_are_refused_at_once(tmp_path, content):
    path = write_pickled(tmp_path, "cifar10") / "test_batch"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="test_batch must "):
        cifar(tmp_path)


def test_damaged_pickles_and_every_cut_of_a_good_one_are_refused_in_one_sentence(tmp_path):
    whole = pickle.dumps({"data": np.zeros((2, 3), np.uint8), "labels": [1]}, protocol=2)
    cuts = (whole[:length] for length in range(len(whole)))
    for content in (b"hello", b"\x80\x02K\x01.", b"\x80\xff.", *cuts):
        with pytest.raises(ValueError, match=r"batch must be a file .* It cannot be read: "):
            read(tmp_path, content)


def test_damaged_sheets_are_refused(tmp_path):
    folder = write_sheets(tmp_path, "cifar10")
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (800, 33)).save(folder / "test_000.webp", lossless=True)
    with pytest.raises(ValueError, match=r"test_000.webp must be 800 pixels wide.*800 x 33"):
        cifar(folder)
    (folder / "test_000.webp").unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold sheets test_000.webp"):
        cifar(folder)
    for shape, message in ((7, "one label for each of the 50"), ((25, 0), r"'shape \(25, 0\)'")):
        np.save(folder / "train_labels.npy", np.zeros(shape, np.uint8))
        with pytest.raises(ValueError, match=rf"train_labels.npy.* {message}"):
            cifar(folder)
    (folder / "train_labels.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"train_labels.npy does not exist"):
        load_data(folder)
