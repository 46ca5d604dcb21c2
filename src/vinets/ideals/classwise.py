"""Fits of one vanishing ideal per class, and the choice of an algorithm and a device for them."""

from __future__ import annotations

import inspect
import math
import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from vinets.algebra.polynomials import PolynomialSet
from vinets.core.checks import one_of, parameter_error
from vinets.core.device import resolve_device
from vinets.core.progress import Notes, Progress, progress_of
from vinets.core.settings import IdealOptions
from vinets.ideals.abm import ABM
from vinets.ideals.base import Array, VanishingIdeal, fit_ideals
from vinets.ideals.oavi import OAVI
from vinets.ideals.vca import VCA

ALGORITHMS: dict[str, type[VanishingIdeal]] = {"abm": ABM, "oavi": OAVI, "vca": VCA}
# Options that only some algorithms have, with the names of the estimators' parameters.
OPTIONS = {
    **{name: name for name in ("normalization", "border", "variable_order", "oracle", "tau")},
    "oracle_start": "start",
    "oracle_stop": "stop",
}
BACKENDS = ("auto", "batched", "joblib")
# Size of a problem, in values of a border of degree 2, from which on a GPU (an H200) was faster
# than a CPU of 16 cores. A step on a GPU takes the same time up to a large size.
MIN_GPU_SIZE = 5e5


@dataclass(frozen=True, eq=False)
class ClassIdeals:
    """Fitted ideals, one per class: ``ideals[k]`` to the points of ``classes[k]``."""

    classes: NDArray[Any]  # (K,) labels, sorted
    ideals: tuple[VanishingIdeal, ...]

    def __len__(self) -> int:
        return len(self.ideals)

    def __iter__(self) -> Iterator[tuple[Any, VanishingIdeal]]:
        return zip(self.classes.tolist(), self.ideals, strict=True)

    def __getitem__(self, label: Any) -> VanishingIdeal:
        found = np.flatnonzero(self.classes == label)
        if len(found) == 0:
            raise KeyError(f"no class {label!r}; the classes are {self.classes.tolist()}")
        return self.ideals[int(found[0])]

    @property
    def n_generators(self) -> int:
        """Number of generators over all classes."""
        return sum(len(ideal.generators_) for ideal in self.ideals)

    @property
    def feature_classes(self) -> NDArray[Any]:
        """Label of the class that each column of :meth:`transform` belongs to."""
        return np.repeat(self.classes, [len(ideal.generators_) for ideal in self.ideals])

    def transform(self, X: Array) -> Array:
        """Return the absolute values of all generators, class by class: (m, N)."""
        parts = [ideal.transform(X) for ideal in self.ideals]
        return torch.cat(parts, dim=1) if isinstance(X, Tensor) else np.concatenate(parts, axis=1)


def fit_class_ideals(
    Z: Array,
    y: Any,
    estimator: VanishingIdeal,
    *,
    backend: str = "auto",
    device: torch.device | str | None = None,
    n_jobs: int | None = None,
    progress: Progress | str | None = "auto",
) -> ClassIdeals:
    """Fit one vanishing ideal to the points of every class.

    Parameters
    ----------
    Z : array or Tensor of shape (m, n)
        Points of all classes.
    y : array or Tensor of shape (m,)
        Class labels.
    estimator : ABM, OAVI or VCA
        Parameters of the fits; it is cloned, not changed.
    backend : {"auto", "batched", "joblib"}, default="auto"
        ``"batched"`` advances all classes together in batched matrix products; ``"joblib"`` fits
        them one by one, in several processes if asked to. Auto batches on a GPU. Order ideals and
        leading terms are the same.
    device : device, str or None, default=None
        Where to fit; polynomials come back to where the points lie. None is there. ``"auto"`` is
        a GPU for large problems and the CPU for small ones, or where there is no GPU.
    n_jobs : int or None, default=None
        Processes of the joblib backend, in joblib's convention; None means 1 unless a
        ``joblib.parallel_config`` says otherwise. Starting them takes seconds.
    progress : Progress, "auto" or None, default="auto"
        Told of every class, and of the degrees within, unless other processes fit them. Auto
        prints lines after two seconds if a person watches the terminal.

    Returns
    -------
    ClassIdeals

    Examples
    --------
    >>> import numpy as np
    >>> from vinets import ABM, fit_class_ideals
    >>> x = np.linspace(-1, 1, 20)
    >>> Z, y = np.r_[np.c_[x, x], np.c_[x, -x]], np.repeat(["up", "down"], 20)
    >>> ideals = fit_class_ideals(Z, y, ABM(psi=1e-6, max_degree=1))
    >>> print(ideals["up"].generators_)
    0.707*x1 - 0.707*x0
    """
    one_of("fit_class_ideals", "backend", backend, BACKENDS)
    if not isinstance(estimator, VanishingIdeal):
        accepted = "an estimator, such as ABM()"
        raise parameter_error("fit_class_ideals", "estimator", accepted, estimator)
    estimator._check()
    # on a clone, because it records the number of features
    points = clone(estimator)._points(Z, reset=True)
    labels = y.cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.shape != (len(points),):
        accepted = f"of shape ({len(points)},), one label a row of Z"
        raise parameter_error("fit_class_ideals", "y", accepted, labels.shape)
    missing = labels != labels
    if np.any(missing) or (labels.dtype == object and any(v is None for v in labels)):
        raise ValueError("y has labels that are missing (NaN or None). Drop those rows.")
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise ValueError("y must have labels of one kind, all texts or all numbers.") from None
    groups = [
        points[torch.as_tensor(codes == k, device=points.device)] for k in range(len(classes))
    ]
    where = points.device
    if device is not None:
        where = choose_device("fit_class_ideals", device, points)
        groups = [group.to(where) for group in groups]
    fitted = [clone(estimator) for _ in classes]
    watch = progress_of(progress, short=True)
    # products of a single class keep a CPU busy, but not a GPU
    if backend == "batched" or (backend == "auto" and where.type == "cuda"):
        fit_ideals(fitted, groups, watch)
    elif effective_n_jobs(n_jobs) == 1:
        watch.start("classes", len(classes))
        for e, g in zip(fitted, groups, strict=True):
            _fit_one(e, g, Notes(watch))
            watch.advance()
    else:
        jobs = (delayed(_fit_one)(e, g) for e, g in zip(fitted, groups, strict=True))
        fitted = Parallel(n_jobs=n_jobs)(jobs)
    if where != points.device:
        for e in fitted:
            if isinstance(e.generators_, PolynomialSet):
                e.generators_ = e.generators_.to(points.device)
    return ClassIdeals(classes, tuple(fitted))


def choose_device(owner: str, device: Any, points: Tensor) -> torch.device:
    """Return where to fit ideals of ``points`` (m, n), all classes together.

    ``"auto"`` is the CPU where there is no GPU or :math:`m n^2` is small, whatever the GPU;
    anything else is what it is for a network.
    """
    found = resolve_device(owner, device)
    if device != "auto" or found.type == "cpu":
        return found
    if len(points) * points.shape[1] ** 2 < MIN_GPU_SIZE:
        return torch.device("cpu")
    return points.device if points.is_cuda else found


def _fit_one(
    estimator: VanishingIdeal, points: Tensor, progress: Progress | None = None
) -> VanishingIdeal:
    if multiprocessing.parent_process() is not None:  # one core a worker
        torch.set_num_threads(1)
    fit_ideals([estimator], [points], progress)
    return estimator


def make_ideal(options: IdealOptions, **given: Any) -> VanishingIdeal:
    """Make the estimator, not fitted, that options ask for; ``given`` arguments override them.

    None stands for the default of an option; one that the algorithm does not have is refused.
    """
    name = one_of("IdealOptions", "algorithm", options.algorithm.lower(), tuple(ALGORITHMS))
    kind = ALGORITHMS[name]
    wanted = {option: getattr(options, option) for option in OPTIONS} | given
    wanted = {option: value for option, value in wanted.items() if value is not None}
    if wanted.get("tau") == "inf":
        wanted["tau"] = math.inf
    parameters = inspect.signature(kind).parameters
    unknown = [option for option in wanted if OPTIONS.get(option, option) not in parameters]
    if unknown:
        raise ValueError(
            f"{unknown[0]} is no option of {name}. Leave it out, or choose another algorithm."
        )
    # no largest degree unless options name one: the default of estimators is for their users
    wanted = {OPTIONS.get(option, option): value for option, value in wanted.items()}
    return kind(**{"psi": options.psi, "max_degree": given.get("max_degree"), **wanted})
