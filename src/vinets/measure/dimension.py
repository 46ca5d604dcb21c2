"""The intrinsic dimension of point clouds, and its correlation with numbers of monomials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from vinets.core.checks import parameter_error
from vinets.core.options import check_value, optional, whole

Floats = NDArray[np.float64]
ArrayOrTensor = NDArray[Any] | torch.Tensor


@dataclass(frozen=True)
class Dimensions:
    """Intrinsic dimensions of the points of each label, by rising label, and their spread."""

    per_class: dict[int, float]
    mean: float
    std: float  # divided by the number of classes


@dataclass(frozen=True)
class Correlation:
    """The correlation of two series, with two-sided p values; with few values these are rough."""

    pearson: float
    pearson_p: float  # if both series are normal
    spearman: float  # correlation of the ranks
    spearman_p: float
    count: int


def intrinsic_dimension(
    points: ArrayOrTensor, *, neighbours: int = 20, samples: int | None = None, seed: int = 0
) -> float:
    r"""Estimate the dimension of the manifold that points lie on.

    Levina and Bickel's maximum likelihood estimate at a point :math:`x` with distances
    :math:`T_1 \le \dots \le T_k` to its neighbours, and MacKay and Ghahramani's mean of these
    estimates, which averages their inverses:

    .. math::
        \frac{1}{d(x)} = \frac{1}{k - 1} \sum_{j<k} \log\frac{T_k(x)}{T_j(x)}, \qquad
        \frac{1}{d} = \frac{1}{m} \sum_x \frac{1}{d(x)} .

    Parameters
    ----------
    points : array or Tensor of shape (m, n) or (m, ...)
        Maps are flattened. Repeated points count once.
    neighbours : int
        ``k``, at least 2. Fewer of them look more locally, with less bias and more variance: the
        relative standard error is about ``1 / sqrt(samples * (k - 1))``.
    samples : int, optional
        Average over this many random points only, with neighbours among all points: this saves
        time and keeps the scale.

    Notes
    -----
    Shift, scale and rotation of the points do not change the dimension. The estimate assumes that
    the manifold is flat and evenly filled as far as the ``k``-th neighbour. In high dimension this
    takes very many points: the distance to a neighbour falls as :math:`m^{-1/d}` only, and 1,000
    points in ten dimensions err by -12 to +26 %. Compare estimates from equal numbers of points,
    and where classes are small read them as an order rather than as the dimension itself.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(2000, 3)) @ np.eye(3, 12)
    >>> round(intrinsic_dimension(points), 1)
    3.0
    """
    owner = "intrinsic_dimension"
    cloud = np.unique(_matrix(owner, points), axis=0)  # a repeated point has no scale of its own
    if not whole(2, len(cloud) - 1).holds(neighbours):
        accepted = f"an integer from 2 to below the number of distinct points, here {len(cloud)}"
        remedy = "Take fewer neighbours or more points."
        raise parameter_error(owner, "neighbours", accepted, neighbours, remedy)
    check_value(owner, "samples", optional(whole()), samples)
    chosen = np.arange(len(cloud))
    if samples is not None and samples < len(cloud):
        chosen = np.random.default_rng(seed).choice(len(cloud), size=samples, replace=False)
    require_estimator()
    from skdim.id import MLE
    from sklearn.neighbors import NearestNeighbors  # takes a second, so only when asked for

    # Without the bias correction per point: MacKay and Ghahramani's mean makes it needless.
    estimator = MLE(unbiased=False, K=neighbours)
    # Centred and scaled, because distances by matrix products lose digits far from the origin.
    scaled = cloud / np.abs(cloud).max()
    scaled -= scaled.mean(axis=0)
    # One more than asked for, as each point is its own nearest neighbour.
    search = NearestNeighbors(n_neighbors=neighbours + 1).fit(scaled)
    distances, indices = search.kneighbors(scaled[chosen])
    own = indices == chosen[:, None]
    own[~own.any(axis=1), -1] = True  # rounding hid it behind very close points
    nearest = tuple(one[~own].reshape(len(chosen), neighbours) for one in (distances, indices))
    with np.errstate(divide="ignore"):  # ties at one distance give 1/d = 0, a fair summand
        estimator.fit(cloud, precomputed_knn_arrays=nearest, n_neighbors=neighbours, comb="mle")
    dimension = float(estimator.dimension_)
    if not 0 < dimension < np.inf:
        raise ValueError(
            "The points have no intrinsic dimension, because their distances are all equal or some "
            "round to zero. Remove points that nearly repeat, or pass points of a continuous cloud."
        )
    return dimension


def require_estimator() -> None:
    """Raise where the library that estimates dimensions is not installed."""
    try:
        import skdim.id  # noqa: F401
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "Intrinsic dimensions need scikit-dimension. "
            'Install it with: pip install "vinets[dimension]".'
        ) from None


def class_dimensions(points: ArrayOrTensor, labels: ArrayOrTensor, **options: Any) -> Dimensions:
    """Estimate the intrinsic dimension of each class, by :func:`intrinsic_dimension`.

    Points are (m, n) or (m, ...), such as the latents at a cut, and labels (m,) integers. The
    options are those of that function.
    """
    matrix = _matrix("class_dimensions", points)
    marks = np.asarray(labels.cpu() if isinstance(labels, torch.Tensor) else labels)
    if marks.shape != (len(matrix),) or marks.dtype.kind not in "iu":
        accepted = f"integers of shape ({len(matrix)},), one for each point"
        got = f"{marks.dtype} values of shape {marks.shape}"
        raise parameter_error("class_dimensions", "labels", accepted, got)
    per_class: dict[int, float] = {}
    for label in np.unique(marks).tolist():
        try:
            per_class[label] = intrinsic_dimension(matrix[marks == label], **options)
        except ValueError as error:
            raise ValueError(f"Class {label} cannot be measured. {error}") from error
    values = list(per_class.values())
    return Dimensions(per_class, float(np.mean(values)), float(np.std(values)))


def dimension_correlation(
    dimensions: Sequence[float] | Floats, counts: Sequence[float] | NDArray[Any]
) -> Correlation:
    """Correlate at least 3 intrinsic dimensions with as many numbers of monomials.

    A pair belongs to a class, or to a cut: the mean over classes, and all monomials at this cut.
    """
    from scipy import stats  # takes a second, so only when asked for

    accepted = "at least 3 finite numbers that are not all equal"
    series = []
    for name, values in (("dimensions", dimensions), ("counts", counts)):
        try:
            one = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            one = np.empty(0)  # refused below, with all else that will not do
        finite = one.ndim == 1 and len(one) >= 3 and np.isfinite(one).all()
        if not finite or np.ptp(one) == 0:
            raise parameter_error("dimension_correlation", name, accepted, values)
        series.append(one)
    x, y = series
    if len(x) != len(y):
        accepted = f"as long as 'dimensions', here {len(x)} values"
        raise parameter_error("dimension_correlation", "counts", accepted, len(y))
    (linear, linear_p), (ranks, ranks_p) = stats.pearsonr(x, y), stats.spearmanr(x, y)
    return Correlation(float(linear), float(linear_p), float(ranks), float(ranks_p), len(x))


def _matrix(owner: str, points: ArrayOrTensor) -> Floats:
    """Turn the points into a float64 matrix (m, n), or raise one clear complaint."""
    accepted = "an array or a tensor of finite numbers (m, n) or (m, ...), with 2 features or more"
    values: Any = points
    if isinstance(points, torch.Tensor):
        values = points.detach().cpu()  # NumPy has no bfloat16
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    got = type(values).__name__
    if isinstance(values, np.ndarray):
        got = f"{values.dtype} values of shape {values.shape}"
        if values.dtype.kind in "biuf" and values.ndim > 1 and values.size > len(values):
            matrix = values.reshape(len(values), -1).astype(np.float64)
            if np.isfinite(matrix).all():
                return matrix
            got = "NaN or infinite values"
    raise parameter_error(owner, "points", accepted, got)
