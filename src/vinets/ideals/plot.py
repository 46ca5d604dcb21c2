"""Draw vanishing polynomials: zero sets in two and three variables, values by class.

Needs matplotlib, the extra ``plots``. What begins with ``plot`` draws on the axes ``ax`` that it is
given, or on those of a new figure, and returns them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vinets.algebra.polynomial import Polynomials
from vinets.core.checks import parameter_error
from vinets.ideals.classwise import ClassIdeals
from vinets.report.figures import INK, color_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WINDOW = (-1.2, 1.2)
LIGHT = np.array([0.36, -0.48, 0.8])  # from above, of length 1


def plot_zero_sets(
    polynomials: Polynomials,
    ax: Axes | None = None,
    *,
    index: int | Sequence[int] | None = None,
    points: ArrayLike | None = None,
    window: tuple[float, float] = WINDOW,
    resolution: int = 300,
) -> Axes:
    r"""Draw the curves :math:`\{x : g(x) = 0\}` of polynomials in two variables.

    Parameters
    ----------
    polynomials : PolynomialSet or CompositionSet
        Such as ``model.generators_``. Those without a zero in the window leave no trace on it.
    index : int, sequence of int or None, default=None
        Which polynomials; None means all. Polynomial ``j`` has the same colour in every picture.
    points : array of shape (m, 2) or None, default=None
        Points to draw beneath the curves.
    window : (float, float), default=(-1.2, 1.2)
        Range of both variables.
    resolution : int, default=300
        Grid points along each variable.
    """
    chosen = _positions(polynomials, 2, index)
    ax = _new_axes() if ax is None else ax
    side = np.linspace(*window, resolution)
    across, up = np.meshgrid(side, side)
    values = polynomials.evaluate(np.c_[across.ravel(), up.ravel()])  # (resolution^2, N)
    if points is not None:
        cloud = np.asarray(points)
        ax.scatter(cloud[:, 0], cloud[:, 1], s=8, color=INK, alpha=0.45, linewidths=0)
    for j in chosen:
        height = values[:, j].reshape(across.shape)
        if height.min() < 0 < height.max():  # contour would warn about a level without a line
            ax.contour(across, up, height, levels=[0.0], colors=[color_of(j)], linewidths=1.8)
    ax.set(xlim=window, ylim=window, aspect="equal", xlabel="$x_0$", ylabel="$x_1$")
    return ax


def plot_zero_surface(
    polynomials: Polynomials,
    ax: Any = None,
    *,
    index: int = 0,
    points: ArrayLike | None = None,
    window: tuple[float, float] = WINDOW,
    resolution: int = 25,
) -> Any:
    r"""Draw the surface :math:`\{x : g(x) = 0\}` of a polynomial in three variables.

    Arguments are those of :func:`plot_zero_sets`, with points of shape (m, 3).
    """
    (j,) = _positions(polynomials, 3, index)
    ax = _new_axes(projection="3d") if ax is None else ax
    if points is not None:
        ax.scatter(*np.asarray(points).T, s=4, color=INK, alpha=0.5, linewidths=0)
    triangles = zero_triangles(polynomials, index=j, window=window, resolution=resolution)
    if len(triangles):
        from matplotlib.colors import to_rgb
        from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]

        # Triangles are darker where they turn away from the light; those without area have no side.
        first, second = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
        normals = np.cross(first, second)
        lengths = np.linalg.norm(normals, axis=1)
        solid = lengths > 0
        light = np.abs(normals[solid] / lengths[solid, None] @ LIGHT)  # a surface has two sides
        shades = (0.45 + 0.55 * light)[:, None] * to_rgb(color_of(j))
        colors = np.c_[shades, np.full(len(light), 0.35)]
        ax.add_collection3d(Poly3DCollection(triangles[solid], facecolors=colors, linewidths=0))
    ax.set(xlim=window, ylim=window, zlim=window)
    ax.set(xlabel="$x_0$", ylabel="$x_1$", zlabel="$x_2$")
    ax.locator_params(nbins=3)  # more labels run into each other at the corners
    ax.set_box_aspect((1, 1, 1), zoom=0.9)
    return ax


def zero_triangles(
    polynomials: Polynomials,
    *,
    index: int = 0,
    window: tuple[float, float] = WINDOW,
    resolution: int = 25,
) -> NDArray[np.float64]:
    """Return triangles (t, 3, 3) near the zero set of a polynomial in three variables.

    Marching tetrahedra: every cube of the grid is cut into six tetrahedra along its diagonal, and
    the polynomial is taken as linear on each of them. Sorted by value, the corners of a tetrahedron
    leave three cases: one, two or three of them are negative.
    """
    (j,) = _positions(polynomials, 3, index)
    side = np.linspace(*window, resolution)
    grid = np.stack(np.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)
    values = polynomials.evaluate(grid)[:, j]
    # Steps along the axes in the flat grid; in each order they lead from corner to far corner.
    stride = np.array([resolution**2, resolution, 1])
    cells = np.indices((resolution - 1,) * 3).reshape(3, -1).T @ stride
    paths = [np.cumsum([0, *stride[list(order)]]) for order in permutations(range(3))]
    corners = np.concatenate([cells[:, None] + path for path in paths])  # (6 cells, 4)
    corners = np.take_along_axis(corners, values[corners].argsort(1), axis=1)
    negative = (values[corners] < 0).sum(1)

    def cut(case: int, *edges: tuple[int, int]) -> NDArray[np.float64]:
        at = corners[negative == case]
        low, high = (at[:, list(end)] for end in zip(*edges, strict=True))  # (t, 3)
        # Linear between the ends. Only the lower is negative, so that nothing is divided by zero.
        share = values[low] / (values[low] - values[high])
        cuts: NDArray[np.float64] = grid[low] + share[..., None] * (grid[high] - grid[low])
        return cuts

    # The edges from a negative to another corner; four of them make two triangles.
    one, three = cut(1, (0, 1), (0, 2), (0, 3)), cut(3, (0, 3), (1, 3), (2, 3))
    two = [cut(2, (0, 2), (0, 3), (1, 3)), cut(2, (0, 2), (1, 3), (1, 2))]
    return np.concatenate([one, *two, three])


def values_by_class(ideals: ClassIdeals, points: Any, labels: ArrayLike) -> NDArray[np.float64]:
    r"""Average :math:`|g(x)|` over the generators of one class and the points of another.

    Points are of shape (m, n), scaled as for the fit, and their labels among ``ideals.classes``.
    The result is of shape (K, K), with a row for the class of the polynomials and a column for
    that of the points, and NaN where there are none.
    """
    points, labels = np.asarray(points), np.asarray(labels)
    means = np.full((len(ideals), len(ideals)), np.nan)
    for row, (_, ideal) in enumerate(ideals):
        values = ideal.transform(points)  # (m, |G|)
        for column, label in enumerate(ideals.classes):
            here = values[labels == label]
            if here.size:
                means[row, column] = here.mean()
    return means


def plot_class_values(
    means: ArrayLike, classes: Sequence[Any] | NDArray[Any], ax: Axes | None = None
) -> Axes:
    """Draw the matrix of :func:`values_by_class`: dark is small, and belongs on the diagonal."""
    shape = (len(classes), len(classes))
    means = _matrix(means, shape, "one row and one column a class, as values_by_class makes it")
    ax = _new_axes() if ax is None else ax
    image = ax.imshow(means, cmap="magma", vmin=0.0)
    names = [str(label) for label in classes]
    ax.set_xticks(range(len(names)), names)
    ax.set_yticks(range(len(names)), names)
    ax.set(xlabel="class of the points", ylabel="class of the polynomials")
    ax.figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04).set_label("mean |g(x)|")
    return ax


def plot_generators(
    means: ArrayLike, owners: ArrayLike, classes: Sequence[Any], ax: Axes | None = None
) -> Axes:
    """Draw the mean size of every generator on every class, generators grouped by their class.

    Each column is divided by its largest entry. A generator vanishes on its own class, so dark
    blocks belong on the diagonal.

    Parameters
    ----------
    means : array of shape (K, N)
        Mean absolute value of generator ``j`` on the points of class ``k``.
    owners : array of shape (N,)
        Position in ``classes`` of the class that each generator vanishes on.
    """
    owners = np.asarray(owners)
    shape = (len(classes), len(owners))
    means = _matrix(means, shape, "a row for every class and a column for every generator")
    ax = _new_axes() if ax is None else ax
    order = owners.argsort(kind="stable")  # within a class as they came
    # A generator that vanishes everywhere stays 0 instead of turning into NaN.
    relative = means / np.maximum(means.max(0), np.finfo(float).tiny)
    image = ax.imshow(
        relative[:, order], cmap="magma", vmin=0, vmax=1, aspect="auto", interpolation="nearest"
    )
    counts = np.bincount(owners, minlength=len(classes))
    ends = np.cumsum(counts)
    for end in ends[:-1]:
        ax.axvline(end - 0.5, color="white", linewidth=0.8)
    names = [str(name) for name in classes]
    ax.set_xticks(ends - (counts + 1) / 2, names)  # the middle of each group
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(length=0)
    ax.set(xlabel="class that the generators vanish on", ylabel="class of the points")
    ax.figure.colorbar(image, ax=ax, pad=0.02).set_label("mean |g|, relative")
    return ax


def _matrix(means: ArrayLike, shape: tuple[int, int], meaning: str) -> NDArray[np.float64]:
    values = np.asarray(means, dtype=float)
    if values.shape != shape:
        raise ValueError(f"means must have shape {shape}, {meaning}. Got {values.shape} instead.")
    return values


def _positions(polynomials: Polynomials, n: int, index: int | Sequence[int] | None) -> list[int]:
    """Return positions, from 0 on, of the chosen polynomials, which must be in ``n`` variables."""
    if polynomials.n_variables != n:
        remedy = f"Project the points on {n} coordinates and fit again."
        accepted, got = f"in {n} variables to be drawn this way", polynomials.n_variables
        raise parameter_error("plot", "polynomials", accepted, got, remedy)
    count = len(polynomials)
    chosen = range(count) if index is None else np.atleast_1d(index).tolist()
    for j in chosen:
        if not -count <= j < count:
            raise IndexError(f"index must lie in [0, {count - 1}], a polynomial each. Got {j}.")
    return [j % count for j in chosen]


def _new_axes(**subplot: Any) -> Any:
    """Make axes of a new figure."""
    # Imported here, because matplotlib is an extra and the package works without it.
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "vinets.ideals.plot draws with matplotlib, which is not installed. Install the extra "
            "'plots': pip install 'vinets[plots]'."
        ) from error
    return pyplot.figure(layout="constrained").add_subplot(**subplot)
