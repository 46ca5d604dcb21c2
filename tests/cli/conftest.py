from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from program import Done, run

SMALL = ["--components", "8", "--keep", "4", "--monomials", "32", "--max-degree", "2"]
SHORT = ["--epochs", "2", "--seconds", "0.01", "--repeats", "2", "--batch", "16"]
PLACE = ["--data", "digits", "--cut", "relu3"]
BUILD = [*PLACE, "--train", "coefficients", "--per-class", "40", *SMALL, *SHORT]


@pytest.fixture(scope="session")
def call() -> Callable[..., Done]:
    """Runs the program; an exception that it makes no sentence of fails the test."""
    return run


@pytest.fixture(scope="session")
def refused() -> Callable[..., str]:
    """Runs the program, which must refuse in one sentence, and gives that sentence."""

    def refuse(*arguments: object) -> str:
        done = run(*arguments)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("Error: ") and done.err.count("\n") == 1, done.err
        return done.err

    return refuse


@pytest.fixture(scope="session")
def build_options() -> list[str]:
    """A VI-Net of digits that is built in a second."""
    return BUILD


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that ``vinets train`` trained for three epochs."""
    out = tmp_path_factory.mktemp("cli") / "base"
    options = ["--data", "digits", "--out", out, "--epochs", 3, "--quiet"]
    done = run("train", "--model", "digits_cnn", *options)
    assert done.code == 0, done.err
    return out


@pytest.fixture(scope="session")
def vinet(base: Path) -> Path:
    """A VI-Net that ``vinets build`` made of it, with its baselines."""
    out = base.parent / "vinet"
    done = run("build", base, "--out", out, *BUILD, "--baselines", "--views", 1)
    assert done.code == 0, done.err
    return out
