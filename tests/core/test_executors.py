"""Work on processes, on a real Dask and on a real Ray of this machine is that of one process."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch
from joblib import parallel_config
from torch import nn

from vinets import ABM, fit_class_ideals
from vinets.core.executors import PACKAGES, ClusterError, open_executor, parse_address
from vinets.data import digits
from vinets.ideals.pruning import score
from vinets.runs.setup import Setup
from vinets.runs.store import Store, run_trials
from vinets.runs.trial import Trial
from vinets.training.epochs import DivergedError


@pytest.fixture(scope="module", params=["dask", pytest.param("ray", marks=pytest.mark.cluster)])
def executor(request):
    pytest.importorskip(PACKAGES[request.param], reason=f"{request.param} is not installed")
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests
    with open_executor(f"{request.param}://local:2") as found:
        yield found


def test_class_ideals_and_scores_by_the_backend_of_joblib_are_those_of_one_process(random):
    distributed = pytest.importorskip("distributed")
    y = np.repeat(np.arange(6), 40)
    Z = torch.from_numpy(np.tanh(random.normal(size=(240, 4)) + y[:, None] / 9))
    model = ABM(psi=0.02, max_degree=2)
    local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.Client(**local), parallel_config("dask", n_jobs=-1):
        there = fit_class_ideals(Z, y, model)
        far = score(there, Z, torch.from_numpy(y))
    here = fit_class_ideals(Z, y, model)
    near = score(here, Z, torch.from_numpy(y))
    assert here.n_generators == there.n_generators > 0
    assert torch.equal(here.transform(Z), there.transform(Z))
    assert all(map(np.array_equal, near.means, far.means))


class MortalLayer(nn.Module):
    """Ends the process that first runs it, as if its machine had been switched off."""

    def __init__(self, marker):
        super().__init__()
        self.marker = str(marker)

    def forward(self, x):
        if not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x


def mortal(folder):
    """A network whose first worker dies, and trials for it."""
    layer = MortalLayer(folder / "died")
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), layer, nn.Flatten(), nn.Linear(8 * 36, 10))
    setups = {"net": Setup("net", model, digits(), torch.device("cpu"))}
    start = Trial(network="net", cut="1").change(
        components=6, keep=3, monomials=16, per_class=12, epochs=1, batch_size=64, train=20, test=5
    )
    return setups, [start.change(seed=seed) for seed in (0, 1)]


@pytest.mark.cluster
def test_trials_are_those_of_one_process_though_a_worker_dies(executor, tmp_path):
    setups, trials = mortal(tmp_path)
    far, near = Store(tmp_path / "far"), Store(tmp_path / "near")
    run_trials(trials, setups, far, executor=executor, progress=None)
    assert (tmp_path / "died").exists()
    run_trials(trials, setups, near, progress=None)
    for trial in trials:
        ours, theirs = (replace(s.read(trial).trained, seconds=0.0) for s in (near, far))
        assert ours == theirs


def test_a_process_that_dies_is_one_sentence_and_the_next_call_goes_on(tmp_path):
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    setups, trials = mortal(tmp_path)
    store = Store(tmp_path / "store")
    told = r"^A process beside this one was ended from outside"
    with pytest.raises(OSError, match=told), open_executor(2) as executor:
        run_trials(trials, setups, store, executor=executor, progress=None)
    assert (tmp_path / "died").exists() and not (store.folder / ".workers").exists()
    with open_executor(2) as executor:
        run_trials(trials, setups, store, executor=executor, progress=None)
    assert not store.missing(trials)


def diverge():
    raise DivergedError("the loss is nan")


def test_what_goes_wrong_on_a_worker_is_raised_here(executor):
    with pytest.raises(DivergedError, match=r"^the loss is nan$"):
        executor.submit(diverge).result(timeout=60)


@pytest.mark.parametrize("scheme", PACKAGES)
def test_a_cluster_that_is_not_there_is_one_sentence(scheme):
    pytest.importorskip(PACKAGES[scheme], reason=f"{scheme} is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound, and nobody listens
        place = f"127.0.0.1:{free.getsockname()[1]}"
        told = f"{scheme}://{place} cannot be reached"
        with pytest.raises(ClusterError, match=told), open_executor(f"{scheme}://{place}"):
            pass


@pytest.mark.parametrize(
    "address", ["local", "mpi://local", "dask://host", "dask://local:0", "ray://a b:1", ""]
)
def test_addresses_that_mean_nothing_are_refused(address):
    with pytest.raises(ValueError, match=r"must be dask://HOST:PORT, ray://HOST:PORT"):
        parse_address(address)


def test_one_job_or_none_is_this_process_and_fewer_are_refused():
    for jobs in (None, 1):
        with open_executor(jobs) as executor:
            assert executor is None
    with pytest.raises(ValueError, match=r"must be a positive integer, dask://HOST:PORT"):
        open_executor(0).__enter__()
