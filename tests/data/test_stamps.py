from __future__ import annotations

import os

import numpy as np
import pytest
import torch

from vinets.data import content, load_data, stamps
from vinets.data.content import identify, sketch
from vinets.data.images import augment_by, normalise_by


@pytest.fixture
def files(tmp_path, random, monkeypatch):
    """Images and labels in files that count as settled; the cache is empty."""
    monkeypatch.setenv("VINETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stamps, "SETTLED", -60.0)
    (tmp_path / "data").mkdir()
    paths = [tmp_path / "data" / f"{name}.npy" for name in ("x", "y", "xt", "yt")]
    for path in paths:
        labels = path.name.startswith("y")
        values = np.arange(20) % 2 if labels else random.integers(0, 256, (20, 8, 8, 3))
        np.save(path, values.astype(np.int64 if labels else np.uint8))
    return paths


def load(files, **options):
    return load_data(",".join(map(str, files)), unchanged=True, **options)


def told(data):
    return identify(data), content.content(data.train), sketch(data.train)


@pytest.fixture
def nothing_read(monkeypatch):
    def refuse(*_):
        raise AssertionError("examples are looked at again")

    def apply():
        monkeypatch.setattr(content, "parts_of", refuse)

    return apply


def test_a_second_program_looks_at_no_example(files, nothing_read):
    first = told(load(files))
    again = load(files)
    nothing_read()
    assert told(again) == first


def test_what_is_told_is_what_the_examples_say(files):
    told(load(files))
    plain = load_data(",".join(map(str, files)))
    assert plain.train.stamp == ""
    assert told(load(files)) == told(plain)


def test_a_change_shows_although_size_and_time_are_the_same(files):
    first = told(load(files))
    before = files[0].stat()
    values = np.load(files[0])
    values[3, 0, 0, 0] ^= 1
    np.save(files[0], values)
    os.utime(files[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    assert files[0].stat().st_size == before.st_size
    assert load(files).train.stamp != ""
    assert told(load(files))[0] != first[0]


def test_examples_in_the_hands_of_a_user_are_looked_at(files):
    told(load(files))
    data = load_data(",".join(map(str, files)))
    before = told(data)
    data.train.images.numpy()[0] = 0  # which no counter of torch shows
    assert told(data)[1] != before[1]


def test_files_written_just_now_are_not_trusted(files, monkeypatch):
    monkeypatch.setattr(stamps, "SETTLED", 2.0)
    assert load(files).train.stamp == ""


def test_parts_are_told_apart(files, nothing_read):
    data = load(files)
    parts = [data.train.subset(torch.arange(count)) for count in (4, 6)]
    digests = [content.content(part) for part in [*parts, data.train, data.test]]
    assert len(set(digests)) == 4
    again = load(files).train.subset(torch.arange(6))
    nothing_read()
    assert content.content(again) == digests[1]


def test_another_reading_is_another_content_of_the_same_data(files):
    data = load(files)
    other = normalise_by(data, (0.5,), (0.5,))
    mirrored = augment_by(data, flip=True)
    assert content.content(other.train) != content.content(data.train)
    assert identify(other) == identify(mirrored) == identify(data)
    assert other.train.stamp == data.train.stamp == mirrored.train.stamp


def test_seed_and_order_of_files_count(files):
    pair = files[:2]
    seeds = [identify(load(pair, seed=seed)) for seed in (0, 1)]
    assert seeds[0] != seeds[1]
    swapped = [*files[2:], *files[:2]]
    assert load(swapped).train.stamp != load(files).train.stamp


def test_folders_that_are_links_are_not_trusted(files):
    folder = files[0].parent
    assert stamps.stamp_of([folder], None) != ""
    (folder / "link").symlink_to(folder, target_is_directory=True)
    assert stamps.stamp_of([folder], None) == ""


@pytest.mark.parametrize("paths", [[], ["missing"]])
def test_nothing_to_look_at_gives_no_stamp(paths, tmp_path):
    assert stamps.stamp_of([tmp_path / path for path in paths], None) == ""
