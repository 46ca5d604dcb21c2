"""Class ideals over one and two workers of every backend: what a second worker brings.

One ideal for each of 100 classes of CIFAR-100, on latents of a resnet34 that was cut in the middle
and projected; without ``--data`` and ``--weights``, synthetic latents of the same shape. The first
row is one process without any backend. Every backend then fits with one worker and with two, in
turns; workers are started, and have imported the package, before anything is timed. The overhead
is what one worker takes longer than the process without a backend. All results are bitwise those
of that process, which is checked.

    python -m benchmarks.cluster --data cifar100:DIR --weights resnet34_cifar100.safetensors
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec

import numpy as np
import torch
from joblib import Parallel, delayed, parallel_config
from numpy.typing import NDArray

from benchmarks.record import keep
from vinets import ABM, fit_class_ideals
from vinets.data.synthetic import latent_like
from vinets.ideals.base import ScaleWarning
from vinets.ideals.classwise import ClassIdeals

CUT = "layer3.2"
BACKENDS = {"loky": "joblib", "dask": "distributed", "ray": "ray"}


def latents(data: str | None, weights: str | None, per_class: int, components: int):
    """Points (m, n) and labels of 100 classes, in the variables of polynomials."""
    if data is None or weights is None:
        parts = [latent_like(per_class, components, 16, 0.15, seed=k) for k in range(100)]
        return np.concatenate(parts), np.repeat(np.arange(100), per_class), "synthetic"
    from vinets.core.settings import Placing, Projecting
    from vinets.latent.collect import collect
    from vinets.runs.setup import SetupFiles
    from vinets.runs.variables import find_variables

    setup = SetupFiles("resnet34", weights, data).open("uncut", torch.device("cpu"))
    made = collect(setup.model, setup.train, CUT, per_class=per_class, progress=None)
    found = find_variables(made, Placing(), Projecting(components=components))
    points = found.points[made.fit].double().numpy()
    return points, found.labels[made.fit].numpy(), f"resnet34 cut at {CUT}"


@contextmanager
def running(backend: str, count: int) -> Iterator[None]:
    """Workers that have imported the package."""
    with ExitStack() as stack:
        if backend == "loky":
            stack.enter_context(parallel_config("loky", n_jobs=count))
        else:
            if backend == "dask":
                from distributed import Client

                client = Client(n_workers=count, threads_per_worker=1, dashboard_address=None)
                stack.enter_context(client)
            else:
                import ray
                from ray.util.joblib import register_ray

                register_ray()
                ray.init(address="local", num_cpus=count, include_dashboard=False)
                stack.callback(ray.shutdown)
            stack.enter_context(parallel_config(backend, n_jobs=count))
        if count > 1 or backend != "loky":  # joblib takes one process of loky's for none
            Parallel()(delayed(_warm)() for _ in range(4 * count))
        yield


def _warm() -> None:
    fit_class_ideals(np.eye(3) / 2, [0, 0, 1], ABM(0.1, max_degree=1))
    time.sleep(0.5)  # so that others take part


def fitted(points: NDArray, labels: NDArray, model: ABM) -> ClassIdeals:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScaleWarning)
        return fit_class_ideals(points, labels, model, backend="joblib")


def equal(one: ClassIdeals, two: ClassIdeals, points: NDArray) -> bool:
    few = points[:: max(1, len(points) // 50)]
    return bool(np.array_equal(one.transform(few), two.transform(few)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="cifar100:DIR; without it, synthetic latents")
    parser.add_argument("--weights")
    parser.add_argument("--per-class", type=int, default=100)
    parser.add_argument("--components", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    os.environ["PYTHONWARNINGS"] = "ignore"  # of workers
    torch.set_num_threads(1)
    points, labels, source = latents(given.data, given.weights, given.per_class, given.components)
    model = ABM(psi=0.1, max_degree=2)
    fit = partial(fitted, points, labels, model)
    here = fit()
    cases = [(name, n) for name, package in BACKENDS.items() if find_spec(package) for n in (1, 2)]
    times: dict[tuple[str, int], list[float]] = {("none", 1): []}
    for _ in range(given.repeats):  # in turns, for the machine may be busy with other things
        begin = time.perf_counter()
        fit()
        times["none", 1].append(time.perf_counter() - begin)
        for case in cases:
            with running(*case):
                begin = time.perf_counter()
                there = fit()
                times.setdefault(case, []).append(time.perf_counter() - begin)
            assert equal(here, there, points), f"{case} found something else"
    plain = statistics.median(times["none", 1])
    rows = []
    for (backend, count), took in times.items():
        mine, alone = statistics.median(took), statistics.median(times[backend, 1])
        rows.append(
            {
                "backend": backend,
                "workers": count,
                "seconds": mine,
                "one_to_two_ratio": alone / mine if count == 2 else None,
                "against_none_ratio": plain / mine,
                "overhead_seconds": mine - plain if count == 1 else None,
                "all_seconds": took,
            }
        )
    facts = {"classes": 100, "points": len(points), "variables": points.shape[1]}
    found = {"generators": here.n_generators, "bitwise_equal": True, "latents": source}
    keep("cluster", rows, **facts, **found, cores=os.cpu_count(), psi=model.psi)


if __name__ == "__main__":
    main()
