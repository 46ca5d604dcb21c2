"""How far a point is from every class: classifiers and out-of-distribution scores made of it."""

from vinets.scores.estimator import ChristoffelClassifier
from vinets.scores.scores import SCORES, Score, Seen, rates
from vinets.scores.strangeness import Strangeness, fit_strangeness

__all__ = [
    "SCORES",
    "ChristoffelClassifier",
    "Score",
    "Seen",
    "Strangeness",
    "fit_strangeness",
    "rates",
]
