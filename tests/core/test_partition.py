"""A network that falls apart in the midst of the work: the result is that of one process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import cloudpickle
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from vinets import ABM, fit_class_ideals
from vinets.core.executors import workers

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[1]
HERE, THERE = "10.213.77.1", "10.213.77.2"
ENV = os.environ | {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT / "src"),
    # minutes by default
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "30s",
}


@dataclass(frozen=True)
class Apart:
    """A namespace with a network of its own, joined to this one by a cable."""

    name: str

    @property
    def inside(self) -> tuple[str, ...]:
        """Words before a command that runs there."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """Pull the cable over there: nobody is told, packets just do not arrive."""
        end = f"ip -n {self.name} link set {self.name}b down"
        subprocess.run(end.split(), check=True)


@pytest.fixture
def apart() -> Iterator[Apart]:
    name = f"vi{os.getpid() % 100_000}"
    steps = (
        f"ip netns add {name}",
        f"ip link add {name} type veth peer name {name}b netns {name}",
        f"ip addr add {HERE}/24 dev {name}",
        f"ip link set {name} up",
        f"ip -n {name} addr add {THERE}/24 dev {name}b",
        f"ip -n {name} link set {name}b up",
        f"ip -n {name} link set lo up",
    )
    if shutil.which("ip") is None:
        pytest.skip("there is no ip to make a network with")
    try:
        for step in steps:
            done = subprocess.run(step.split(), capture_output=True, text=True)
            if done.returncode:
                pytest.skip(f"no network can be made here: {done.stderr.strip()}")
        yield Apart(name)
    finally:
        subprocess.run(["ip", "link", "del", name], capture_output=True)
        subprocess.run(["ip", "netns", "del", name], capture_output=True)


@contextmanager
def running(*words: object) -> Iterator[subprocess.Popen[bytes]]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(list(map(str, words)), env=ENV, **quiet)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until(true, seconds=180.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def answers(port):
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex((HERE, port)) == 0


def free_port():
    with socket.socket() as free:
        free.bind((HERE, 0))
        return free.getsockname()[1]


class Slow(ABM):
    """Says in which network it is fitted, and waits until it is fitted in both."""

    def __init__(self, psi=0.01, max_degree=2, marks=""):
        super().__init__(psi, max_degree=max_degree)
        self.marks = marks

    def _fit_sets(self, sets, progress=None):
        if self.marks:
            (Path(self.marks) / Path("/proc/self/ns/net").readlink().name).touch()
            until(lambda: len(list(Path(self.marks).iterdir())) == 2)
            time.sleep(1)
        return super()._fit_sets(sets, progress)


def assert_survives(address, apart, random, marks):
    """Fit classes on a cluster with a worker on both sides, and cut it when both work."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    y = np.repeat(np.arange(12), 40)
    Z = torch.from_numpy(np.tanh(random.normal(size=(480, 4)) + y[:, None] / 9))

    def cut_when_both_work():
        until(lambda: len(list(marks.iterdir())) == 2)
        apart.cut()

    cutting = Thread(target=cut_when_both_work)
    cutting.start()
    with workers(address):
        there = fit_class_ideals(Z, y, Slow(psi=0.02, marks=str(marks)))
    cutting.join()
    assert len(list(marks.iterdir())) == 2  # both had a part in it
    here = fit_class_ideals(Z, y, Slow(psi=0.02))
    assert here.n_generators == there.n_generators > 0
    assert torch.equal(here.transform(Z), there.transform(Z))


def test_a_worker_of_dask_that_cannot_be_reached_any_more(apart, random, tmp_path):
    distributed = pytest.importorskip("distributed")
    port = free_port()
    dask, options = (sys.executable, "-m", "dask"), ("--nthreads", 1, "--no-dashboard")
    with ExitStack() as stack:
        scheduler = (*dask, "scheduler", "--host", HERE, "--port", port, "--no-dashboard")
        stack.enter_context(running(*scheduler))
        until(lambda: answers(port))
        place = f"tcp://{HERE}:{port}"
        stack.enter_context(running(*dask, "worker", place, *options))
        stack.enter_context(running(*apart.inside, *dask, "worker", place, *options))
        with distributed.Client(place) as client:
            client.wait_for_workers(2, timeout=60)
        assert_survives(f"dask://{HERE}:{port}", apart, random, tmp_path)


def test_ranks_that_cannot_reach_each_other_any_more(apart, tmp_path):
    """The job ends with a sentence; run again, it goes on, and gives what it would have given."""
    job, port = ROOT / "tests" / "ranks" / "job.py", free_port()
    out = tmp_path / "cut"
    checkpoint = out / "steps" / "checkpoint.safetensors"
    facts = {"WORLD_SIZE": "2", "MASTER_ADDR": HERE, "MASTER_PORT": str(port)}
    words = [sys.executable, str(job), "train", str(out), "timeout=20", "slow=1"]
    both = []
    out.mkdir()
    for rank, before in enumerate(((), apart.inside)):
        link = {"GLOO_SOCKET_IFNAME": apart.name + "b" * rank, "RANK": str(rank)}
        env = ENV | facts | link
        call = [*before, *words]
        both.append(subprocess.Popen(call, env=env, stderr=subprocess.PIPE, text=True))
    try:
        until(checkpoint.exists)
        apart.cut()
        told = [one.communicate(timeout=120)[1] for one in both]
    finally:
        for one in both:
            one.kill()
    assert all(one.returncode for one in both)
    assert all("goes on behind the last checkpoint" in text for text in told)
    assert not (out / "result.safetensors").exists()
    found = []
    for folder in (out, tmp_path / "whole"):
        folder.mkdir(exist_ok=True)
        subprocess.run([sys.executable, job, "train", folder], env=ENV, check=True)
        found.append(load_file(folder / "result.safetensors"))
    for name, tensor in found[1].items():
        torch.testing.assert_close(found[0][name], tensor, rtol=1e-4, atol=2e-5)
