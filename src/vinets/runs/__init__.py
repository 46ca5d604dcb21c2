"""One trial, its result, and where results are kept."""
