"""The best small network within a budget."""

from vinets.search.budget import Budget, Limit, parse_budget
from vinets.search.compress import compress
from vinets.search.result import Attempt, SearchResult
from vinets.search.space import Candidate, CommandWords

__all__ = [
    "Attempt",
    "Budget",
    "Candidate",
    "CommandWords",
    "Limit",
    "SearchResult",
    "compress",
    "parse_budget",
]
