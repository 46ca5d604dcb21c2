"""What a run measures, step by step, written where TensorBoard, MLflow or W&B shows it."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

from vinets.checks import parameter_error
from vinets.progress import Progress

WRITTEN = "tensorboard:DIR, mlflow:DIR or wandb:PROJECT"


class Log(ABC):
    """Receives measured values by name."""

    scheme: ClassVar[str]
    package: ClassVar[str]

    @abstractmethod
    def begin(self, place: str, options: Mapping[str, Any]) -> None:
        """A run with these options begins."""

    @abstractmethod
    def add(self, values: Mapping[str, float], step: int) -> None:
        """What was measured at a step, such as an epoch."""

    @abstractmethod
    def close(self, failed: bool) -> None:
        """The run is over."""


class TensorBoard(Log):
    """Files of events for ``tensorboard --logdir DIR``."""

    scheme, package = "tensorboard", "tensorboard"

    def begin(self, place: str, options: Mapping[str, Any]) -> None:
        self._writer: Any = import_module("torch.utils.tensorboard").SummaryWriter(place)
        lines = (f"    {name} = {value}" for name, value in options.items())  # as code
        self._writer.add_text("options", "\n".join(lines))

    def add(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self, failed: bool) -> None:
        self._writer.close()


class MLflow(Log):
    """A run of the experiment "vinets" in a folder, or on the server at an address."""

    scheme, package = "mlflow", "mlflow"

    def begin(self, place: str, options: Mapping[str, Any]) -> None:
        where = place
        if "://" not in place:
            where = Path(place).resolve().as_uri()
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # newer ones ask for it
        self._client: Any = import_module("mlflow").MlflowClient(where)
        known = self._client.get_experiment_by_name("vinets")
        number = known.experiment_id if known else self._client.create_experiment("vinets")
        self._run = self._client.create_run(number).info.run_id
        for name, value in options.items():
            self._client.log_param(self._run, name, value)

    def add(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._client.log_metric(self._run, name, value, step=step)

    def close(self, failed: bool) -> None:
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


class WandB(Log):
    """A run of a project; with ``WANDB_MODE=offline``, in the folder ``wandb`` and nowhere else."""

    scheme, package = "wandb", "wandb"

    def begin(self, place: str, options: Mapping[str, Any]) -> None:
        self._run: Any = import_module("wandb").init(project=place, config=dict(options))

    def add(self, values: Mapping[str, float], step: int) -> None:
        self._run.log({**values, "step": step})  # its own count of steps never goes back

    def close(self, failed: bool) -> None:
        self._run.finish(int(failed))


KINDS: dict[str, type[Log]] = {one.scheme: one for one in (TensorBoard, MLflow, WandB)}


@contextmanager
def open_log(written: str, options: Mapping[str, Any]) -> Iterator[Log]:
    """The log that ``tensorboard:DIR``, ``mlflow:DIR`` or ``wandb:PROJECT`` means.

    Parameters
    ----------
    written : str
        Which, and where.
    options : dict
        Settings of the run, kept with its numbers.
    """
    scheme, _, place = written.partition(":")
    if scheme not in KINDS or not place:
        raise parameter_error("vinets", "log", WRITTEN, written)
    log = KINDS[scheme]()
    if find_spec(log.package) is None:
        raise ImportError(
            f"{scheme}: needs {log.package}. Install it: pip install 'vinets[logging]'."
        )
    try:
        log.begin(place, options)
    except Exception as error:  # each has its own
        first = next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__
        raise OSError(f"{written} cannot be written to ({first}).") from None
    failed = True
    try:
        yield log
        failed = False
    finally:
        log.close(failed)


class Logged:
    """A progress that passes on what it is told, and what is measured to a log."""

    def __init__(self, progress: Progress, log: Log) -> None:
        self.start, self.advance, self.measured = progress.start, progress.advance, log.add
