"""The command line: how to do it from a shell."""

from vinets.cli.app import app

__all__ = ["app"]
