"""Run as ``python -m vinets.cli``."""

from vinets.stopping import guarded

if __name__ == "__main__":
    with guarded():
        from vinets.cli.app import app

        app(prog_name="vinets")
