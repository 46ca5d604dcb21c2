"""Damaged and hostile files for every reader: a named error or a right result, each time."""
