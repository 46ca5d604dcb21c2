"""The best small network within a budget."""

from vinets.compress.budget import Budget, parse_budget
from vinets.compress.result import SearchResult
from vinets.compress.search import Compressed, compress

__all__ = ["Budget", "Compressed", "SearchResult", "compress", "parse_budget"]
