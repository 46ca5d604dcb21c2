"""Work on a real Dask and a real Ray on this machine is what it is in one process, to the bit."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch
from joblib import parallel_config
from torch import nn

from vinets import ABM, fit_class_ideals
from vinets.core.executors import ClusterError, _Joblib, open_cluster, parse_cluster, workers
from vinets.data import digits
from vinets.ideals.pruning import score
from vinets.runs.setup import Setup
from vinets.runs.store import Store
from vinets.runs.trial import Trial
from vinets.runs.trials import run_trials
from vinets.training.loop import DivergedError

KINDS = {"dask": "distributed", "ray": "ray"}


@pytest.fixture(scope="module", params=["dask", pytest.param("ray", marks=pytest.mark.cluster)])
def cluster(request):
    pytest.importorskip(KINDS[request.param], reason=f"{request.param} is not installed")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    with open_cluster(f"{request.param}://local:2") as found:
        yield found


@contextmanager
def joblib_on(cluster):
    with parallel_config(_Joblib(cluster), n_jobs=-1):
        yield


def die_once(marker):
    """End this process as if its machine had been switched off, the first time."""
    path = Path(marker)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Mortal(ABM):
    """Kills the worker that fits the first class."""

    def __init__(self, psi=0.01, max_degree=2, marker=""):
        super().__init__(psi, max_degree=max_degree)
        self.marker = marker

    def _fit_sets(self, sets, progress=None):
        die_once(self.marker)
        return super()._fit_sets(sets, progress)


def test_class_ideals_and_scores_are_those_of_one_process_though_a_worker_dies(
    cluster, random, tmp_path
):
    y = np.repeat(np.arange(6), 40)
    Z = torch.from_numpy(np.tanh(random.normal(size=(240, 4)) + y[:, None] / 9))
    model = Mortal(psi=0.02, marker=str(tmp_path / "died"))
    with joblib_on(cluster):
        there = fit_class_ideals(Z, y, model)
        assert (tmp_path / "died").exists()
        far = score(there, Z, torch.from_numpy(y))
    here = fit_class_ideals(Z, y, model)
    near = score(here, Z, torch.from_numpy(y))
    assert here.n_generators == there.n_generators > 0
    assert torch.equal(here.transform(Z), there.transform(Z))
    assert all(map(np.array_equal, near.means, far.means))


class MortalLayer(nn.Module):
    """Kills the process that first runs it."""

    def __init__(self, marker):
        super().__init__()
        self.marker = str(marker)

    def forward(self, x):
        die_once(self.marker)
        return x


@pytest.mark.cluster
def test_trials_are_those_of_one_process_though_a_worker_dies(cluster, tmp_path):
    mortal = MortalLayer(tmp_path / "died")
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), mortal, nn.Flatten(), nn.Linear(8 * 36, 10)
    )
    setups = {"net": Setup("net", model, digits(), torch.device("cpu"))}
    start = Trial(network="net", cut="1").change(
        components=6, keep=3, monomials=16, per_class=12, epochs=1, batch_size=64, train=20, test=5
    )
    trials = [start.change(seed=seed) for seed in (0, 1)]
    far, near = Store(tmp_path / "far"), Store(tmp_path / "near")
    run_trials(trials, setups, far, jobs=cluster, progress=None)
    assert (tmp_path / "died").exists()
    run_trials(trials, setups, near, progress=None)
    for trial in trials:
        ours, theirs = (replace(s.read(trial).trained, seconds=0.0) for s in (near, far))
        assert ours == theirs


def diverge():
    raise DivergedError("the loss is nan")


def test_what_goes_wrong_on_a_worker_is_raised_here(cluster):
    with pytest.raises(DivergedError, match=r"^the loss is nan$"):
        cluster.submit(diverge).result(timeout=60)


@pytest.mark.parametrize("scheme", KINDS)
def test_a_cluster_that_is_not_there_is_one_sentence(scheme):
    pytest.importorskip(KINDS[scheme], reason=f"{scheme} is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, and nobody listens
        place = f"127.0.0.1:{free.getsockname()[1]}"
        told = f"{scheme}://{place} cannot be reached"
        with pytest.raises(ClusterError, match=told), workers(f"{scheme}://{place}"):
            pass


@pytest.mark.parametrize(
    "address", ["local", "mpi://local", "dask://host", "dask://local:0", "ray://a b:1", ""]
)
def test_addresses_that_mean_nothing_are_refused(address):
    with pytest.raises(ValueError, match=r"must be dask://HOST:PORT, ray://HOST:PORT"):
        parse_cluster(address)
