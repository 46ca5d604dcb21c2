from __future__ import annotations

import io
import os
import pickle
import pickletools
from collections import OrderedDict

import numpy as np
import pytest

from vinets.data import pickles
from vinets.data.pickles import read_pickle


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
    np.testing.assert_array_equal(found["data"], array)
    assert found["labels"] == [1, 2] and found["batch_label"] == b"a\xff"


def test_a_pickle_of_python_2_comes_back(tmp_path):
    """As Python 2 wrote the official files: byte strings without a mark."""
    text = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b"
        b"\x87R(K\x01K\x02K\x03\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff"
        b"\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06\x00\x01\x7f\x80\xfe\xfftbU\x06labels]K\x07au."
    )
    found = read(tmp_path, text)
    np.testing.assert_array_equal(found["data"], [[0, 1, 127], [128, 254, 255]])
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
        Malicious(eval, "1"),
        Malicious(getattr, "a", "upper"),
        Malicious(np.load, "file"),
        OrderedDict(),
        np.zeros(2),
        np.array([None]),
        np.zeros(2, dtype="u1,u1"),
        np.float64(1),
        Malicious(np.ndarray, (2**40,)),
        Malicious(np.dtype, "O"),
    ],
)
def test_whatever_such_files_do_not_need_is_refused(tmp_path, payload):
    with pytest.raises(ValueError, match=r"which such files do not need|cannot be read"):
        read(tmp_path, pickle.dumps({"data": payload}, protocol=2))


@pytest.mark.parametrize("name", list(pickles.NAMES))
def test_no_pickle_can_change_the_reader(tmp_path, name):
    before = dict(vars(pickles.NAMES[name]))
    module, attribute = (part.encode() for part in name)
    # GLOBAL, then BUILD with (None, {"text": 1}): sets attributes of what was named.
    setting = b"c" + module + b"\n" + attribute + b"\n(N}U\x04textK\x01st" + b"b."
    pickletools.dis(setting, out=io.StringIO())  # it is a well-formed pickle
    with pytest.raises(ValueError, match="batch must"):
        read(tmp_path, setting)
    assert dict(vars(pickles.NAMES[name])) == before


def test_a_shape_may_stand_in_two_places(tmp_path):
    assert read(tmp_path, b"}U\x01aK\x02K\x03\x86q\x00h\x00\x86s.") == {"a": ((2, 3), (2, 3))}


def test_a_small_pickle_cannot_take_all_memory(tmp_path):
    assert read(tmp_path, b"}r\xff\xff\xff\xff.") == {}  # LONG_BINPUT at position 2**32 - 1
    again = b"h\x00h\x01h\x02\x86R"  # encode(text, "latin1"), the text being large
    begin = b"c_codecs\nencode\nq\x00X" + (1 << 20).to_bytes(4, "little") + b"x" * (1 << 20)
    content = begin + b"q\x01U\x06latin1q\x02]" + again * 1000 + b"."
    with pytest.raises(ValueError, match="more bytes than it has"):
        read(tmp_path, content)


def doubled(begin: bytes, double: bytes, times: int) -> bytes:
    """A value that stands twice in the next one, and so on: 2**times long when written out."""
    return begin + b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + double for i in range(times))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"}" + doubled(b"K\x01", b"\x86", 60) + b"K\x01s.", "two places"),  # a key, to be hashed
        (b"}U\x01a" + doubled(b"]", b"\x86", 60) + b"s.", "two places"),
        (b"}U\x01a" + b")" + b"\x85" * 500_000 + b"s.", "nested more than 8 deep"),
        (b"}U\x01a" + b"]" * 500_000 + b"a" * 500_000 + b"s.", "nested more than 8 deep"),
        (b"}U\x01a" + doubled(b"(" + b"K\x01" * 5 + b"t", b"\x86", 1) + b"s.", "two places"),
        (b"}K\x01K\x02s.", "names that are no texts"),
        (b"}U\x01a\x8a\x09" + b"\x7f" * 9 + b"s.", "64 bits"),
        (b"}U\x01acnumpy\nndarray\ns.", "names among its values"),
        (b"}U\x01acnumpy\ndtype\n" + b"]" * 9 + b"a" * 8 + b"\x85Rs.", "more than 8 deep"),
    ],
)
def test_pickles_that_would_take_years_are_refused_at_once(tmp_path, content, said):
    with pytest.raises(ValueError, match=said):
        read(tmp_path, content)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x02}", b"\x80\x02K\x01.", b"\x80\xff."])
def test_damaged_pickles_are_refused_in_one_sentence(tmp_path, content):
    with pytest.raises(ValueError, match=r"batch must (be a pickle|hold a dict)"):
        read(tmp_path, content)


def test_every_cut_of_a_good_pickle_is_refused(tmp_path):
    whole = pickle.dumps({"data": np.zeros((2, 3), np.uint8), "labels": [1]}, protocol=2)
    for length in range(len(whole)):
        with pytest.raises(ValueError, match="batch must"):
            read(tmp_path, whole[:length])
