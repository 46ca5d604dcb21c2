"""Scores that tell how far a point is from every class, and a classifier made of them."""

from vinets.scores.classifier import ChristoffelClassifier
from vinets.scores.detect import LayerScore, fit_layer_score
from vinets.scores.scores import SCORES, Activations, Score, rates

__all__ = [
    "SCORES",
    "Activations",
    "ChristoffelClassifier",
    "LayerScore",
    "Score",
    "fit_layer_score",
    "rates",
]
