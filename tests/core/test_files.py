"""Files: read only if they can be meant, written whole or not at all, one writer to a folder."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import pytest
import torch
from program import python

from vinets import build, compress, fine_tune, train_classifier
from vinets.cli.app import sentence
from vinets.core import files
from vinets.core.files import append_line, locked, parse_json, read_json, write_json, write_text
from vinets.core.tensors import read_header, write_file
from vinets.data import digits
from vinets.models import digits_cnn
from vinets.networks.network import CutNetwork

# --- reading ----------------------------------------------------------------------------------


def test_what_is_written_is_read(tmp_path):
    values = {"a": [1, -(2**63), 0.5, None, True], "ü": {"": "x"}}
    assert read_json(write_json(tmp_path / "new" / "a.json", values)) == values
    assert parse_json("[" * 63 + "]" * 63)  # as deep as is allowed


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


def test_a_large_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "a.json"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(ValueError, match="at most 16,777,216 bytes"):
        read_json(path)


@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir()]
)
def test_only_regular_files_are_read(tmp_path, make):
    path = tmp_path / "settings.json"
    make(path)
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


# --- writing ----------------------------------------------------------------------------------


@pytest.fixture(
    params=[
        lambda path, size: write_text(path, "x" * size),
        lambda path, size: write_file(path, {"a": torch.zeros(size)}, {}),
    ],
    ids=["text", "tensors"],
)
def write(request):
    return request.param


def test_a_full_disk_is_one_sentence_and_the_old_file_stays(tmp_path, write, full_disk):
    path = tmp_path / "kept"
    write(path, 10)
    before = path.read_bytes()
    with full_disk(1000), pytest.raises(OSError, match=r"kept could not be written") as got:
        write(path, 100_000)
    assert sentence(got.value) == str(got.value) and "\n" not in str(got.value)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["kept"]


def test_a_folder_or_a_file_in_the_way_is_one_sentence(tmp_path, write):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "folder", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="could not be written") as got:
            write(path, 10)
        assert sentence(got.value) == str(got.value)
    left = sorted(path.name for path in tmp_path.rglob("*"))
    assert left == ["file", "folder"]


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


def test_two_processes_leave_one_whole_file_and_nothing_else(tmp_path):
    script = (
        "import sys; from vinets.core.files import write_json\n"
        "for i in range(200): write_json(sys.argv[1] + '/a.json', [sys.argv[2]] * 2000)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    both = [subprocess.Popen([*command, name]) for name in "ab"]
    assert [process.wait(60) for process in both] == [0, 0]
    assert len(set(read_json(tmp_path / "a.json"))) == 1 and os.listdir(tmp_path) == ["a.json"]


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
        "import sys; from vinets.core.files import locked, write_text\n"
        "for ask in (lambda: locked(sys.argv[1]).__enter__(), lambda: write_text(sys.argv[1], '')):"
        "\n    try: ask()\n    except ValueError as error: print(str(error).isascii(), error)\n"
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    told = python(script, os.fsdecode(path), **plain).stdout
    assert told.count("True The name ") == 2 and "cannot be written as UTF-8" in told
    assert not os.listdir(tmp_path)


# --- locks ------------------------------------------------------------------------------------

HOLD = (
    "import sys, time; from vinets.core.files import locked\n"
    "with locked(sys.argv[1]): print('held', flush=True); time.sleep(float(sys.argv[2]))"
)


def holder(folder, seconds: float) -> subprocess.Popen:
    command = [sys.executable, "-c", HOLD, str(folder), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_writer_is_refused_until_the_first_has_ended(tmp_path):
    folder = tmp_path / "run"
    process = holder(folder, 60)
    with pytest.raises(ValueError, match=r"Another process is .*run\. Wait"), locked(folder):
        pass
    process.kill()  # as nothing but the system can notice
    process.wait()
    with locked(folder):
        pass
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_waiting_takes_as_long_as_the_other_one(tmp_path):
    process, begin = holder(tmp_path, 1.0), time.monotonic()
    with locked(tmp_path, wait=True):
        assert time.monotonic() - begin > 0.3
        assert process.wait(10) == 0


FORK = multiprocessing.get_context("fork")


@pytest.mark.parametrize("kind", [threading.Thread, FORK.Process])
def test_the_owner_may_ask_again_and_another_thread_or_its_fork_may_not(tmp_path, kind):
    answers = FORK.SimpleQueue()

    def ask():
        try:
            with locked(tmp_path):
                answers.put("taken")
        except ValueError:
            answers.put("refused")

    def elsewhere():
        other = kind(target=ask)
        other.start()
        other.join(30)
        return answers.get()

    with locked(tmp_path):
        with pytest.raises(RuntimeError), locked(tmp_path / "."):
            assert elsewhere() == "refused"
            raise RuntimeError
        assert elsewhere() == "refused"
    assert elsewhere() == "taken"


@pytest.fixture
def held(tmp_path):
    """A folder that another thread holds; nothing is written there."""
    begun, done = threading.Event(), threading.Event()

    def hold():
        with locked(tmp_path):
            begun.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait(60)
    yield tmp_path
    done.set()
    thread.join()
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_whatever_writes_checkpoints_from_python_has_its_folder_to_itself(held):
    model, data = digits_cnn(), digits()
    short = {"epochs": 1, "directory": held, "progress": None}
    net, _ = build(model, data.train, "relu2", head="products", parameters=2000, progress=None)
    for work in (
        lambda: train_classifier(model, data.train, **short),
        lambda: fine_tune(net, data.train, trained="coefficients", **short),
        lambda: fine_tune(net, data.train, trained="backbone", **short),
        lambda: compress(model, data, "drop=1", out=held, device="cpu", progress=None),
    ):
        with pytest.raises(ValueError, match="Another process is writing into"):
            work()


def test_two_that_save_one_folder_leave_one_network(tmp_path):
    """Both files are of the same writer."""
    options = {"head": "products", "parameters": 2000, "progress": None}
    data = digits().train
    nets = [build(digits_cnn(), data, "relu2", seed=seed, **options)[0] for seed in range(2)]

    def save(net):
        for _ in range(10):
            net.save_pretrained(tmp_path)

    threads = [threading.Thread(target=save, args=(net,)) for net in nets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    CutNetwork.from_pretrained(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [".lock", "config.json", "model.safetensors"]
