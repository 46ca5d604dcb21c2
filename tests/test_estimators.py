from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from vinets import ABM, OAVI, VCA, VanishingIdealClassifier

ESTIMATORS = [
    ABM(),
    ABM(normalization="leading", max_degree=3),
    OAVI(max_degree=3),
    OAVI(oracle="exact", max_degree=3, border="full"),
    VCA(),
    VanishingIdealClassifier(),
    VanishingIdealClassifier(OAVI(max_degree=3)),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return train_test_split(X, y, random_state=0, stratify=y)


@pytest.mark.parametrize("model", [ABM(0.01, max_degree=2), VCA(0.1, max_degree=1)])
def test_vanishing_features_classify_digits(digits, model):
    X, X_test, y, y_test = digits
    score = VanishingIdealClassifier(model).fit(X, y).score(X_test, y_test)
    assert score > 0.95


def test_probabilities_exist_exactly_when_the_classifier_has_them(digits):
    X, _, y, _ = digits
    with_proba = VanishingIdealClassifier(ABM(0.01, max_degree=1)).fit(X, y)
    assert np.allclose(with_proba.predict_proba(X[:5]).sum(1), 1)
    without = VanishingIdealClassifier(ABM(0.01, max_degree=1), classifier=LinearSVC())
    assert not hasattr(without, "predict_proba") and hasattr(without, "decision_function")


def test_rounding_noise_does_not_become_a_feature(random):
    """A column that is constant in training gives a generator that is zero up to rounding."""
    X = np.c_[np.full(60, 0.1), random.normal(size=(60, 3))]
    y = (X[:, 1] * X[:, 2] > 0).astype(int)
    model = VanishingIdealClassifier(ABM(0.01, max_degree=2)).fit(X, y)
    score = model.decision_function(np.c_[np.full(5, 0.1 + 1e-9), X[:5, 1:]])
    np.testing.assert_allclose(score, model.decision_function(X[:5]), atol=1e-3)


def test_nothing_to_classify_with_is_an_error(random):
    X, y = random.uniform(-1, 1, size=(200, 2)), np.repeat([0, 1], 100)
    model = VanishingIdealClassifier(ABM(1e-9, max_degree=1), classifier=LogisticRegression())
    with pytest.raises(ValueError, match="no generators for any class"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="at least 2 classes"):
        VanishingIdealClassifier().fit(X, np.zeros(200))


def test_a_grid_reaches_the_default_algorithm():
    X, y = load_iris(return_X_y=True)
    grid = {"estimator__psi": [0.3, 0.01], "estimator__max_degree": [2]}
    search = GridSearchCV(VanishingIdealClassifier(), grid, cv=3).fit(X, y)
    best = search.best_estimator_.estimator
    assert (best.psi, best.max_degree) == tuple(search.best_params_.values())[::-1]
    assert len(set(search.cv_results_["mean_test_score"])) == 2
    with pytest.raises(ValueError, match="Invalid parameter 'tau'"):
        VanishingIdealClassifier().set_params(estimator__tau=1)


def test_the_polynomials_of_a_class_are_in_the_features_as_they_came():
    X, y = load_iris(return_X_y=True)
    model = VanishingIdealClassifier().fit(X, y)
    found = np.concatenate([np.abs(own(X)) for own in model.generators_.values()], axis=1)
    np.testing.assert_allclose(found, model.features(X), atol=1e-8)
