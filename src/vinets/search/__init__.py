"""The best small network within a budget."""

from vinets.search.budget import Budget, parse_budget
from vinets.search.compressed import Compressed, compress
from vinets.search.repeat import Written
from vinets.search.result import SearchResult

__all__ = [
    "Budget",
    "Compressed",
    "SearchResult",
    "Written",
    "compress",
    "parse_budget",
]
