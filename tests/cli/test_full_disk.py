"""A full disk, or a place that cannot be written: one sentence, and what was there stays."""

from __future__ import annotations

import numpy as np
import pytest

TRAIN = ["--model", "digits_cnn", "--data", "digits", "--epochs", 1, "--quiet"]


def names(folder) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_training_leaves_nothing_half_written(refused, tmp_path, full_disk):
    with full_disk(5_000):
        said = refused("train", *TRAIN, "--out", tmp_path / "out")
    assert "could not be written" in said and "File too large" in said
    assert "checkpoint.safetensors" not in names(tmp_path) and "network.json" not in names(tmp_path)
    assert {name for name in names(tmp_path) if name.startswith(".")} <= {".lock"}


def test_a_build_that_does_not_fit_leaves_the_network_it_is_made_from(
    refused, base, build_options, tmp_path, full_disk
):
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    with full_disk(2_000):
        said = refused("build", base, "--out", tmp_path, *build_options, "--quiet")
    assert "could not be written" in said and "config.json" not in names(tmp_path)
    assert {path: path.read_bytes() for path in base.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("way", ["full", "folder", "below a file"])
def test_generators_are_written_whole_or_not_at_all(
    call, refused, tmp_path, random, way, full_disk
):
    np.save(tmp_path / "p.npy", random.uniform(-1, 1, (50, 4)))
    out = tmp_path / "g.safetensors"
    if way == "folder":
        out.mkdir()
    elif way == "below a file":
        out = tmp_path / "p.npy" / "g.safetensors"
    with full_disk(300 if way == "full" else 1 << 40):
        said = refused("ideal", tmp_path / "p.npy", "--out", out)
    assert "could not be written" in said
    assert not out.is_file() and names(tmp_path) == ["p.npy"]
