"""The theory behind VI-Nets: spectral complexity, encodings and bounds."""

from vinets.theory.advisor import Advice, Region, Split, advise, split_at
from vinets.theory.bounds import PolynomialBounds, kappa, polynomial_bounds
from vinets.theory.complexity import Complexity, LayerNorms
from vinets.theory.generalisation import (
    GeneralisationBound,
    MarginDistribution,
    collect_margins,
    compare,
)
from vinets.theory.inex import InExEncoding, cancellation, encode
from vinets.theory.networks import CutComplexity, cut_complexity, spectral_complexity
from vinets.theory.studies import Corollary, Study, study

__all__ = [
    "Advice",
    "Complexity",
    "Corollary",
    "CutComplexity",
    "GeneralisationBound",
    "InExEncoding",
    "LayerNorms",
    "MarginDistribution",
    "PolynomialBounds",
    "Region",
    "Split",
    "Study",
    "advise",
    "cancellation",
    "collect_margins",
    "compare",
    "cut_complexity",
    "encode",
    "kappa",
    "polynomial_bounds",
    "spectral_complexity",
    "split_at",
    "study",
]
