"""How far a point is from every class: classifiers and out-of-distribution scores made of it."""

from vinets.distance.closed_form import calibrate, fit_ridge
from vinets.distance.estimator import ChristoffelClassifier
from vinets.distance.fit import Space, choose_space, fit_distances, held_out, spaces, try_spaces
from vinets.distance.scores import SCORES, Score, Seen, rates
from vinets.distance.strangeness import Strangeness, fit_strangeness

__all__ = [
    "SCORES",
    "ChristoffelClassifier",
    "Score",
    "Seen",
    "Space",
    "Strangeness",
    "calibrate",
    "choose_space",
    "fit_distances",
    "fit_ridge",
    "fit_strangeness",
    "held_out",
    "rates",
    "spaces",
    "try_spaces",
]
