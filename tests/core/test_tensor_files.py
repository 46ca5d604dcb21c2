"""What is written comes back bit for bit; anything else is refused in one sentence."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from vinets.core.tensors import read_tensors, write_tensors


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
    (tmp_path / "text").write_text("{}")
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        read_tensors(tmp_path / "text", "things")
