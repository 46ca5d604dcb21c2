"""The best small network within a budget."""

from vinets.search.budget import Budget, parse_budget
from vinets.search.halving import Compressed, compress
from vinets.search.result import SearchResult

__all__ = ["Budget", "Compressed", "SearchResult", "compress", "parse_budget"]
