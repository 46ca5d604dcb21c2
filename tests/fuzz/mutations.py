"""From a good file to one that is damaged or meant to do harm; every choice by one generator."""

from __future__ import annotations

import copy
import gzip
import json
import os
import pickletools
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

ODD: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 7, 255, 2**16, 2**20, 2**30, 2**31, 2**53, 2**62),
    *(2**63 - 1, -(2**63), 0.0, -0.5, 0.5, 1e-308, 1e308, float("nan"), float("inf")),
    *("", "x", "0", "-1", "float32", "float8_e5m2", "F64", "I64", "BOOL", "U8", "\ud800", "\0"),
    *("é" * 50, "x" * 2000, "../../x", "/dev/zero", "hf-hub:a/b", "__class__", "os.system"),
    *([], {}, [[]], [{}], {"": 0}, [0] * 50, [2**40, 2**40], ["a", 1, None], {"a": {"a": {}}}),
]
RAW = ["9" * 6000, "1e999", "-" + "9" * 30, "[" * 100_000, '{"a":' * 500 + "1" + "}" * 500, "tru"]


# --- any bytes --------------------------------------------------------------------------------


def any_bytes(content: bytes, rng: Random) -> bytes:
    """Flip, cut, insert, repeat or blank out, a few times."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        length = rng.choice((1, 2, 4, 8, 100))
        part = bytes(data[at : at + length])
        flipped = bytes(byte ^ 1 << rng.randrange(8) for byte in part[:1]) + part[1:]
        odd = rng.choice((b"\0", b"\xff", b"\x80", b"[")) * length
        size = struct.pack("<Q", rng.choice((0, 1, 2**31, 2**40, 2**63, 2**64 - 1)))
        others = (flipped, b"", part * rng.choice((2, 3, 1001)), rng.randbytes(length), odd, size)
        data[at : at + length] = rng.choice(others) + rng.choice((b"", b"", part))
        if rng.random() < 0.15:
            del data[at:]
    return bytes(data)


# --- JSON -------------------------------------------------------------------------------------


def places(values: Any) -> list[tuple[Any, Any]]:
    """List every container in a JSON tree with every key or position in it."""
    pairs = []
    if isinstance(values, dict | list):
        for key in list(values) if isinstance(values, dict) else range(len(values)):
            pairs += [(values, key), *places(values[key])]
    return pairs


def change_tree(values: Any, rng: Random) -> Any:
    """Put other values into a few places of a JSON tree."""
    values = copy.deepcopy(values)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        every = places(values)
        if not every:
            return rng.choice(ODD)
        one, key = rng.choice(every)
        kind = rng.randrange(8)
        if kind == 0:
            del one[key]
        elif kind == 1 and isinstance(one, dict):
            one[rng.choice(("x", "", "format", "attribute_map", "kind"))] = rng.choice(ODD)
        elif kind == 2 and isinstance(one[key], list):
            one[key] = one[key] * rng.choice((0, 2, 300))
        elif kind == 3:
            other, place = rng.choice(every)
            one[key] = copy.deepcopy(other[place])
        elif kind == 4 and type(one[key]) in (int, float):
            one[key] = rng.choice((one[key] + 1, -one[key], one[key] * 2**20, one[key] / 3))
        else:
            one[key] = copy.deepcopy(rng.choice(ODD))
    return values


def json_text(values: Any, rng: Random) -> bytes:
    """Write values as JSON, perhaps with something that no writer would write."""
    text = json.dumps(values, ensure_ascii=rng.random() < 0.9)
    kind = rng.randrange(12)
    if kind == 0:  # a name twice
        text = text.replace("{", '{"format": 1, "format": 1, ', 1)
    elif kind == 1:
        at = rng.choice([i for i, letter in enumerate(text) if letter in ":,["] or [0])
        text = text[: at + 1] + rng.choice(RAW) + rng.choice(("", text[at + 1 :]))
    return text.encode("utf-8", errors="surrogatepass")


def json_file(content: bytes, rng: Random) -> bytes:
    if rng.random() < 0.15:
        return any_bytes(content, rng)
    return json_text(change_tree(json.loads(content), rng), rng)


# --- tensors ----------------------------------------------------------------------------------


def tensor_file(content: bytes, rng: Random) -> bytes:
    """Change names, dtypes, shapes, places or notes in a safetensors file."""
    if rng.random() < 0.2:
        return any_bytes(content, rng)
    length = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    names = [name for name in header if name != "__metadata__"]
    kind, notes = rng.randrange(8), header.get("__metadata__", {})
    if kind == 0 and "facts" in notes:
        facts = json_text(change_tree(json.loads(notes["facts"]), rng), rng)
        notes["facts"] = facts.decode("utf-8", errors="surrogatepass")
    elif kind > 5 or not names:
        header = change_tree(header, rng)
    else:
        name = rng.choice(names)
        facts, shape = header[name], header[name]["shape"]
        begin, end = facts["data_offsets"]
        if kind == 1:  # another dtype, often of the same size
            same = {"F32": "I32", "F64": "I64", "I64": "F64", "F16": "BF16", "BOOL": "U8"}
            facts["dtype"] = same.get(facts["dtype"], rng.choice(("F8_E4M3", "U32")))
        elif kind == 2:  # another shape of the same size
            facts["shape"] = rng.choice((shape[::-1], [1, *shape], [*shape, 1]))
        elif kind == 3:
            header[rng.choice(("x", "now.x", "", "head.x", name + ".", *names))] = header.pop(name)
        elif kind == 4:  # numbers that no writer meant, in sound tensors
            odd = rng.choice((b"\xff", b"\0", b"\x7f", rng.randbytes(8)))
            data = data[:begin] + (odd * (end - begin))[: end - begin] + data[end:]
        else:  # without a tensor, and without a gap
            del header[name]
            data = data[:begin] + data[end:]
            for other in set(names) - {name}:
                if header[other]["data_offsets"][0] >= end:
                    offsets = header[other]["data_offsets"]
                    header[other]["data_offsets"] = [at - (end - begin) for at in offsets]
    text = json_text(header, rng)
    length = len(text) if rng.random() < 0.95 else rng.choice((0, 2**40, 2**64 - 1))
    return struct.pack("<Q", length) + text + data


# --- pickles ----------------------------------------------------------------------------------

INSTRUCTIONS = [one.code.encode("latin-1") for one in pickletools.opcodes]
ARGUMENTS = [
    *(b"", b"\x00", b"\x01", b"\x02", b"\x04data", b"\x06labels", b"\x05\x00\x00\x00names", b"1\n"),
    *(b"\xff\x00", b"\x02\xff\xff", b"\xff\xff\xff\x7f", b"1.5\n", b"numpy\nndarray\n"),
    *(b"numpy\ndtype\n", b"_codecs\nencode\n", b"numpy.core.multiarray\n_reconstruct\n"),
    b"os\nsystem\n",
]


def pickle_file(content: bytes, rng: Random) -> bytes:
    """Write a program for the stack machine: doubled, deep, random, or a damaged good one."""
    kind = rng.randrange(5)
    if kind == 0:
        return any_bytes(content, rng)
    if kind == 1:  # something that stands twice in the next, and so on
        pair = rng.choice((b"\x86", b"e", b"\x87"))
        begin = rng.choice((b"K\x01", b"]", b")", b"U\x01a", b"K\x01K\x02\x86"))
        steps = range(rng.choice((3, 30, 200)))
        doubled = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + pair for i in steps)
        return rng.choice((b"}U\x04data", b"}U\x06labels", b"}")) + begin + doubled + b"K\x01s."
    if kind == 2:
        open_, close = rng.choice(((b"]", b"a"), (b"}U\x01a", b"s"), (b")", b"\x85"), (b"(", b"t")))
        count = rng.choice((5, 9, 1000, 200_000))
        return b"}U\x04data" + open_ * count + close * (count - rng.randrange(2)) + b"s."
    words = ((rng.choice(INSTRUCTIONS), rng.choice(ARGUMENTS)) for _ in range(rng.randrange(1, 60)))
    program = b"".join(code + rng.choice((b"", argument)) for code, argument in words)
    if kind == 3:  # in the middle of a good one
        at = rng.randrange(len(content))
        return content[:at] + program + content[at:]
    return b"\x80\x02" * rng.randrange(2) + b"}" + program + b"."


# --- arrays and tables ------------------------------------------------------------------------


def idx_file(content: bytes, rng: Random) -> bytes:
    if rng.random() < 0.3:
        return any_bytes(content, rng)
    axes = rng.choice((content[3], content[3], 1, 3, 0, 255))
    sizes = [rng.choice((0, 1, 2, 8, 12, 2**16, 2**31, 2**32 - 1)) for _ in range(axes)]
    kind = rng.choice((8, 8, 8, 9, 13))
    return bytes((0, 0, kind, axes)) + struct.pack(f">{axes}I", *sizes) + content[16:]


def gzip_file(content: bytes, rng: Random) -> bytes:
    if rng.random() < 0.4:
        return any_bytes(content, rng)
    inner = idx_file(gzip.decompress(content), rng)
    if rng.random() < 0.1:  # small, and large when it is unpacked
        inner += bytes(20 << 20)
    return gzip.compress(inner, 1) + rng.choice((b"", b"", b"\0" * 8, gzip.compress(b"x")))


def npy_file(content: bytes, rng: Random) -> bytes:
    if rng.random() < 0.3:
        return any_bytes(content, rng)
    descr = rng.choice(("|u1", "<f4", ">f8", "<i8", "|O", "|V9", "<U100", "<c16", "|b1", "x"))
    size = rng.choice(("(40,)", "(40,8,8)", "(2,2)", "()", "(0,)", "(99999999999,)", "(-1,)"))
    order = rng.choice(("False", "True", "None"))
    extra = rng.choice(("", "", "", "'x': 1, ", "(" * 300, "__import__('os'), "))
    text = f"{{'descr': '{descr}', 'fortran_order': {order}, {extra}'shape': {size}}}\n".encode()
    version = rng.choice((1, 1, 1, 2, 3, 9))
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes((version, 0)) + length + text + content[128:]


def records_file(content: bytes, rng: Random) -> bytes:
    """Cut binary records of CIFAR, or change their labels."""
    if rng.random() < 0.5:
        return any_bytes(content, rng)
    data = bytearray(content)
    data[rng.choice((0, 1, 3073, 3074)) % len(data)] = rng.choice((0, 9, 10, 99, 100, 255))
    return bytes(data[: rng.choice((len(data), 3073, 3074, 6146, 3072))])


CELLS = [
    *("", "nan", "inf", "1e999", "1_0", '"', "x", "-", "\ufeff", "9" * 5000, "\t", ",", "0x1"),
    *("[" * 20_000, "{a = " * 5_000, "1979-05-27T07:32:00Z", '"""', "'\\u0000'", "{}", "true"),
    *("[[1], [[2]]]", "a.b", "k" * 100_000),
]


def line_file(content: bytes, rng: Random) -> bytes:
    """Change cells of a table, or keys and values of TOML; double, cut or add lines."""
    if rng.random() < 0.3:
        return any_bytes(content, rng)
    lines = content.decode().splitlines()
    for _ in range(rng.choice((1, 2, 5))):
        at = rng.randrange(len(lines))
        split = next((mark for mark in ("\t", " = ", ",") if mark in lines[at]), ",")
        row = lines[at].split(split)
        row[rng.randrange(len(row))] = rng.choice(CELLS)
        kind = rng.randrange(5)
        lines[at] = split.join(row + row if kind == 0 else row[:1] if kind == 1 else row)
        if kind == 2:
            others = ("", split * 100, "\0", "a" * 100_000, "[table]", "[[many]]", lines[at])
            lines.insert(at, rng.choice(others))
    return rng.choice(("\n", "\r\n", "\r")).join(lines).encode("utf-8", errors="replace")


# --- no files --------------------------------------------------------------------------


def not_a_file(path: Path, rng: Random) -> None:
    """Put something in the place of a file that is none, or leads elsewhere."""
    path.unlink()
    kind = rng.randrange(5)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to(rng.choice(("/dev/zero", "/dev/stdin", "/dev/full", "/proc/self/mem")))
    elif kind == 3:
        path.symlink_to(rng.choice(("nowhere", path.name, "/etc/passwd", "..")))
    elif rng.random() < 0.5:
        with path.open("wb") as file:
            file.truncate(1 << 40)  # takes no room on the disk
