from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from program import Done, run

from vinets.data import digits

SMALL = ["--components", "8", "--keep", "4", "--monomials", "32", "--max-degree", "2"]
SHORT = ["--epochs", "2", "--seconds", "0.01", "--repeats", "2", "--batch", "16"]
PLACE = ["--data", "digits", "--cut", "relu3"]
BUILD = [*PLACE, "--train", "coefficients", "--per-class", "40", *SMALL, *SHORT]
PRODUCTS = ["--data", "digits", "--cut", "relu2", "--head", "products", "--seconds", "0.01"]


@pytest.fixture(scope="session")
def call() -> Callable[..., Done]:
    """Runs the program, which must succeed."""

    def succeed(*arguments: object) -> Done:
        done = run(*arguments)
        assert done.code == 0, done.err
        return done

    return succeed


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
def base(call: Callable[..., Done], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that ``vinets train`` trained for three epochs."""
    out = tmp_path_factory.mktemp("cli") / "base"
    options = ["--data", "digits", "--out", out, "--epochs", 3, "--quiet"]
    call("train", "--model", "digits_cnn", *options)
    return out


@pytest.fixture(scope="session")
def vinet(call: Callable[..., Done], base: Path) -> Path:
    """A VI-Net that ``vinets build`` made of it, with its baselines."""
    out = base.parent / "vinet"
    call("build", base, "--out", out, *BUILD, "--baselines", "--views", 1)
    return out


@pytest.fixture(scope="session")
def products(call: Callable[..., Done], base: Path) -> Path:
    """A network with products of three forms, tuned as a whole, with its baselines."""
    out = base.parent / "products"
    sizes = ["--parameters", 8000, "--factors", 3, "--spatial-rank", 4, "--repeats", 2]
    training = ["--train", "backbone", "--distill", 0.7, "--epochs", 2, "--schedule", "one-cycle"]
    call("build", base, *PRODUCTS, *sizes, *training, "--baselines", "--out", out)
    return out


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first test digits as files, in folders whose names tell their places."""
    image, folder = pytest.importorskip("PIL.Image"), tmp_path_factory.mktemp("pictures")
    for k in range(10):
        (folder / str(k)).mkdir()
        image.fromarray(digits().test.images[k, 0].numpy()).save(folder / str(k) / "digit.png")
    return folder


@pytest.fixture(scope="session")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of coloured images in folders."""
    image, random = pytest.importorskip("PIL.Image"), np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("colours") / "images"
    for name, level in (("dark", 60), ("light", 160)):
        (folder / name).mkdir(parents=True)
        for i in range(20):
            pixels = random.integers(level, level + 40, (32, 32, 3), dtype=np.uint8)
            image.fromarray(pixels).save(folder / name / f"{i}.png")
    return folder
