from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from benchmarks.manifolds import sphere_points, swiss_roll, torus_points
from vinets.core.plain import as_plain
from vinets.measure import class_dimensions, dimension_correlation, intrinsic_dimension

MANIFOLDS = [sphere_points, torus_points, swiss_roll]
# The larger the dimension, the more points it takes: see the notes of intrinsic_dimension.
SIZES = {2: 10_000, 3: 10_000, 4: 20_000, 5: 50_000, 6: 100_000}


@pytest.fixture(scope="module")
def skdim():
    return pytest.importorskip("skdim")


def by_hand(points, k):
    """The two formulas in plain numpy, with all pairs of distances."""
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    distances = np.sqrt(np.sort(squares, axis=1)[:, 1 : k + 1])
    inverse = [np.log(row[-1] / row[:-1]).sum() / (k - 1) for row in distances]
    return 1 / np.mean(inverse)


class TestKnownManifolds:
    @pytest.mark.parametrize("manifold", MANIFOLDS)
    @pytest.mark.parametrize("dimension", SIZES)
    def test_within_ten_percent(self, skdim, manifold, dimension):
        points = manifold(SIZES[dimension], dimension)
        found = intrinsic_dimension(points, neighbours=5, samples=2000)
        assert found == pytest.approx(dimension, rel=0.1)

    def test_features_around_the_manifold_do_not_count(self, skdim):
        narrow, wide = sphere_points(1000, 4), sphere_points(1000, 4, ambient=64)
        assert intrinsic_dimension(wide) == pytest.approx(intrinsic_dimension(narrow), rel=1e-6)

    def test_few_points_in_ten_dimensions_read_low_on_a_sphere(self, skdim):
        found = intrinsic_dimension(sphere_points(500, 10))
        assert 8 < found < 9.5  # the bias that the docstring warns of


class TestEstimate:
    @pytest.mark.parametrize("k", [2, 5, 20])
    def test_equals_the_formulas(self, skdim, k):
        points = np.random.default_rng(0).normal(size=(150, 20))
        assert intrinsic_dimension(points, neighbours=k) == pytest.approx(by_hand(points, k))

    def test_repeated_points_count_once(self, skdim):
        points = np.random.default_rng(2).normal(size=(200, 3))
        twice = np.concatenate([points, points])
        assert intrinsic_dimension(twice) == pytest.approx(intrinsic_dimension(points))

    @pytest.mark.parametrize(("scale", "shift"), [(1e-200, 0), (1e200, 0), (1, 1e3)])
    def test_scale_and_shift_do_not_matter(self, skdim, scale, shift):
        points = np.random.default_rng(3).normal(size=(200, 20))
        moved = intrinsic_dimension(points * scale + shift)
        assert moved == pytest.approx(intrinsic_dimension(points), rel=1e-6)

    def test_samples_keep_the_scale_and_follow_the_seed(self, skdim):
        points = sphere_points(4000, 3)
        whole = intrinsic_dimension(points)
        first, again, other = (intrinsic_dimension(points, samples=400, seed=s) for s in (0, 0, 1))
        assert first == again != other
        assert first == pytest.approx(whole, rel=0.06)
        assert intrinsic_dimension(points, samples=10**6) == whole

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
    def test_takes_maps_on_tensors(self, skdim, dtype):
        maps = torch.randn(100, 2, 3, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
        flat = maps.double().flatten(1).numpy()
        assert intrinsic_dimension(maps) == intrinsic_dimension(flat)


class TestComplaints:
    @pytest.mark.parametrize(
        ("points", "k", "message"),
        [(points, 20, "'points' parameter of intrinsic_dimension") for points in (
            [[1.0, 2.0]], np.zeros(5), np.zeros((5, 1)), np.zeros((0, 3)), np.full((30, 3), np.nan),
            np.array([["a", "b"]]), np.zeros((30, 3), dtype=complex))]
        + [(np.eye(30), k, "'neighbours' parameter") for k in (0, 1, 30, 2.5, None)]
        + [(np.ones((50, 3)), 20, "distinct points, here 1")],
    )  # fmt: skip
    def test_points_and_neighbours_that_will_not_do(self, points, k, message):
        with pytest.raises(ValueError, match=message):
            intrinsic_dimension(points, neighbours=k)

    def test_equal_distances_have_no_dimension(self, skdim):
        with pytest.raises(ValueError, match="no intrinsic dimension"):
            intrinsic_dimension(np.eye(40), neighbours=5)

    def test_a_missing_package_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "skdim", None)
        monkeypatch.setitem(sys.modules, "skdim.id", None)
        with pytest.raises(ModuleNotFoundError, match=r'pip install "vinets\[dimension\]"'):
            intrinsic_dimension(np.random.default_rng(0).normal(size=(50, 3)))


class TestClasses:
    def test_each_class_by_itself(self, skdim):
        parts = [sphere_points(600, d, ambient=10, seed=d) for d in (2, 4, 6)]
        points, labels = np.concatenate(parts), np.repeat([7, 3, 5], 600)
        order = np.random.default_rng(0).permutation(len(points))
        result = class_dimensions(torch.tensor(points[order]), torch.tensor(labels[order]))
        expected = {7: parts[0], 3: parts[1], 5: parts[2]}
        assert list(result.per_class) == [3, 5, 7]
        for label, part in expected.items():
            assert result.per_class[label] == pytest.approx(intrinsic_dimension(part))
        values = np.array(list(result.per_class.values()))
        assert (result.mean, result.std) == pytest.approx((values.mean(), values.std()))
        assert json.loads(json.dumps(as_plain(result)))["mean"] == result.mean

    def test_a_small_class_is_named(self, skdim):
        points = np.random.default_rng(0).normal(size=(60, 3))
        with pytest.raises(ValueError, match=r"Class 4 .* distinct points, here 10"):
            class_dimensions(points, np.repeat([1, 4], [50, 10]))

    @pytest.mark.parametrize("labels", [np.zeros(59, int), np.zeros(60), np.zeros((60, 1), int)])
    def test_labels_that_do_not_fit(self, labels):
        with pytest.raises(ValueError, match="'labels' parameter of class_dimensions"):
            class_dimensions(np.ones((60, 3)), labels)


class TestCorrelation:
    def test_equals_the_definitions(self):
        random = np.random.default_rng(0)
        x = random.normal(size=30)
        y = np.exp(x) + 0.3 * random.normal(size=30)
        result = dimension_correlation(x, y)
        pearson = np.corrcoef(x, y)[0, 1]
        ranks = np.corrcoef(x.argsort().argsort(), y.argsort().argsort())[0, 1]
        assert (result.pearson, result.spearman) == pytest.approx((pearson, ranks))
        for value, p in ((pearson, result.pearson_p), (ranks, result.spearman_p)):
            t = value * np.sqrt(28 / (1 - value**2))
            assert p == pytest.approx(2 * stats.t.sf(abs(t), 28))
        assert result.count == 30

    @pytest.mark.parametrize("values", [[1, 2], [1, 1, 1], [1, 2, np.nan], ["a", "b", "c"], 3])
    def test_values_without_a_correlation(self, values):
        with pytest.raises(ValueError, match="'dimensions' parameter of dimension_correlation"):
            dimension_correlation(values, [1, 2, 3])
        with pytest.raises(ValueError, match=r"'counts' parameter .* here 3 values"):
            dimension_correlation([1, 2, 3], [1, 2, 3, 4])
