from __future__ import annotations

import os
import struct
import subprocess
import sys

import pytest
import torch

from vinets import files
from vinets.cli.errors import sentence
from vinets.core.files import append_line, parse_json, read_json, write_json, write_text
from vinets.core.tensors import read_file, read_header, write_file

# --- reading ----------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path):
    values = {"a": [1, -(2**63), 0.5, None, True], "ü": {"": "x"}}
    assert read_json(write_json(tmp_path / "new" / "a.json", values)) == values


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 65 + "]" * 65, "more than 64 deep"),
        ("[" * 500_000, "more than 64 deep"),
        ('{"a":' * 80 + "1" + "}" * 80, "more than 64 deep"),
        ('{"a": {"b": 1, "b": 1}}', "'b' stands twice"),
        ("[9223372036854775808]", "more than 64 bits"),
        ("[" + "7" * 6000 + "]", "more than 64 bits"),
        ("{", "is not readable JSON"),
    ],
)
def test_json_that_cannot_be_meant_is_refused_in_one_sentence(tmp_path, text, said):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"^[^\n]*a.json is not readable JSON: [^\n]*\.$") as got:
        read_json(path)
    assert said in str(got.value) and len(str(got.value)) < 300 + len(str(path))


def test_as_deep_as_allowed_is_read():
    assert parse_json("[" * 63 + "]" * 63)


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(ValueError, match="at most 16,777,216 bytes"):
        read_json(path)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_read(tmp_path, kind):
    path = tmp_path / "settings.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises((ValueError, OSError), match=r"regular file|directory"):
        read_json(path)
    with pytest.raises((ValueError, OSError), match="not a file"):
        read_header(path)


def test_links_in_a_circle_are_an_error_of_the_system(tmp_path):
    (tmp_path / "a.json").symlink_to("a.json")
    with pytest.raises(OSError) as caught:
        read_json(tmp_path / "a.json", inside=tmp_path)
    assert caught.value.filename is not None


def test_lines_are_added_at_the_end_or_not_at_all(tmp_path, full_disk):
    path = tmp_path / "log" / "calls.jsonl"
    for line in ("a", "é"):
        append_line(path, line)
    assert path.read_text(encoding="utf-8") == "a\né\n"
    with full_disk(3), pytest.raises(OSError, match="is as it was"):
        append_line(path, "b")
    assert path.read_text(encoding="utf-8") == "a\né\n" and len(list(path.parent.iterdir())) == 1


def test_a_link_out_of_a_folder_is_not_followed(tmp_path):
    folder = tmp_path / "run"
    elsewhere = write_json(tmp_path / "secret.json", {"a": 1})
    (folder / "inner").mkdir(parents=True)
    (folder / "manifest.json").symlink_to(elsewhere)
    with pytest.raises(ValueError, match=r"a link out of .*run, which is not followed"):
        read_json(folder / "manifest.json", inside=folder)
    assert read_json(folder / "manifest.json") == {"a": 1}  # a file that somebody named
    (folder / "inner" / "b.json").symlink_to(write_json(folder / "b.json", 1))
    assert read_json(folder / "inner" / "b.json", inside=folder) == 1


def header(told: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(told.encode())) + told.encode() + data


SOUND = '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "header"),
        (struct.pack("<Q", 1 << 40), "header"),
        (header("[]"), "no object"),
        (header("{" * 100_000), "not a readable safetensors file"),
        (header(SOUND, bytes(7)), "it has 7"),
        (header(SOUND.replace("F32", "F8_E5M2"), bytes(2)), "none of BOOL"),
        (header(SOUND.replace("F32", "U64"), bytes(16)), "none of BOOL"),
        (header(SOUND.replace("[2]", "[4611686018427387904,4]"), bytes(8)), "another length"),
        (header(SOUND.replace("[2]", "[-1,-2]"), bytes(8)), "no shape"),
        (header(SOUND.replace("[2]", "[true]"), bytes(8)), "no shape"),
        (header(SOUND[:-1] + "," + SOUND[1:], bytes(8)), "'a' stands twice"),
        (header(SOUND[:-1] + ',"b"' + SOUND[4:], bytes(8)), "overlap"),
        (header('{"__metadata__":{"a":1}}'), "no texts"),
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


# --- writing ----------------------------------------------------------------------------------


def write_tensors(path, size: int) -> None:
    write_file(path, {"a": torch.zeros(size)}, {})


WRITERS = [lambda path, size: write_text(path, "x" * size), write_tensors]


@pytest.mark.parametrize("write", WRITERS)
def test_a_full_disk_is_one_sentence_and_the_old_file_stays(tmp_path, write, full_disk):
    path = tmp_path / "kept"
    write(path, 10)
    before = path.read_bytes()
    with full_disk(1000), pytest.raises(OSError, match=r"kept could not be written") as got:
        write(path, 100_000)
    assert sentence(got.value) == str(got.value) and "\n" not in str(got.value)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["kept"]


@pytest.mark.parametrize("write", WRITERS)
def test_a_folder_or_a_file_in_the_way_is_one_sentence(tmp_path, write):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "folder", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="could not be written") as got:
            write(path, 10)
        assert sentence(got.value) == str(got.value)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"] and not os.listdir(
        tmp_path / "folder"
    )


@pytest.mark.parametrize("write", WRITERS)
def test_a_link_that_waits_where_a_file_is_prepared_is_not_written_through(
    tmp_path, write, monkeypatch
):
    monkeypatch.setattr(files.secrets, "token_hex", lambda count: "guessed")
    (tmp_path / "other").write_text("mine")
    with files.written_aside(tmp_path / "kept") as aside:
        aside.write_text("")
    aside.symlink_to(tmp_path / "other")
    write(tmp_path / "kept", 10)
    assert (tmp_path / "other").read_text() == "mine" and (tmp_path / "kept").is_file()


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    path = tmp_path / "kept"
    with files.written_aside(path) as first:
        first.write_text("first, ")
        with files.written_aside(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
        with first.open("a") as file:
            file.write("to the end")
    assert path.read_text() == "first, to the end" and os.listdir(tmp_path) == ["kept"]


def test_many_writers_leave_one_whole_file_and_nothing_else(tmp_path):
    script = (
        "import sys, torch; from vinets.core.files import write_json\n"
        "from vinets.core.tensors import write_file\nfor i in range(60):\n"
        "    write_json(sys.argv[1] + '/a.json', {'by': [sys.argv[2]] * 2000})\n"
        "    write_file(sys.argv[1] + '/t.safetensors', {'x': torch.full((9000,), i)}, {})\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    both = [subprocess.Popen([*command, name]) for name in "ab"]
    assert [process.wait(60) for process in both] == [0, 0]
    assert len(set(read_json(tmp_path / "a.json")["by"])) == 1
    assert read_file(tmp_path / "t.safetensors")[0]["x"].unique().tolist() == [59]
    assert sorted(os.listdir(tmp_path)) == ["a.json", "t.safetensors"]


def test_what_a_killed_writer_left_is_removed_and_what_others_write_is_not(tmp_path):
    path = tmp_path / "kept"
    with files.written_aside(path) as aside:
        aside.write_text("")
    here, _, rest = aside.name.partition("-")
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = tmp_path / f"{here}-{ended.pid}-0.kept"
    others = [f"{here}-{os.getppid()}-0.kept", f"{here}-{ended.pid}-0.other", f".0-{rest}"]
    for name in (left.name, *others):
        (tmp_path / name).write_text("")
    write_text(path, "x")
    assert sorted(os.listdir(tmp_path)) == sorted([*others, "kept"])


@pytest.mark.parametrize("name", [b"\xff", "β".encode()])
def test_a_name_that_libraries_write_differently_is_refused_at_once(tmp_path, name):
    """Of bytes that are no text, and of letters that the file system writes otherwise."""
    path = os.fsencode(tmp_path) + b"/" + name
    script = (
        "import os, sys; from vinets.core.locks import locked\n"
        "from vinets.core.files import write_text\n"
        "for ask in (lambda: locked(sys.argv[1]).__enter__(), lambda: write_text(sys.argv[1], '')):"
        "\n    try: ask()\n    except ValueError as error: print(str(error).isascii(), error)\n"
    )
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", script, path]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=plain)
    assert done.stdout.count("True The name ") == 2 and "cannot be written as UTF-8" in done.stdout
    assert not os.listdir(tmp_path)


def test_tensors_are_written_under_names_that_are_cleaned_up(tmp_path):
    """A writer of safetensors with a name of its own would leave it behind when killed."""
    import threading

    from vinets.core.tensors import write_file

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
