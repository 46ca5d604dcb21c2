"""The promises of every estimator of a vanishing ideal, as tests for pytest to inherit.

In a file of tests::

    class TestMine(MonomialContract):  # IdealContract, where there are no terms
        def make(self, psi, max_degree):
            return MyIdeal(psi, max_degree=max_degree)
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from vinets.data.synthetic import circle, latent_like, latent_like_classes, sphere
from vinets.ideals.base import NoGeneratorsWarning, ScaleWarning, VanishingIdeal
from vinets.ideals.classwise import fit_class_ideals
from vinets.ideals.monomial import MonomialIdeal

Points = NDArray[np.float64]

# Points that give trouble, within [-1, 1].
DEGENERATE: dict[str, Points] = {
    "one point": np.array([[0.5, -0.25, 0.125]]),
    "fewer points than variables": latent_like(3, 8, 2),
    "repeated points": np.repeat(latent_like(4, 3, 2), 5, axis=0),
    "constant column": np.c_[np.full(12, 0.3), latent_like(12, 2, 2)],
    "duplicate columns": np.repeat(latent_like(12, 2, 2), 2, axis=1),
    "all zero": np.zeros((5, 3)),
    "tiny scale": 1e-8 * latent_like(12, 3, 2),
}


class IdealContract(ABC):
    """Tests of a :class:`~vinets.ideals.base.VanishingIdeal`."""

    # Whether classes fitted together get the coefficients of those fitted alone; sparse oracles
    # take another path where sums round differently.
    repeatable: bool = True
    # Whether mean squares stay within psi on degenerate points down to psi = 0.
    bounded_at_zero: bool = True

    @abstractmethod
    def make(self, psi: float, max_degree: int | None) -> VanishingIdeal:
        """Make the estimator, not fitted."""

    def test_torch_and_numpy_agree(self) -> None:
        X, model = circle(50), self.make(0.01, 5)
        ours = model.fit(X).transform(X)
        theirs = model.fit(torch.from_numpy(X)).transform(torch.from_numpy(X))
        assert isinstance(ours, np.ndarray) and isinstance(theirs, torch.Tensor)
        np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-12)
        assert (ours >= 0).all() and ours.shape == (50, len(model.generators_)) and ours.size

    def test_generators_vanish_on_the_points_and_not_everywhere(self) -> None:
        X = sphere(200)
        model = self.make(0.01, 4).fit(X)
        values = model.transform(X)
        np.testing.assert_allclose(model.mean_squares_, (values**2).mean(0), rtol=1e-6, atol=1e-14)
        assert (model.mean_squares_ <= 0.01 * (1 + 1e-9)).all()
        elsewhere = np.random.default_rng(5).uniform(-1, 1, size=(50, 3))
        assert (model.transform(elsewhere).max(0) > 1e-6).all()

    def test_an_exact_sphere_is_found(self) -> None:
        """One generator, proportional to x² + y² + z² - r²."""
        model = self.make(1e-12, 2).fit(sphere(100, noise=0.0))
        fresh = np.random.default_rng(5).uniform(-1, 1, size=(20, 3))
        values = model.generators_.evaluate(fresh)
        assert values.shape == (20, 1)
        ratio = values[:, 0] / ((fresh**2).sum(1) - 0.81)
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)

    def test_samples_are_seeded_and_the_rest_is_reported(self) -> None:
        X, model = sphere(300), self.make(0.01, 3)
        first = model.set_params(n_samples=100, random_state=3).fit(X)
        again = first.transform(X)
        np.testing.assert_array_equal(model.fit(X).transform(X), again)
        assert model.report_.n_points == 100
        assert len(model.report_.held_out) == len(model.generators_)
        used, left = np.split(np.random.RandomState(3).permutation(300), [100])
        np.testing.assert_allclose(model.report_.held_out, (again[left] ** 2).mean(0), rtol=1e-6)
        np.testing.assert_allclose(model.mean_squares_, (again[used] ** 2).mean(0), rtol=1e-6)
        for every in (None, 300, 1000):
            model.set_params(n_samples=every).fit(X)
            assert model.report_.held_out == [] and model.report_.n_points == 300

    def test_reports_count_what_was_found(self) -> None:
        X = latent_like(100, 6, 3)
        model = self.make(0.01, 3).fit(X)
        report = model.report_
        assert sum(d.accepted for d in report.degrees) + 1 == report.n_terms
        assert sum(d.generators for d in report.degrees) == report.n_generators
        assert report.n_generators == len(model.generators_) == len(model.get_feature_names_out())
        assert [d.degree for d in report.degrees] == list(range(1, len(report.degrees) + 1))
        assert (report.n_points, report.n_variables) == X.shape
        assert report.seconds > 0 and report.device == "cpu"
        assert f"{report.n_generators} generators, {report.n_terms} terms" in str(report)

    def test_classes_together_equal_classes_alone(self) -> None:
        Z, y = latent_like_classes(3, m=50, n=6, rank=3)
        keep = np.random.default_rng(0).permutation(len(y))[:110]  # classes of different sizes
        Z, y = Z[keep], y[keep]
        model = self.make(0.01, 3)
        batched = fit_class_ideals(Z, y, model, backend="batched")
        in_turn = fit_class_ideals(Z, y, model, backend="joblib")
        assert not hasattr(model, "generators_") and batched.classes.tolist() == [0, 1, 2]
        for label, ideal in batched:
            own = Z[y == label]
            for other in (clone(model).fit(own), in_turn[label]):
                self.assert_same_terms(ideal, other)
                here, there = ideal.transform(own), other.transform(own)
                assert max((here**2).mean(0).max(), (there**2).mean(0).max()) <= 0.01 * (1 + 1e-9)
                if self.repeatable:
                    np.testing.assert_allclose(here, there, atol=1e-9)

    def assert_same_terms(self, one: Any, other: Any) -> None:
        """Fail unless two fits are alike but for their coefficients."""
        assert len(one.generators_) == len(other.generators_)

    def test_saved_generators_come_back_bitwise(self, tmp_path: Path) -> None:
        X = latent_like(40, 3, 2)
        generators = self.make(0.05, 3).fit(X).generators_
        generators.save(tmp_path / "generators.safetensors")
        back = type(generators).load(tmp_path / "generators.safetensors")
        assert np.array_equal(back.evaluate(X), generators.evaluate(X))

    @pytest.mark.parametrize("kind", ["numpy", "torch"])
    def test_data_that_are_not_points_are_refused(self, kind: str) -> None:
        wrap, model = (torch.tensor if kind == "torch" else np.array), self.make(0.1, 5)
        for points, words in (
            ([[0.1, float("nan")], [0.2, 0.3]], r"(?i)nan"),
            ([[0.1, float("inf")], [0.2, 0.3]], r"(?i)inf"),
            ([0.1, 0.2, 0.3], r"2D|shape"),
            (np.zeros((0, 2)), r"0 sample|shape"),
        ):
            with pytest.raises(ValueError, match=words):
                model.fit(wrap(points))
        model.fit(wrap([[0.1, 0.2], [0.3, 0.1], [0.0, 0.5]]))
        with pytest.raises(ValueError, match="3 features"):
            model.transform(wrap([[0.1, 0.2, 0.3]]))

    def test_no_generators_and_large_points_are_warnings_with_the_remedy(self) -> None:
        points = np.random.default_rng(0).uniform(-1, 1, size=(60, 2))
        with pytest.warns(NoGeneratorsWarning, match="raise psi or max_degree"):
            found = self.make(1e-9, 1).fit(points)
        assert found.transform(points).shape == (60, 0)
        model = self.make(0.1, 5)  # leaving the unit box is another one
        with pytest.warns(ScaleWarning, match=r"reaches .* Rescale the data"):
            model.fit(3 * circle(30))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(circle(30))

    @pytest.mark.parametrize("psi", [0.0, 1e-12, 1e-3, 0.5, 0.999])
    @pytest.mark.parametrize("kind", DEGENERATE)
    def test_degenerate_points_give_valid_ideals(self, kind: str, psi: float) -> None:
        points, model = DEGENERATE[kind], self.make(psi, 5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoGeneratorsWarning)
            model.fit(points)
        assert model.report_.n_terms <= len(np.unique(points, axis=0))
        values = model.transform(points)
        assert np.isfinite(values).all()
        if self.bounded_at_zero:
            assert (np.mean(values**2, axis=0) <= psi * (1 + 1e-9) + 1e-18).all()


class MonomialContract(IdealContract):
    """Tests of a :class:`~vinets.ideals.monomial.MonomialIdeal` on Gröbner borders."""

    @pytest.mark.parametrize("psi", [0.0, 1e-3, 0.1])
    def test_the_order_ideal_is_one_and_leading_terms_are_its_corners(self, psi: float) -> None:
        """Closed under division; every term around it whose divisors are inside leads one."""
        model = cast(MonomialIdeal, self.make(psi, 4).fit(latent_like(25, 3, 2)))
        order = set(map(tuple, model.order_ideal_.tolist()))
        variables = np.eye(3, dtype=int)

        def inside(term: tuple[int, ...]) -> bool:
            below = (np.array(term) - variables).tolist()
            return all(tuple(row) in order for row in below if min(row) >= 0)

        assert all(inside(term) for term in order) and model.report_.closed_under_division
        around = {tuple(row) for t in order for row in (np.array(t) + variables).tolist()}
        corners = sorted(t for t in around - order if sum(t) <= 4 and inside(t))
        assert sorted(map(tuple, model.leading_terms_.tolist())) == corners
        assert model.generators_.leading.exponents().tolist() == model.leading_terms_.tolist()
        assert all(d.accepted + d.generators == d.border for d in model.report_.degrees)

    def assert_same_terms(self, one: Any, other: Any) -> None:
        """Fail unless order ideals and leading terms are the same."""
        assert one.order_ideal_.tolist() == other.order_ideal_.tolist()
        assert one.leading_terms_.tolist() == other.leading_terms_.tolist()
