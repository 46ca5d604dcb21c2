"""From a folder of images to a file that runs elsewhere, by command line alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vinets.core.files import read_json
from vinets.core.plain import from_plain
from vinets.models.libraries import file as files
from vinets.search import SearchResult, cost

pillow = pytest.importorskip("PIL.Image", reason="folders of images need the extra 'vision'")

SIDE = 32  # that networks see; the files are of other sizes
NET = """
from torch import nn

class MyNet(nn.Module):
    def __init__(self, num_classes=3, width=12):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.Conv2d(2 * width, 4 * width, 3, 2, 1), nn.BatchNorm2d(4 * width), nn.ReLU(),
        )
        self.classifier = nn.Linear(4 * width, num_classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))
"""
MODEL = "net.py:MyNet"
EPOCHS = 3  # that teach it the images below


def striped(kind: int, side: int, rng: np.random.Generator) -> np.ndarray:
    """An image of class 0 to 2: stripes of a colour."""
    wave = np.sin(2 * np.pi * (np.arange(side) / side * 4 + rng.random()))
    pixels = rng.normal(110, 25, (side, side, 3))
    pixels[..., kind] += 40 + 40 * wave
    return np.uint8(np.clip(pixels, 0, 255))


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder with train and test, in them a folder for every class."""
    folder, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for part, count in (("train", 40), ("test", 16)):
        for kind, name in enumerate(("red", "green", "blue")):
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                side = int(rng.integers(36, 48))
                path = folder / part / name / f"{number}.png"
                pillow.fromarray(striped(kind, side, rng)).save(path)
    return folder


def test_a_network_is_trained_compressed_and_used(call, images, tmp_path, monkeypatch):
    monkeypatch.setattr(cost, "WINDOWS", {"repeats": 2, "seconds": 0.001})
    monkeypatch.setattr(files, "_named", {})  # as in a process that named no file yet
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    data = ["--data", images]
    epochs = ["--epochs", EPOCHS, "--learning-rate", 0.1, "--batch-size", 12]
    trained = call("train", "--model", MODEL, *data, "--size", SIDE, *epochs, "--out", "base")
    assert trained.code == 0, trained.err
    uncut = f"base@{MODEL}"

    short = ["--epochs", 2, "--cuts", 1, "--no-int8", "--out", "small", "--quiet"]
    done = call("compress", uncut, *data, "--budget", "params=60%", *short)
    assert done.code == 0, done.err
    assert "Warning" not in done.err
    found = from_plain(SearchResult, read_json("small/results.json"))
    assert Path("small/report.html").is_file() and found.met and found.choice is not None
    small = f"small@{MODEL}"

    # the size of its images is known, and it does what the search found on both halves
    right = call("evaluate", small, *data, "--json").json()
    halves = found.choice.accuracy + found.choice.test
    assert 2 * right["accuracy"] == pytest.approx(halves, abs=0.01) and right["accuracy"] > 0.8

    options = ["--batch-sizes", 4, "--seconds", 0.01, "--repeats", 2, "--json"]
    both = call("bench", uncut, small, *options).json()["networks"]
    sizes = [one["sizes"]["parameters"] for one in both]
    assert sizes[1] <= 0.6 * sizes[0]

    file = call("export", small, "--out", "small.pt2", "--json").json()
    assert file["largest_difference"] < 1e-3

    image = images / "test" / "green" / "0.png"
    (told,) = call("predict", small, image, "--json").json()["predictions"]
    names = [guess["name"] for guess in told["classes"]]
    assert names[0] == "green" and sorted(names) == ["blue", "green", "red"]
