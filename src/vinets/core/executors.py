"""Independent work on other machines: one address, Dask or Ray behind it, joblib in front."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, TypeVar

from joblib import parallel_config
from joblib.parallel import ParallelBackendBase

try:
    import cloudpickle
except ImportError:  # joblib before 1.6 brings its own
    from joblib.externals import cloudpickle

from vinets.core.checks import parameter_error

T = TypeVar("T")

__all__ = [
    "Cluster",
    "ClusterError",
    "cloudpickle",
    "open_cluster",
    "processes_or_cluster",
    "workers",
]

WRITTEN = "dask://HOST:PORT, ray://HOST:PORT, dask://local:WORKERS or ray://local:WORKERS"
PATIENCE = 15.0  # seconds for a cluster to answer
RETRIES = 5  # workers that may be lost under one job before it is given up


class ClusterError(OSError):
    """A cluster that cannot be reached, or that gave up."""


class Cluster(ABC):
    """Workers that are given functions; a job whose worker is lost runs again on another one."""

    scheme: ClassVar[str]
    package: ClassVar[str]

    @abstractmethod
    def connect(self, place: str | int) -> None:
        """Reach the cluster at ``HOST:PORT``, or start one with that number of workers here."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the cluster; one that was started here ends."""

    @abstractmethod
    def workers(self) -> int:
        """How many jobs run side by side."""

    @abstractmethod
    def share(self, value: Any) -> Any:
        """Something that stands for ``value`` as an argument of jobs, and travels once a worker."""

    @abstractmethod
    def submit(self, function: Callable[..., Any], *shared: Any) -> Future[Any]:
        """Run the function on a worker, with arguments that are shared."""


class DaskCluster(Cluster):
    """A scheduler of ``dask.distributed``."""

    scheme, package = "dask", "distributed"

    def connect(self, place: str | int) -> None:
        dask: Any = import_module("distributed")
        self._local: Any = None
        if isinstance(place, int):
            # one thread a worker, for trainings draw from the generator of their process
            self._local = dask.LocalCluster(
                n_workers=place, threads_per_worker=1, dashboard_address=None
            )
        try:
            there = self._local or f"tcp://{place}"
            self._client: Any = _in_time(partial(dask.Client, there, timeout=PATIENCE))
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except OSError as error:  # of which a time-out is one
            if self._local is not None:
                self._local.close()
            raise _unreachable("dask", place, error) from None

    def close(self) -> None:
        self._client.close()
        if self._local is not None:
            self._local.close()

    def workers(self) -> int:
        return max(1, sum(self._client.ncores().values()))

    def share(self, value: Any) -> Any:
        # the result of a job, and not scattered data, which would be lost with a worker
        return self._client.submit(_same, value, pure=False)

    def submit(self, function: Callable[..., Any], *shared: Any) -> Future[Any]:
        ours: Future[Any] = Future()
        theirs = self._client.submit(function, *shared, pure=False)
        theirs.add_done_callback(partial(_pass_on, ours))
        return ours


def _pass_on(ours: Future[Any], theirs: Any) -> None:
    from distributed import KilledWorker

    try:
        ours.set_result(theirs.result())
    except KilledWorker:
        ours.set_exception(ClusterError(GAVE_UP))
    except CancelledError:  # by nobody here: the scheduler is gone
        ours.set_exception(ClusterError(LOST))
    except BaseException as error:
        ours.set_exception(error)


class RayCluster(Cluster):
    """A cluster of Ray, of which this machine is a node."""

    scheme, package = "ray", "ray"

    def connect(self, place: str | int) -> None:
        ray = self._ray = import_module("ray")
        where: dict[str, Any] = {"address": place}
        if isinstance(place, int):
            where = {"address": "local", "num_cpus": place, "include_dashboard": False}
        else:
            _check_health(place)
        try:
            ray.init(log_to_driver=False, logging_level="error", **where)
        except (OSError, ValueError, RuntimeError) as error:
            raise _unreachable("ray", place, error) from None
        self._run = ray.remote(num_cpus=1, max_retries=RETRIES)(_packed)

    def close(self) -> None:
        self._ray.shutdown()

    def workers(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def share(self, value: Any) -> Any:
        return self._ray.put(value)

    def submit(self, function: Callable[..., Any], *shared: Any) -> Future[Any]:
        ours: Future[Any] = Future()
        theirs = self._run.remote(cloudpickle.dumps(function), *shared)
        theirs.future().add_done_callback(partial(_pass_on_ray, ours))
        return ours


def _pass_on_ray(ours: Future[Any], theirs: Future[Any]) -> None:
    from ray.exceptions import RayError, RayTaskError

    error = theirs.exception()
    if error is None:
        ours.set_result(cloudpickle.loads(theirs.result()))
    elif isinstance(error, RayTaskError):
        ours.set_exception(error.cause)  # what went wrong, without Ray's words around it
    elif isinstance(error, RayError):
        ours.set_exception(ClusterError(GAVE_UP))
    else:
        ours.set_exception(error)


KINDS: dict[str, type[Cluster]] = {one.scheme: one for one in (DaskCluster, RayCluster)}
GAVE_UP = (
    "A job lost its worker again and again, and was given up. Look at the logs of the workers: "
    "most often their memory did not suffice."
)
LOST = (
    "The connection to the cluster was lost. Run the same command again: it goes on behind what "
    "was finished."
)


@contextmanager
def open_cluster(address: str) -> Iterator[Cluster]:
    """The cluster at ``address``: ``dask://HOST:PORT``, ``ray://HOST:PORT``, or one made here.

    ``dask://local:2`` and ``ray://local:2`` start two workers on this machine. The address of a Ray
    cluster is the one that ``ray start --head`` tells, and this machine has to be one of its nodes.
    """
    kind, place = parse_cluster(address)
    if find_spec(kind.package) is None:
        raise ImportError(
            f"{kind.scheme}:// needs {kind.package}. Install it: pip install 'vinets[cluster]'."
        )
    if isinstance(place, str):
        _knock(kind.scheme, place)
    cluster = kind()
    cluster.connect(place)
    try:
        yield cluster
    finally:
        cluster.close()


@contextmanager
def processes_or_cluster(jobs: int | str) -> Iterator[int | Cluster]:
    """What carries out independent work: ``jobs`` processes here, or the cluster at an address."""
    if isinstance(jobs, str):
        with open_cluster(jobs) as cluster:
            yield cluster
    elif jobs < 1:
        raise parameter_error("vinets", "jobs", f"a positive integer, {WRITTEN}", jobs)
    else:
        yield jobs


@contextmanager
def workers(address: str) -> Iterator[None]:
    """Let joblib run what is independent on the cluster at ``address``, see :func:`open_cluster`.

    Class ideals and their scores take ``n_jobs=None`` to mean all its workers.

    Examples
    --------
    >>> from joblib import Parallel, delayed
    >>> with workers("dask://local:2"):  # doctest: +SKIP
    ...     Parallel()(delayed(abs)(x) for x in (-1, 2))
    [1, 2]
    """
    with open_cluster(address) as cluster, parallel_config(_Joblib(cluster), n_jobs=-1):
        yield


def parse_cluster(address: str) -> tuple[type[Cluster], str | int]:
    """The kind of a cluster, and its host and port, or how many workers are to be started here.

    Examples
    --------
    >>> parse_cluster("ray://10.0.0.1:6379")[1], parse_cluster("dask://local:2")[1]
    ('10.0.0.1:6379', 2)
    """
    found = re.fullmatch(r"(\w+)://([^/\s]+?)(?::(\d{1,5}))?", address)
    if found is not None and found[1] in KINDS:
        kind, host, number = KINDS[found[1]], found[2], found[3]
        if host == "local" and number != "0":
            return kind, int(number or os.cpu_count() or 1)
        if host != "local" and number is not None:
            return kind, f"{host}:{number}"
    raise parameter_error("vinets", "cluster", WRITTEN, address)


def _knock(scheme: str, place: str) -> None:
    """Complain at once where nobody listens: clients would try for minutes."""
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(scheme, place, error) from None


def _in_time(connect: Callable[[], T]) -> T:
    """What ``connect`` gives, unless it waits for an answer that never comes."""
    found: Future[T] = Future()

    def run() -> None:
        try:
            found.set_result(connect())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return found.result(2 * PATIENCE)
    except TimeoutError:
        raise ClusterError("it does not answer") from None


def _check_health(place: str) -> None:
    """Ask for a Ray cluster in another process: a client that gets no answer ends its own."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", place]
    try:
        done = subprocess.run(command, capture_output=True, timeout=2 * PATIENCE)
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode:
        raise _unreachable("ray", place, OSError("it does not answer"))


def _unreachable(scheme: str, place: str | int, error: BaseException) -> ClusterError:
    first = next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__
    where = place if isinstance(place, str) else f"local:{place}"
    return ClusterError(
        f"The cluster {scheme}://{where} cannot be reached ({first}). Check its address "
        "and that it has workers, or leave out the cluster to run here."
    )


def _same(value: Any) -> Any:
    return value


def _packed(function: bytes, *shared: Any) -> bytes:
    """Run a function; as bytes, for arrays that Ray itself moves cannot be written to."""
    result: bytes = cloudpickle.dumps(cloudpickle.loads(function)(*shared))
    return result


class _Joblib(ParallelBackendBase):
    """A backend of joblib whose jobs go to a cluster; what they start themselves runs in turn.

    Those that Dask and Ray bring lose a run with a worker: the one keeps arguments on workers
    only, the other gives jobs to processes that are not replaced.
    """

    supports_retrieve_callback = True
    supports_return_generator = True
    default_n_jobs = -1

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        there = self._cluster.workers()
        return there if n_jobs is None or n_jobs < 0 else min(n_jobs, there)

    def submit(
        self, func: Callable[[], Any], callback: Callable[[Future[Any]], Any] | None = None
    ) -> Future[Any]:
        future = self._cluster.submit(partial(_in_turn, func))
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit  # its name before joblib 1.5

    def retrieve_result_callback(self, out: Future[Any]) -> Any:
        return out.result()

    def get_nested_backend(self) -> tuple[Any, int | None]:
        from joblib._parallel_backends import SequentialBackend

        return SequentialBackend(nesting_level=1), None

    def __reduce__(self) -> tuple[Any, ...]:  # jobs carry their backend with them
        from joblib._parallel_backends import SequentialBackend

        return SequentialBackend, ()


def _in_turn(function: Callable[[], Any]) -> Any:
    with parallel_config("sequential"):
        return function()
