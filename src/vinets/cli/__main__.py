"""Run as ``python -m vinets.cli``."""

from vinets.cli.app import app

if __name__ == "__main__":
    app(prog_name="vinets")
