"""One writer to a folder; the lock ends with its owner."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time

import pytest
import torch

from vinets import build, compress, fine_tune, train_classifier
from vinets.core.locks import locked
from vinets.data import digits
from vinets.models import digits_cnn
from vinets.networks.network import CutNetwork

pytestmark = pytest.mark.skipif(os.name == "nt", reason="folders are not locked on Windows")
HOLD = (
    "import sys, time; from vinets.core.locks import locked\n"
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
    with (
        pytest.raises(ValueError, match=r"Another process is .*run\. Wait"),
        locked(folder),
    ):
        pass
    process.kill()  # as nothing but the system can notice
    process.wait()
    with locked(folder):
        pass
    assert list(folder.iterdir()) == []


def test_waiting_takes_as_long_as_the_other_one(tmp_path):
    process, begin = holder(tmp_path, 1.0), time.monotonic()
    with locked(tmp_path, wait=True):
        assert time.monotonic() - begin > 0.3
        assert process.wait(10) == 0


def test_the_owner_may_ask_again_and_another_thread_may_not(tmp_path):
    said = []

    def ask():
        try:
            with locked(tmp_path):
                said.append("got it")
        except ValueError:
            said.append("refused")

    def elsewhere():
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()

    with locked(tmp_path):
        with locked(tmp_path / "."):
            elsewhere()
        elsewhere()
    elsewhere()
    assert said == ["refused", "refused", "got it"]


def test_a_forked_process_does_not_take_the_lock_for_its_own(tmp_path):
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child():
        try:
            with locked(tmp_path):
                queue.put("got it")
        except ValueError:
            queue.put("refused")

    with locked(tmp_path):
        process = context.Process(target=child)
        process.start()
        process.join(30)
    assert queue.get() == "refused"


def test_an_error_ends_the_lock(tmp_path):
    with pytest.raises(RuntimeError), locked(tmp_path):
        raise RuntimeError
    process = holder(tmp_path, 0)
    assert process.wait(10) == 0


def refused(work, folder) -> None:
    """Work on a folder that another thread holds is refused before anything is done."""
    held, done = threading.Event(), threading.Event()

    def hold():
        with locked(folder):
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        with pytest.raises(ValueError, match="Another process is writing into"):
            work()
    finally:
        done.set()
        thread.join()
    assert list(folder.iterdir()) == []


def test_whatever_writes_checkpoints_from_python_has_its_folder_to_itself(tmp_path):
    torch.manual_seed(0)
    model, data = digits_cnn(), digits()
    short = {"epochs": 1, "directory": tmp_path, "progress": None}
    refused(lambda: train_classifier(model, data.train, **short), tmp_path)
    options = {"head": "products", "parameters": 2000}
    net, _ = build(model, data.train, "relu2", progress=None, **options)
    for part in ("coefficients", "backbone"):
        refused(lambda part=part: fine_tune(net, data.train, trained=part, **short), tmp_path)
    refused(
        lambda: compress(model, data, "drop=1", out=tmp_path, device="cpu", progress=None), tmp_path
    )


def test_two_that_save_one_folder_leave_one_network(tmp_path):
    """Both files are of the same writer."""
    torch.manual_seed(0)
    options = {"head": "products", "parameters": 2000}
    nets = [
        build(digits_cnn(), digits().train, "relu2", progress=None, seed=seed, **options)[0]
        for seed in range(2)
    ]

    def save(net):
        for _ in range(10):
            net.save_pretrained(tmp_path)

    threads = [threading.Thread(target=save, args=(net,)) for net in nets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    CutNetwork.from_pretrained(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
