"""Suites of tests that what is added to vinets inherits from, and passes."""
