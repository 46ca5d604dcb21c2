"""A classifier by distances to the classes, in the form of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from vinets.heads.class_distances import (
    ClassSpace,
    calibrate,
    choose_space,
    fit_distances,
    held_out,
    spaces,
    try_spaces,
)


class ChristoffelClassifier(ClassifierMixin, BaseEstimator):
    r"""The nearest class by its Christoffel function; see :mod:`vinets.heads.class_distances`.

    Parameters
    ----------
    space : ClassSpace, optional
        Monomials and regularisation; by default chosen among
        ``vinets.heads.class_distances.spaces()`` by cross-validated likelihood.
    folds, seed : int
        Folds of cross-validation, which also finds the temperature and the biases of the logits,
        and the seed of their draw.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    space_ : ClassSpace
        The monomials and the regularisation in use.
    distances_ : ClassDistances
        The module that computes K of every class.
    temperature_, bias_ : float, ndarray of shape (K,)
        Numbers of the logits :math:`b_c - t \log K_c`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ChristoffelClassifier().fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(self, space: ClassSpace | None = None, *, folds: int = 3, seed: int = 0) -> None:
        self.space = space
        self.folds = folds
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Self:
        """Fit one Christoffel function a class, in closed form."""
        X, y = validate_data(self, X, y, dtype=np.float64, force_writeable=True)
        check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(
                "ChristoffelClassifier needs samples of at least 2 classes in y. Got one class, "
                f"{self.classes_.tolist()[0]!r}."
            )
        points, labels = torch.from_numpy(X), torch.from_numpy(numbers.astype(np.int64))
        self.space_ = self.space
        if self.space_ is None:
            tried = try_spaces(points, labels, spaces(), count, folds=self.folds, seed=self.seed)
            self.space_ = choose_space(tried).space
        held = held_out(points, labels, self.space_, count, folds=self.folds, seed=self.seed)
        self.temperature_, bias = calibrate(held.log(), labels)
        self.bias_ = bias.numpy()
        self.distances_ = fit_distances(points, labels, self.space_, count)
        return self

    def distance(self, X: Any) -> NDArray[np.float64]:
        """Compute K of every class, (m, K): 1 or more, and larger further away."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, force_writeable=True)
        with torch.no_grad():
            return self.distances_(torch.from_numpy(X)).numpy()

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Compute logits (m, K), or the difference (m,) of those of two classes."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def _logits(self, X: Any) -> NDArray[np.float64]:
        return self.bias_ - self.temperature_ * np.log(self.distance(X))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Compute class probabilities (m, K)."""
        return softmax(self._logits(X), axis=1)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest labels (m,)."""
        return self.classes_[self._logits(X).argmax(1)]
