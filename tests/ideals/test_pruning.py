"""Scores against their formula, and what is kept against a sorted list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from vinets import ABM, VCA, fit_class_ideals
from vinets.algebra.polynomials import PolynomialSet
from vinets.data.synthetic import latent_like_classes
from vinets.ideals import pruning
from vinets.ideals.pruning import PruningScores, as_polynomials, mean_absolute_values, prune, score

LABELS = np.array([5, 2, 9])


@pytest.fixture(scope="module")
def fitted():
    Z, y = latent_like_classes(3, m=40, n=8, rank=4)
    ideals = fit_class_ideals(Z, LABELS[y], ABM(0.01, max_degree=3))
    fresh, y = latent_like_classes(3, m=15, n=8, rank=4, seed=1)
    return ideals, torch.from_numpy(fresh), torch.from_numpy(LABELS[y])


def plain_means(ideals, Z, y):
    """One class, one point at a time."""
    for ideal in ideals.ideals:
        values = np.abs(ideal.generators_.evaluate(Z.numpy()))
        yield np.stack([values[y == label].mean(0) for label in ideals.classes])


def test_means_are_taken_class_by_class(fitted):
    ideals, Z, y = fitted
    found = mean_absolute_values(ideals, Z, y)
    for table, wanted in zip(found, plain_means(ideals, Z, y), strict=True):
        np.testing.assert_allclose(table, wanted, rtol=1e-12)
    low = mean_absolute_values(ideals, Z.float(), y)
    assert low[0].dtype == torch.float32
    some = y != 9  # a class without points has the mean 0 rather than none
    few = mean_absolute_values(ideals, Z[some], y[some])
    assert not few[0][list(ideals.classes).index(9)].any()
    np.testing.assert_allclose(few[0][:2], found[0][:2], rtol=1e-12)


@pytest.mark.parametrize(("jobs", "parts"), [(1, 0), (2, 2), (8, 3)])
def test_means_are_taken_in_as_many_parts_as_there_are_processes(fitted, monkeypatch, jobs, parts):
    """No more than there are classes, and by this process if it is the only one."""
    started = []

    class Parallel:
        def __call__(self, tasks):
            return [started.append(task) or task[0](*task[1]) for task in tasks]

    wanted = mean_absolute_values(*fitted)
    monkeypatch.setattr(pruning, "effective_n_jobs", lambda _: jobs)
    monkeypatch.setattr(pruning, "Parallel", Parallel)
    found = mean_absolute_values(*fitted)
    assert len(started) == parts and len(found) == len(wanted)
    assert all(map(torch.equal, found, wanted))


@pytest.mark.parametrize("kind", ["separation", "normalized"])
def test_scores_are_their_formula(fitted, kind):
    ideals, Z, y = fitted
    scores = score(ideals, Z, y, kind)
    assert scores.kind == kind and len(scores.values) == len(scores.means) == 3
    for k, (means, wanted) in enumerate(zip(scores.means, plain_means(ideals, Z, y), strict=True)):
        np.testing.assert_allclose(means, wanted, rtol=1e-12)
        best = np.min([wanted[j] for j in range(3) if j != k], axis=0)
        best = best / wanted[k] if kind == "normalized" else best
        np.testing.assert_allclose(scores.values[k], best, rtol=1e-9)


def test_a_generator_that_is_zero_on_its_class_is_divided_by_rounding():
    x = torch.linspace(-1, 1, 20, dtype=torch.float64)
    Z, y = torch.cat([torch.stack([x, x], 1), torch.stack([x, -x], 1)]), torch.arange(40) // 20
    ideals = fit_class_ideals(Z, y, ABM(1e-9, max_degree=1))
    plain, normalized = (score(ideals, Z, y, kind) for kind in ("separation", "normalized"))
    for a, b in zip(plain.values, normalized.values, strict=True):
        np.testing.assert_allclose(b, a / 1e-6)


def test_one_class_is_scored_by_itself():
    Z, y = torch.from_numpy(latent_like_classes(1, m=30, n=4, rank=2)[0]), torch.zeros(30)
    ideals = fit_class_ideals(Z, y, ABM(0.01, max_degree=2))
    scores = score(ideals, Z, y)
    np.testing.assert_array_equal(scores.values[0], scores.means[0][0])


@pytest.mark.parametrize(
    ("keep", "count"),
    [(1.0, 10), (0.5, 5), (0.41, 5), (0.01, 1), (0.7, 7), (1, 1), (3, 3), (99, 10)],
)
def test_the_best_are_kept_in_their_old_order(fitted, keep, count):
    ideals, Z, _ = fitted
    random, size = np.random.default_rng(0), 10
    sets = tuple(as_polynomials(i.generators_).select(np.arange(size)) for i in ideals.ideals)
    values = tuple(random.permutation(size).astype(float) for _ in sets)
    scores = PruningScores("separation", values, ())

    @dataclass
    class Ideal:
        generators_: PolynomialSet

    few = type(ideals)(ideals.classes, tuple(map(Ideal, sets)))
    kept = prune(few, scores, keep)
    assert kept.n_generators == 30 and len(kept) == 3 * count
    assert kept.classes.tolist() == ideals.classes.tolist()
    for k in range(3):
        order = sorted(range(size), key=lambda j: -scores.values[k][j])[:count]
        at = np.sort(order)
        np.testing.assert_array_equal(kept.scores[k], scores.values[k][at])
        np.testing.assert_allclose(
            kept.polynomials[k].evaluate(Z.numpy()), sets[k].evaluate(Z.numpy())[:, at]
        )


def test_of_equal_scores_the_first_stays(fitted):
    ideals, Z, _ = fitted
    flat = tuple(np.ones(len(i.generators_)) for i in ideals.ideals)
    kept = prune(ideals, PruningScores("separation", flat, ()), 2)
    for ideal, p in zip(ideals.ideals, kept.polynomials, strict=True):
        np.testing.assert_allclose(
            p.evaluate(Z.numpy()), ideal.generators_.evaluate(Z.numpy())[:, :2]
        )


def test_components_are_kept_as_polynomials():
    Z, y = latent_like_classes(2, m=30, n=3, rank=2)
    ideals = fit_class_ideals(Z, y, VCA(0.05, max_degree=2))
    points = torch.from_numpy(Z)
    kept = prune(ideals, score(ideals, points, torch.from_numpy(y)), 1.0)
    for ideal, p in zip(ideals.ideals, kept.polynomials, strict=True):
        assert isinstance(p, PolynomialSet)
        np.testing.assert_allclose(p.evaluate(Z), ideal.generators_.evaluate(Z), atol=1e-8)


@pytest.mark.parametrize("keep", [0, 0.0, 1.5, -1, -0.5, True, False, float("nan")])
def test_other_shares_and_numbers_are_refused(fitted, keep):
    ideals, Z, y = fitted
    with pytest.raises(ValueError, match=r"'keep' parameter of prune must be a share in \(0, 1\]"):
        prune(ideals, score(ideals, Z, y), keep)
    with pytest.raises(ValueError, match=r"'kind' parameter of score"):
        score(ideals, Z, y, "best")


def test_a_class_without_generators_is_none_the_worse():
    Z, y = latent_like_classes(2, m=30, n=3, rank=3)
    Z[y == 1] = np.random.default_rng(0).uniform(-1, 1, size=(30, 3))
    Z[y == 0, 2] = Z[y == 0, 1]
    points, labels = torch.from_numpy(Z), torch.from_numpy(y)
    ideals = fit_class_ideals(points, labels, ABM(1e-9, max_degree=1))
    assert [len(i.generators_) for i in ideals.ideals] == [1, 0]
    kept = prune(ideals, score(ideals, points, labels), 0.5)
    assert [len(p) for p in kept.polynomials] == [1, 0] and kept.n_generators == 1


def test_scores_of_other_ideals_are_refused(fitted):
    ideals, Z, y = fitted
    scores = score(ideals, Z, y)
    with pytest.raises(ValueError, match="argument"):
        prune(ideals, PruningScores(scores.kind, scores.values[:2], scores.means[:2]), 1)
