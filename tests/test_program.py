"""The program as a process: stopped, with any streams, killed next to its workers."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from program import python

from vinets.core.progress import SafeStream
from vinets.models import digits_cnn, save_weights

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs Linux")
STOPPED = "Stopped. Run the same command again: it goes on after the last step that was kept."


def program(*words: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "vinets", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **(pipes | options))


def test_modules_of_one_system_and_of_gpus_alone_are_not_needed():
    """Everything is imported where ``resource``, ``fcntl`` and Triton are missing."""
    script = (
        "import importlib, pkgutil, sys\n"
        "sys.modules.update(dict.fromkeys(('resource', 'fcntl', 'triton')))\n"
        "import vinets\n"
        "names = [m.name for m in pkgutil.walk_packages(vinets.__path__, 'vinets.')]\n"
        "for name in names: importlib.import_module(name)\n"
        "assert len(names) > 100\n"
    )
    python(script)


@pytest.mark.parametrize(("wanted", "policy"), [(None, "passive"), ("active", "active")])
def test_threads_sleep_while_they_wait_unless_the_user_wants_otherwise(wanted, policy):
    """What the environment says when torch is imported, which is when its threads read it."""
    script = (
        "import os, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'torch': sys.exit(os.environ.get('OMP_WAIT_POLICY'))\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from vinets.__main__ import main\n"
        "main()"
    )
    words = ("cuts", "digits_cnn", "--shape", "1,8,8")
    assert python(script, *words, code=1, OMP_WAIT_POLICY=wanted).stderr == f"{policy}\n"


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library has no mallopt"
)
@pytest.mark.parametrize("kept", [True, False])
def test_large_blocks_are_kept_for_the_next_step_unless_the_user_wants_otherwise(kept):
    """A second block of 256 MiB is the first one again, whose pages the process has already."""
    script = (
        "import resource, numpy\n"
        "from vinets.__main__ import keep_memory\n"
        "keep_memory()\n"
        "def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "numpy.ones(2**28, dtype='u1')\n"
        "before = faults()\n"
        "numpy.ones(2**28, dtype='u1')\n"
        "print((faults() - before) * resource.getpagesize() < 2**26)\n"
    )
    theirs = dict.fromkeys((one for one in os.environ if one.startswith("MALLOC_")), None)
    if not kept:
        theirs |= {"MALLOC_MMAP_THRESHOLD_": str(2**20), "MALLOC_TRIM_THRESHOLD_": "0"}
    # Huge pages would hide what is asked for anew behind few faults.
    assert python(script, NUMPY_MADVISE_HUGEPAGE="0", **theirs).stdout == f"{kept}\n"


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 1>&- 2>&-"])
def test_closed_streams_do_no_harm(closed, tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(size=(60, 4)))
    np.save(tmp_path / "y.npy", np.arange(60) % 2)
    (tmp_path / "net.py").write_text(
        "from torch import nn\ndef net(num_classes=2): return nn.Linear(4, num_classes)\n"
    )
    words = f"train --model {tmp_path / 'net.py'}:net --data {tmp_path / 'x.npy'},{tmp_path}/y.npy"
    options = f"--epochs 1 --device cpu --out {tmp_path / 'o'}"
    line = f"{sys.executable} -m vinets {words} {options} {closed}"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert "training" not in done.stdout  # progress does not change over to stdout
    assert (tmp_path / "o" / "network.json").is_file()


def test_a_terminal_of_ascii_does_no_harm(tmp_path):
    names = ["äpfel", "βήτα"]
    for index in range(12):
        path = tmp_path / "d" / names[index % 2] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 20 * index).save(path)
    save_weights(digits_cnn(2, channels=3), tmp_path / "w.safetensors")
    words = ("evaluate", "digits_cnn", "--weights", tmp_path / "w.safetensors")
    words = (*words, "--data", tmp_path / "d", "--device", "cpu")
    twice = (
        "import sys; from vinets.__main__ import main\n"
        "try: main()\nexcept SystemExit as end: print(end.code)\n"
        "sys.argv.append('--json'); main()"
    )
    plain, ended, told = python(twice, *words, PYTHONIOENCODING="ascii").stdout.partition("\n0\n")
    assert "?pfel" in plain and ended
    assert json.loads(told)["classes"] == names


# --- processes beside others ------------------------------------------------------------------


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in found]


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def crew(folder: Path) -> subprocess.Popen:
    """A search whose processes would train for minutes."""
    torch.manual_seed(0)
    save_weights(digits_cnn(), folder / "w.safetensors")
    process = program(*search(folder), stdout=None, start_new_session=True)
    end = time.monotonic() + 60
    while not list((folder / "out" / ".workers").rglob("*.safetensors")):
        assert time.monotonic() < end and process.poll() is None
        time.sleep(0.1)
    return process


def search(folder: Path) -> tuple[str, ...]:
    words = ("compress", "digits_cnn", "--weights", str(folder / "w.safetensors"))
    words = (*words, "--data", "digits", "--budget", "params=10%", "--epochs", "5000")
    return (*words, "--out", str(folder / "out"), "--device", "cpu", "--jobs", "2")


def gone(workers: list[int]) -> bool:
    end = time.monotonic() + 15
    while any(map(alive, workers)) and time.monotonic() < end:
        time.sleep(0.1)
    return not any(map(alive, workers))


def test_a_second_writer_gets_a_sentence_and_no_worker_outlives_a_kill(tmp_path):
    process = crew(tmp_path)
    workers = children(process.pid)
    assert workers
    second = program(*search(tmp_path))
    told = second.communicate(timeout=30)[1]
    process.kill()
    process.communicate(timeout=30)
    assert second.returncode == 2 and "Another process is writing into" in told
    assert gone(workers)


def test_ctrl_c_ends_all_processes_with_one_sentence(tmp_path):
    process = crew(tmp_path)
    workers = children(process.pid)
    assert len(workers) >= 2
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.splitlines()[-1] == STOPPED and "Traceback" not in err
    assert gone(workers)


def test_a_fit_in_a_forked_process_ends():
    script = (
        "import os, numpy as np, torch; from vinets import ABM\n"
        "torch.set_num_threads(2); X = np.random.default_rng(0).uniform(-1, 1, (2000, 12))\n"
        "(torch.randn(4_000_000) + 1).sum(); ABM(max_degree=2).fit(X); child = os.fork()\n"
        "if not child: (torch.randn(4_000_000) + 1).sum(); ABM(max_degree=2).fit(X); os._exit(7)\n"
        "import signal; signal.alarm(20); raise SystemExit(os.waitpid(child, 0)[1] >> 8)"
    )
    python(script, code=7, OMP_NUM_THREADS="2")


def test_names_from_files_command_no_terminal():
    evil = "\x1b[2J\x1b]0;title\x07\x9b31m"
    _, said = program("evaluate", f"{evil}net", "--data", "digits").communicate()
    assert "[2J" in said and not set(said) & {"\x1b", "\x07", "\x9b"}
    stream = StringIO()
    assert SafeStream(stream).write(f"\x1b[1mbold\x1b[0m\ta\r\n{evil}") > 20
    assert stream.getvalue() == "\x1b[1mbold\x1b[0m\ta\n[2J]0;title31m"  # colours stay
