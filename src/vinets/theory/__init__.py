"""The theory behind VI-Nets: spectral complexity, encodings and bounds."""

from vinets.theory.advisor import Advice, Region, Split, advise, split_at
from vinets.theory.bounds import InExEncoding, PolynomialBounds, encode, kappa, polynomial_bounds
from vinets.theory.complexity import CutComplexity, cut_complexity, spectral_complexity
from vinets.theory.norms import Complexity, LayerNorms
from vinets.theory.study import Corollary, MarginBound, Study, study

__all__ = [
    "Advice",
    "Complexity",
    "Corollary",
    "CutComplexity",
    "InExEncoding",
    "LayerNorms",
    "MarginBound",
    "PolynomialBounds",
    "Region",
    "Split",
    "Study",
    "advise",
    "cut_complexity",
    "encode",
    "kappa",
    "polynomial_bounds",
    "spectral_complexity",
    "split_at",
    "study",
]
