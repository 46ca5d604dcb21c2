"""The program ``vinets``."""

from vinets.stopping import guarded


def main() -> None:
    """Run the command line."""
    with guarded():
        from vinets.cli.app import app

        app(prog_name="vinets")


if __name__ == "__main__":
    main()
