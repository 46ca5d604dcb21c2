"""Files of tensors come back bit for bit, are written whole, and refused in one sentence."""

from __future__ import annotations

import json
import struct
import threading

import pytest
import torch
from safetensors.torch import save_file

from vinets.core.tensors import (
    digest,
    fingerprint,
    read_file,
    read_header,
    read_tensors,
    write_file,
    write_tensors,
)


def header(told: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(told.encode())) + told.encode() + data


SOUND = '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a readable"),
        (struct.pack("<Q", 1 << 40), "its header has 1,099"),
        (header("[]"), "invalid type: sequence"),
        (header("{" * 100_000), "not a readable safetensors file"),
        (header(SOUND, bytes(7)), "not fully covered"),
        (header(SOUND.replace("F32", "F8_E5M2").replace("8]", "2]"), bytes(2)), "none of BOOL"),
        (header(SOUND.replace("F32", "U64").replace("8]", "16]"), bytes(16)), "none of BOOL"),
        (header(SOUND.replace("[2]", "[2,1,1,1,1,1,1,1,1]"), bytes(8)), "more than 8 axes"),
        (header(SOUND.replace("[2]", "[0,9223372036854775808]")), "more than 64 bits"),
        (header(SOUND.replace("[2]", "[4611686018427387904,4]"), bytes(8)), "overflow"),
        (header(SOUND.replace("[2]", "[-1,-2]"), bytes(8)), "expected usize"),
        (header(SOUND.replace("[2]", "[true]"), bytes(8)), "expected usize"),
        (header(SOUND[:-1] + "," + SOUND[1:], bytes(8)), "'a' stands twice"),
        (header(SOUND[:-1] + ',"b"' + SOUND[4:], bytes(8)), "invalid offset"),
        (header('{"__metadata__":{"a":1}}'), "expected a string"),
    ],
)
def test_headers_that_cannot_be_meant_are_refused(tmp_path, content, said):
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    for read in (read_header, read_file):
        with pytest.raises(ValueError, match=r"^[^\n]*w.safetensors [^\n]*\.$") as got:
            read(path)
        assert said in str(got.value)


def test_a_header_tells_what_is_read(tmp_path):
    path = tmp_path / "w.safetensors"
    tensors = {"a": torch.ones(2, 3).T, "b": torch.zeros(0, 4, dtype=torch.int64)}
    write_file(path, tensors, {"x": "y"})
    forms, notes = read_header(path)
    assert notes == {"x": "y"}
    assert forms == {k: (t.dtype, tuple(t.shape)) for k, t in tensors.items()}
    back, _ = read_file(path, wanted=lambda name, form: form.dtype == torch.int64)
    assert list(back) == ["b"]


def test_tensors_are_written_under_names_that_are_cleaned_up(tmp_path):
    """A writer of safetensors with a name of its own would leave it behind when killed."""
    seen, done = set(), threading.Event()

    def watch():
        while not done.is_set():
            seen.update(path.name for path in tmp_path.iterdir())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(5):
        write_file(tmp_path / "net.safetensors", {"x": torch.zeros(1 << 22)}, {})
    done.set()
    watcher.join()
    assert len(seen) > 1 and all(name.endswith("net.safetensors") for name in seen)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64]
)
def test_tensors_and_facts_come_back(tmp_path, dtype):
    table = (100 * torch.randn(4, 6)).to(dtype)
    tensors = {"plain": table, "turned": table.T, "part": table[::2, 1:], "none": table[:0]}
    tensors["tracked"] = torch.ones(2, requires_grad=True)
    facts = {"n": 3, "names": ["ä", "b"], "deep": {"x": None}}
    path = tmp_path / "new" / "folder" / "file.safetensors"
    write_tensors(path, "things", tensors, facts)
    back, told = read_tensors(str(path), "things")
    assert told == facts and back.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and torch.equal(back[name], tensor.detach())


def test_digests_tell_shapes_apart_and_fingerprints_contents_alone():
    flat, square = torch.ones(6), torch.ones(2, 3)
    assert digest([("x", flat)]) != digest([("x", square)])
    assert fingerprint([flat]) == fingerprint(square) != fingerprint([2 * flat])


HEADER = {"format": "vinets.things", "version": "1", "facts": "{}"}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (None, "must hold vinets.things. Got 'no format mark' instead"),
        (HEADER | {"format": "vinets.others"}, "must hold vinets.things. Got 'vinets.others'"),
        (HEADER | {"version": "2"}, "has version '2'; this release reads version 1"),
        ({"format": "vinets.things", "facts": "{}"}, "has version None"),
        (HEADER | {"facts": "{"}, "no readable description"),
        (HEADER | {"facts": json.dumps([1])}, "no readable description"),
        ({"format": "vinets.things", "version": "1"}, "no readable description"),
    ],
)
def test_other_files_are_refused(tmp_path, header, message):
    save_file({"x": torch.zeros(1)}, str(tmp_path / "x"), header)
    with pytest.raises(ValueError, match=message):
        read_tensors(tmp_path / "x", "things")


def test_files_that_are_none_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(FileNotFoundError, match="does not exist or is not a file"):
            read_tensors(path, "things")
