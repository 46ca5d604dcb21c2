"""Carry out independent work on processes of this machine, on Dask or on Ray.

Each is a :class:`concurrent.futures.Executor`, so that the work does not know which it is.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from vinets.core.checks import parameter_error, reason_of

ADDRESSES = "dask://HOST:PORT, ray://HOST:PORT, dask://local:WORKERS or ray://local:WORKERS"
PACKAGES = {"dask": "distributed", "ray": "ray"}
CONNECTION_SECONDS = 15.0  # how long a cluster may take to answer


class ClusterError(OSError):
    """A cluster cannot be reached, or it gave up."""


@contextmanager
def open_executor(jobs: int | str | None) -> Iterator[Executor | None]:
    """Open ``jobs`` processes of this machine, or the cluster at an address.

    None and 1 give None, which means this process. Addresses are ``dask://HOST:PORT`` and
    ``ray://HOST:PORT``; ``dask://local:2`` and ``ray://local:2`` start two workers on this machine.
    The address of a Ray cluster is the one that ``ray start --head`` prints, and this machine has
    to be one of its nodes.
    """
    if jobs in (None, 1):
        yield None
    elif isinstance(jobs, str):
        scheme, place = parse_address(jobs)
        if find_spec(PACKAGES[scheme]) is None:
            raise ImportError(
                f"{scheme}:// needs {PACKAGES[scheme]}. Install it: pip install 'vinets[cluster]'."
            )
        if isinstance(place, str):
            # Clients would try for minutes to reach an address where nothing listens.
            host, _, port = place.rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), CONNECTION_SECONDS).close()
            except (OSError, OverflowError) as error:
                raise ClusterError(
                    f"The cluster {jobs} cannot be reached ({reason_of(error)}). Check its "
                    "address and that it has workers, or leave out the cluster to run here."
                ) from None
        try:
            with (_dask if scheme == "dask" else RayExecutor)(place) as executor:
                yield executor
        except Exception as error:
            # What a trial raised passes; errors of the libraries mean that workers were lost.
            if not type(error).__module__.startswith((*PACKAGES.values(), "concurrent")):
                raise
            raise ClusterError(
                f"The cluster gave up a job ({reason_of(error)}). Look at the logs of its workers, "
                "and run the same command again: it goes on behind what was finished."
            ) from error
    elif not jobs or jobs < 1:
        raise parameter_error("vinets", "jobs", f"a positive integer, {ADDRESSES}", jobs)
    else:
        with Processes(jobs) as executor:
            yield executor


def parse_address(address: str) -> tuple[str, str | int]:
    """Return the scheme of an address, and its host and port or the number of local workers."""
    if match := re.fullmatch(r"(dask|ray)://([^/\s]+?)(?::(\d{1,5}))?", address):
        scheme, host, number = match.groups()
        if host == "local" and number != "0":
            return scheme, int(number or os.cpu_count() or 1)
        if host != "local" and number is not None:
            return scheme, f"{host}:{number}"
    raise parameter_error("vinets", "cluster", ADDRESSES, address)


class Processes(ProcessPoolExecutor):
    """Processes of this machine, which end with the one that started them.

    They never see Ctrl-C, because the process that started them ends them.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        # Spawned, because CUDA does not survive a fork.
        super().__init__(count, multiprocessing.get_context("spawn"), _end_with_parent)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if not hasattr(signal, "pthread_sigmask"):  # Windows
            return super().submit(function, *args, **kwargs)
        # A process that is started here inherits the mask.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(function, *args, **kwargs)
        finally:  # a Ctrl-C that came in between arrives now
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            for process in list((self._processes or {}).values()):
                process.terminate()
        self.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """Let this process end when the one that started it has ended, however that came about."""

    def watch() -> None:
        multiprocessing.parent_process().join()  # type: ignore[union-attr]
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _dask(place: str | int) -> Iterator[Executor]:
    """Open the executor of a Dask client; a job whose worker is lost runs again on another one."""
    dask: Any = import_module("distributed")
    options: dict[str, Any] = {"address": f"tcp://{place}", "timeout": CONNECTION_SECONDS}
    if isinstance(place, int):
        # One thread a worker, because trainings draw from the generator of their process.
        options = {"n_workers": place, "threads_per_worker": 1, "dashboard_address": None}
    with dask.Client(**options) as client:
        client.wait_for_workers(1, timeout=CONNECTION_SECONDS)
        with client.get_executor(pure=False) as executor:
            yield executor


class RayExecutor(Executor):
    """Jobs of Ray, which has no executor of its own; a job whose worker is lost runs again."""

    def __init__(self, place: str | int) -> None:
        self._ray: Any = import_module("ray")
        options: dict[str, Any] = {"address": place}
        if isinstance(place, int):
            options = {"address": "local", "num_cpus": place, "include_dashboard": False}
        self._ray.init(log_to_driver=False, logging_level="error", **options)
        self._run = self._ray.remote(num_cpus=1, max_retries=5)(lambda job: job())

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        ours: Future[Any] = Future()

        def pass_on(theirs: Future[Any]) -> None:
            error: Any = theirs.exception()
            if error is None and not ours.cancelled():
                ours.set_result(theirs.result())
            elif not ours.cancelled():  # what the job raised, without Ray's words around it
                ours.set_exception(getattr(error, "cause", None) or error)

        self._run.remote(partial(function, *args, **kwargs)).future().add_done_callback(pass_on)
        return ours

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._ray.shutdown()
