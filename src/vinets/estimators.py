"""Classification of plain data: vanishing polynomials as features of a linear model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from vinets.core.checks import one_of
from vinets.ideals.abm import ABM
from vinets.ideals.base import VanishingIdeal
from vinets.ideals.classwise import fit_class_ideals

MAX_NOISE_VARIANCE = 1e-20  # a feature that varies less has rounding errors for values


def _classifier_has(method: str) -> Callable[[Any], bool]:
    """Offer a method only if the classifier on the features has it."""

    def check(self: Any) -> bool:
        inner = getattr(self, "classifier_", self.classifier)
        return inner is None or hasattr(inner, method)

    return check


DEFAULT = ABM(psi=0.01, max_degree=3)  # never fitted itself


class VanishingIdealClassifier(ClassifierMixin, BaseEstimator):
    r"""Linear classification on the absolute values of per-class vanishing polynomials.

    A point of class :math:`k` makes the generators of class :math:`k` small and, most likely,
    those of other classes not: the features :math:`|g(x)|` are close to linearly separable.

    Parameters
    ----------
    estimator : ABM, OAVI, VCA or None, default=None
        The algorithm, as an unfitted estimator. None means ``ABM(psi=0.01, max_degree=3)``.
    classifier : estimator or None, default=None
        Fitted on the features. None means logistic regression on standardised features, without
        those that are zero up to rounding on all training points.
    scale : {"minmax", "none"}, default="minmax"
        Scale every feature to [-1, 1] first and clip what falls outside later, or use the data
        as they are.
    n_jobs : int or None, default=None
        Processes to fit the classes in, in joblib's convention; see :func:`fit_class_ideals`.
    device : device or str, default="cpu"
        Where to fit the ideals; ``"auto"`` is a GPU where one is there and faster.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    ideals_ : ClassIdeals
        One fitted ideal per class.
    classifier_ : estimator
        The fitted linear classifier.
    generators_ : dict of label to PolynomialSet
        The polynomials of every class, in the features as they came.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vinets import VanishingIdealClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> VanishingIdealClassifier().fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        estimator: VanishingIdeal | None = None,
        *,
        classifier: Any = None,
        scale: str = "minmax",
        n_jobs: int | None = None,
        device: Any = "cpu",
    ) -> None:
        self.estimator, self.classifier, self.scale = estimator, classifier, scale
        self.n_jobs, self.device = n_jobs, device

    def set_params(self, **params: Any) -> Self:
        """Set parameters; those of the default estimator, such as ``estimator__psi``, too."""
        if self.estimator is None and any(name.startswith("estimator__") for name in params):
            params = {"estimator": clone(DEFAULT)} | params
        super().set_params(**params)
        return self

    @property
    def generators_(self) -> dict[Any, Any]:
        """The polynomials of every class in the features as they came, with their names."""
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        generators = {}
        for label, ideal in self.ideals_:
            own = ideal.generators_
            own = own if self.scaler_ is None else own.unscaled(self.scaler_)
            generators[label] = own if names is None else own.named(names)
        return generators

    def fit(self, X: Any, y: Any) -> Self:
        """Fit one ideal per class and the classifier on their features."""
        one_of("VanishingIdealClassifier", "scale", self.scale, ("minmax", "none"))
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(
                "VanishingIdealClassifier needs samples of at least 2 classes in y. Got one class, "
                f"{self.classes_.tolist()[0]!r}."
            )
        self.scaler_ = None
        if self.scale == "minmax":
            self.scaler_ = MinMaxScaler((-1, 1), clip=True).fit(X)
        points = self._scaled(X)
        chosen = DEFAULT if self.estimator is None else self.estimator
        self.ideals_ = fit_class_ideals(points, y, chosen, device=self.device, n_jobs=self.n_jobs)
        if self.ideals_.n_generators == 0:
            raise ValueError(
                "VanishingIdealClassifier found no generators for any class: raise psi or "
                "max_degree of its estimator."
            )
        # A generator that is zero on all training points is noise, and scaling would blow it up.
        default = make_pipeline(
            VarianceThreshold(MAX_NOISE_VARIANCE),
            StandardScaler(),
            LogisticRegression(max_iter=1000),
        )
        self.classifier_ = default if self.classifier is None else clone(self.classifier)
        self.classifier_.fit(self.ideals_.transform(points), y)
        return self

    def _scaled(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return X if self.scaler_ is None else self.scaler_.transform(X)

    def features(self, X: Any) -> NDArray[np.float64]:
        """Compute absolute values of the generators of all classes, (m, n_generators)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return self.ideals_.transform(self._scaled(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels (m,)."""
        features = self.features(X)  # first, because it checks that there was a fit
        return self.classifier_.predict(features)

    @available_if(_classifier_has("decision_function"))
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Compute the scores of the linear classifier."""
        features = self.features(X)
        return self.classifier_.decision_function(features)

    @available_if(_classifier_has("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Compute class probabilities."""
        features = self.features(X)
        return self.classifier_.predict_proba(features)
