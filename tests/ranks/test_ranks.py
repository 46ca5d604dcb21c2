"""Two processes that work together do what one does, and one that ends leaves what was done."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from vinets.core import ranks

JOB = Path(__file__).with_name("job.py")


def started(what, out, **options):
    """Two processes of torchrun; what they said, and the exit code."""
    out.mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["-m", "torch.distributed.run", "--nproc-per-node", 2, "--master-port", port]
    words += [JOB, what, out, *(f"{name}={value}" for name, value in options.items())]
    source = Path(__file__).parents[2] / "src"
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(source)}
    call = [sys.executable, *map(str, words)]
    return subprocess.run(call, env=env, capture_output=True, text=True, timeout=240)


def by_one(what, out):
    """What the job gives in this process."""
    spec = importlib.util.spec_from_file_location("job", JOB)
    job = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(job)
    job.run(what, out)
    return load_file(out / "result.safetensors")


def assert_same(one, two):
    assert one.keys() == two.keys()
    assert torch.equal(one["confusion"], two["confusion"])  # decisions, example by example
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-4, atol=2e-5)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return by_one("everything", tmp_path_factory.mktemp("alone"))


def test_two_processes_find_what_one_finds(alone, tmp_path):
    done = started("everything", tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same(alone, load_file(tmp_path / "result.safetensors"))


@pytest.mark.cluster
def test_a_process_that_ends_leaves_a_checkpoint_for_any_number(alone, tmp_path):
    # 3 steps an epoch: it ends in the second one
    ended = started("train", tmp_path / "ended", die=5)
    assert ended.returncode != 0
    assert "Another process of this job has ended" in ended.stderr
    assert "goes on behind the last checkpoint" in ended.stderr
    assert not (tmp_path / "ended" / "result.safetensors").exists()
    assert (tmp_path / "ended" / "steps" / "checkpoint.safetensors").exists()
    resumed = by_one("train", tmp_path / "ended")
    weights = {n.replace("state.", "state.train."): t for n, t in resumed.items() if "state" in n}
    for name, tensor in weights.items():
        torch.testing.assert_close(tensor, alone[name], rtol=1e-4, atol=2e-5)
    losses = resumed["numbers"]
    torch.testing.assert_close(losses, alone["numbers"][: len(losses)], rtol=1e-4, atol=2e-5)


def test_one_alone_is_all_there_is():
    rows = torch.arange(5.0)
    with ranks.joined():
        assert (ranks.rank(), ranks.size()) == (0, 1)
        assert ranks.part(rows) is rows and ranks.summed(rows) is rows
        assert list(ranks.turns("abc")) == ["a", "b", "c"] == ranks.in_turns(["a", "b", "c"])
