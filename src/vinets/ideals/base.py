"""The base of ABM, OAVI and VCA: input, output, sampling, and the contract of scikit-learn."""

from __future__ import annotations

import time
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted, validate_data
from torch import Tensor

import vinets.core.device  # noqa: F401 - after it, forked processes can fit, too
from vinets.algebra.polynomial import Polynomials
from vinets.algebra.polynomials import PolynomialSet
from vinets.core.checks import bounded_float, optional_positive_int, parameter_error
from vinets.core.progress import Progress, progress_of
from vinets.ideals.fit import FitReport, FittedIdeal

Array: TypeAlias = Any  # numpy array or torch tensor
ROUNDING_SHARE = 1e-20  # share of a square that is left of it where everything cancels


class ScaleWarning(UserWarning):
    """Data leave [-1, 1], where the tolerance has its meaning."""


class NoGeneratorsWarning(UserWarning):
    """Nothing vanishes up to the maximal degree."""


class RoundingWarning(UserWarning):
    """Rounding, not the data, decides how far something vanishes."""


class VanishingIdeal(TransformerMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the estimators; subclasses extend ``_check`` and provide ``_fit_sets``."""

    psi: float
    max_degree: int | None
    n_samples: int | None
    random_state: Any

    def _check(self) -> None:
        """Raise for parameters outside their domain."""
        remedy = "At psi >= 1 the constant 1 counts as vanishing; rescale the data instead."
        bounded_float(type(self).__name__, "psi", self.psi, 0.0, 1.0, remedy=remedy)
        for name in ("n_samples", "max_degree", "memory_limit"):
            remedy = "It counts bytes." if name == "memory_limit" else ""
            optional_positive_int(type(self).__name__, name, getattr(self, name, None), remedy)

    @abstractmethod
    def _fit_sets(
        self, points: list[Tensor], progress: Progress | None = None
    ) -> list[FittedIdeal]:
        """Fit one ideal per point set, all of them together where that pays."""

    def _store(self, fitted: FittedIdeal, **facts: Any) -> None:
        """Write a fit to the attributes with a trailing underscore; ``facts`` go to its report."""
        names = getattr(self, "feature_names_in_", None)  # names of the columns of a table
        found, degrees = fitted.generators, fitted.degrees
        self.generators_: Any = found if names is None else found.named(names)
        self.mean_squares_ = fitted.values.cpu().numpy()
        self.n_features_in_ = found.n_variables
        self.report_ = FitReport(
            n_variables=found.n_variables,
            n_terms=1 + sum(d.accepted for d in degrees),
            n_generators=len(found),
            degrees=degrees,
            path=fitted.path,
            precision=fitted.precision,
            oracle=fitted.oracle,
            interrupted=fitted.interrupted,
            **facts,
        )

    def fit(self, X: Array, y: Any = None) -> Self:
        """Find the generators of the approximate vanishing ideal of the rows of ``X``.

        A fit of more than two seconds prints how far it is if a person watches the terminal. If
        it is interrupted (Ctrl-C) after the first degree, ABM and OAVI keep what the degrees
        before gave, ``report_.interrupted`` says so, and KeyboardInterrupt goes on its way.

        Parameters
        ----------
        X : array or Tensor of shape (m, n)
            The points, best scaled to [-1, 1]. A tensor is worked on where it lies.
        y : ignored
            Present for scikit-learn's interface.

        Returns
        -------
        self
        """
        self._check()
        points = self._points(X, reset=True)
        fit_ideals([self], [points], progress_of("auto", short=True))
        self._warn_if_empty()
        return self

    def _warn_if_empty(self) -> None:
        if len(self.generators_) == 0:
            warnings.warn(
                f"{type(self).__name__} found no generators up to max_degree={self.max_degree} "
                f"at psi={self.psi}: raise psi or max_degree.",
                NoGeneratorsWarning,
                stacklevel=3,
            )

    def transform(self, X: Array) -> Array:
        """Return absolute values of the generators at the rows of ``X``, (m, n_generators)."""
        check_is_fitted(self)
        points = self._points(X, reset=False)
        values = self.generators_.evaluate(points)
        return values.abs() if isinstance(X, Tensor) else values.abs_().cpu().numpy()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Write the generators out as polynomials in the input features."""
        check_is_fitted(self)
        # scikit-learn's own check, so that names follow its conventions
        names = [str(name) for name in _check_feature_names_in(self, input_features)]
        return np.array(self.generators_.strings(names), dtype=object)

    @property
    def _n_features_out(self) -> int:
        return len(self.generators_)

    def _points(self, X: Array, *, reset: bool) -> Tensor:
        """Validate ``X`` and hand it on as a float tensor."""
        if (  # validate_data, as slow as a small fit, would change nothing
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and X.size > 0
            and not hasattr(self, "feature_names_in_")
            and (reset or X.shape[1] == self.n_features_in_)
            and bool(np.isfinite(X).all())
        ):
            return torch.from_numpy(np.require(X, requirements=["C", "W"]))
        if not isinstance(X, Tensor):
            array = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
            # torch warns of arrays that may not be written to, such as those of pandas
            return torch.from_numpy(np.require(array, requirements=["C", "W"]))
        owner = type(self).__name__
        if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
            accepted = "of shape (m, n) with m, n >= 1, one point a row"
            raise parameter_error(owner, "X", accepted, tuple(X.shape))
        if X.is_complex():
            remedy = "Pass real and imaginary parts as variables of their own."
            raise parameter_error(owner, "X", "real", X.dtype, remedy)
        if not X.is_floating_point():
            X = X.to(torch.float64)
        if not bool(torch.isfinite(X).all()):
            raise ValueError(f"X given to {owner} has NaN or infinity. Drop or impute those rows.")
        if reset:
            self.__dict__.pop("feature_names_in_", None)  # names of an earlier fit
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {owner} is expecting {self.n_features_in_} "
                "features as input."
            )
        return X


def fit_ideals(
    estimators: Sequence[VanishingIdeal], sets: Sequence[Tensor], progress: Progress | None = None
) -> None:
    """Fit estimators of equal parameters to one point set each, together."""
    first = estimators[0]
    tops = [largest(points) for points in sets]
    warn_if_wide(first, max(tops), stacklevel=4)
    used, left_out, count = list(sets), dict[int, Tensor](), first.n_samples
    if count is not None:
        random = check_random_state(first.random_state)
        for k, points in enumerate(sets):
            if count < len(points):
                order = torch.as_tensor(random.permutation(len(points)), device=points.device)
                # in their old order: sums round as they would over the same points given alone
                used[k] = points[order[:count].sort().values]
                left_out[k], tops[k] = points[order[count:]], largest(used[k])
    begin = time.perf_counter()
    # float64 whatever came: products of high degree leave little of lower precision
    used = [points.detach().to(torch.float64) for points in used]
    fitted = first._fit_sets(used, progress)
    psi = float(first.psi)
    for k, (ideal, points) in enumerate(zip(fitted, used, strict=True)):
        measure = partial(squares, ideal.generators, points)
        fitted[k] = verified(ideal, measure, len(points), tops[k], psi, stacklevel=4)
    seconds = time.perf_counter() - begin
    for k, (estimator, points, ideal) in enumerate(zip(estimators, used, fitted, strict=True)):
        held_out = []
        if k in left_out and len(ideal.generators):
            held_out = ideal.generators.evaluate(left_out[k].double()).square().mean(0).tolist()
        facts = {"n_points": len(points), "device": str(points.device), "seconds": seconds}
        estimator._store(ideal, held_out=held_out, **facts)
    if any(ideal.interrupted for ideal in fitted):
        raise KeyboardInterrupt


def largest(points: Tensor) -> float:
    """Return the largest absolute value of any coordinate."""
    return float(points.abs().max())


def warn_if_wide(estimator: VanishingIdeal, top: float, *, stacklevel: int) -> None:
    """Warn of points outside of [-1, 1]."""
    # scalers to [-1, 1] overshoot by rounding
    if top > 1 + 1e-6:
        message = (
            f"X given to {type(estimator).__name__} reaches {top:.3g} in absolute value; psi is "
            "meant for data in [-1, 1]. Rescale the data, for instance with MinMaxScaler((-1, 1))."
        )
        if estimator.max_degree is None:
            message += " Without max_degree, values go on growing, and a fit may take very long."
        warnings.warn(message, ScaleWarning, stacklevel=stacklevel)


def verified(
    ideal: FittedIdeal,
    measure: Callable[[], tuple[Tensor, Tensor]],
    n_points: int,
    top: float,
    psi: float,
    *,
    stacklevel: int,
) -> FittedIdeal:
    """Replace mean squares that are in doubt by those of the generators on the points.

    Mean squares come with the coefficients, out of a Gram matrix in float64, and are right for
    points in [-1, 1]. In lower precision, for tiny tolerances and for wider points, rounding in
    between can make them anything: there ``measure`` evaluates the generators, see :func:`squares`.
    """
    values, precision = ideal.values, ideal.precision
    sure = ideal.path == "gram" and precision == "float64" and top <= 1 + 1e-6
    if len(values) and not sure:
        values, sums = (total / n_points for total in measure())
        degrees = torch.as_tensor(ideal.generators.degrees, device=values.device)
        # points near 0 leave far less to round than the largest ones could
        sums = sums.minimum(max(1.0, top) ** (2 * degrees.double()))
        beyond = int((values > 2 * psi + ROUNDING_SHARE * sums).sum())
        if beyond and _is_finite(values):
            warnings.warn(
                f"{beyond} of {len(values)} generators have a mean square above psi={psi:g} on the "
                f"points, up to {float(values.max()):.3g}, by rounding in {precision}: "
                "raise psi, lower max_degree, or rescale the points to [-1, 1].",
                RoundingWarning,
                stacklevel=stacklevel,
            )
    if not _is_finite(values):
        raise ValueError(
            f"the coefficients of generators overflow on these points in {precision}. "
            "Rescale the points to [-1, 1], raise psi, or take a higher precision."
        )
    return ideal if values is ideal.values else replace(ideal, values=values)


def _is_finite(squares: Tensor) -> bool:
    return len(squares) == 0 or float(squares.max()) < float("inf")  # NaN is the largest of all


def squares(generators: Polynomials, points: Tensor) -> tuple[Tensor, Tensor]:
    """Sum the squares of generators over points, and those of what each adds up there.

    Of the latter, rounding is a share; it is infinite where it is not known.
    """
    values = generators.evaluate(points).square().sum(0)
    if not isinstance(generators, PolynomialSet):
        return values, torch.full_like(values, float("inf"))
    return values, generators.magnitude(points).square().sum(0)
