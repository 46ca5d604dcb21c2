"""What a training measures arrives in TensorBoard, MLflow and W&B, none of which is called."""

from __future__ import annotations

import pytest

from vinets.data import digits
from vinets.logs import Logged, open_log
from vinets.models import digits_cnn
from vinets.progress import Silent
from vinets.training import train_classifier

NUMBERS = {"training/loss": 0.5, "training/accuracy": 0.75}


@pytest.fixture(autouse=True)
def _offline(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE", raising=False)


def written(address):
    with open_log(address, {"epochs": 2, "data": "digits"}) as log:
        for epoch in (1, 2):
            log.add(NUMBERS, epoch)


def test_tensorboard_reads_what_was_written(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    written("tensorboard:runs")
    found = EventAccumulator(str(tmp_path / "runs"))
    found.Reload()
    assert sorted(found.Tags()["scalars"]) == sorted(NUMBERS)
    assert [(one.step, one.value) for one in found.Scalars("training/loss")] == [(1, 0.5), (2, 0.5)]
    assert "options/text_summary" in found.Tags()["tensors"]


def test_mlflow_reads_what_was_written(tmp_path):
    mlflow = pytest.importorskip("mlflow")
    written("mlflow:runs")
    client = mlflow.MlflowClient((tmp_path / "runs").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("vinets").experiment_id])
    assert run.data.metrics == NUMBERS and run.info.status == "FINISHED"
    assert run.data.params == {"epochs": "2", "data": "digits"}
    steps = [one.step for one in client.get_metric_history(run.info.run_id, "training/loss")]
    assert steps == [1, 2]


def test_wandb_keeps_what_was_written(tmp_path):
    pytest.importorskip("wandb")
    written("wandb:project")
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    assert b"training/loss" in file.read_bytes()


class Kept:
    def __init__(self):
        self.steps = []

    def add(self, values, step):
        self.steps.append((step, values))


def test_every_epoch_of_a_training_is_told():
    kept = Kept()
    data = digits().train
    options = {"epochs": 2, "batch_size": 512, "validation": 0.2}
    history = train_classifier(digits_cnn(), data, progress=Logged(Silent(), kept), **options)
    assert [step for step, _ in kept.steps] == [1, 2]
    for (_, values), epoch in zip(kept.steps, history.epochs, strict=True):
        assert values["training the backbone/loss"] == epoch.loss
        assert values["training the backbone/validation_accuracy"] == epoch.validation_accuracy


@pytest.mark.parametrize("address", ["tensorboard", "mlflow:", "comet:x", ""])
def test_addresses_that_mean_nothing_are_refused(address):
    with pytest.raises(ValueError, match=r"must be tensorboard:DIR, mlflow:DIR or wandb:PROJECT"):
        written(address)


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"^tensorboard:file cannot be written to"):
        written("tensorboard:file")
