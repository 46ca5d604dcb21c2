"""Run as ``python -m vinets.cli``."""

from vinets.cli.app import app
from vinets.stopping import guarded

if __name__ == "__main__":
    with guarded():
        app(prog_name="vinets")
