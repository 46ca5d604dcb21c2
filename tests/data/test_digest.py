"""Data are known by every example and label, whatever they are called and whoever reads them."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from vinets.core.tensors import digest
from vinets.data import (
    DataSplit,
    ImageSource,
    LoaderSource,
    Preprocessing,
    TensorSource,
    digits,
    load_data,
)
from vinets.data.digest import content, examples_digest, share_repeated
from vinets.data.formats import RepeatedWarning

TRAIN, TEST = digits().train, digits().test
BRIGHTER = Preprocessing(1, (8, 8), (0.1,), (0.9,))


def changed(source: ImageSource, index: int) -> ImageSource:
    images = source.images.clone()
    images[index, 0, 3, 3] ^= 1
    return source.changed(images=images)


@pytest.mark.parametrize("index", [0, 700, -1])
def test_one_pixel_of_any_example_is_noticed(index):
    assert content(TRAIN) == content(TRAIN.subset(torch.arange(len(TRAIN))))
    assert content(TRAIN) != content(changed(TRAIN, index))


def test_labels_order_shapes_and_normalisation_count():
    points, labels = torch.arange(24.0).view(6, 4), [0, 1, 0, 1, 0, 1]
    same = TensorSource(points, labels)
    others = [
        TensorSource(points, labels[::-1]),
        TensorSource(points.flip(0), labels),
        TensorSource(points.view(6, 2, 2), labels),
        TensorSource(points.double(), labels),
        TensorSource({"x": points}, labels),
        TensorSource(points, labels, ("a", "b")),
    ]
    assert len({content(source) for source in (same, *others)}) == 7
    assert content(TRAIN.changed(preprocessing=BRIGHTER)) != content(TRAIN)
    # Sources whose images were squashed have the digest that they had before there was a choice.
    facts = [list(TRAIN.classes), TRAIN.preprocessing.to_dict()]
    assert facts[1].pop("resize") == "squash"
    tensors = [("labels", TRAIN.labels), ("", TRAIN.images)]
    assert content(TRAIN) == digest(tensors, facts)
    cut = replace(TRAIN.preprocessing, resize="crop")
    assert content(TRAIN.changed(preprocessing=cut)) != content(TRAIN)


class Drawing(Dataset):
    """A data set that augments when it is read, as those of torchvision do."""

    reads = 0

    def __len__(self):
        return 20

    def __getitem__(self, index):
        type(self).reads += 1
        draws = torch.rand(2).sum() + random.random() + np.random.rand()  # noqa: NPY002
        return torch.tensor([float(index), float(draws)]), index % 2


def test_a_data_set_that_draws_is_the_same_the_next_time_and_is_read_once():
    first, second = LoaderSource(Drawing()), LoaderSource(Drawing())
    before = torch.get_rng_state(), random.getstate()
    assert content(first) == content(second)
    assert torch.equal(before[0], torch.get_rng_state()) and before[1] == random.getstate()
    reads = Drawing.reads
    assert content(first) == content(second) and Drawing.reads == reads


def test_examples_are_known_in_any_order_and_division():
    parts = TRAIN.subset(torch.arange(400, len(TRAIN))), TRAIN.subset(torch.arange(400))
    whole, brighter = examples_digest(TRAIN), TRAIN.changed(preprocessing=BRIGHTER)
    assert examples_digest(*parts) == examples_digest(brighter) == whole
    assert len(whole) == 16 and whole != examples_digest(TRAIN, TEST)
    assert whole != examples_digest(changed(TRAIN, 700)) != examples_digest(parts[0])
    assert examples_digest(LoaderSource(Drawing())) == ""  # a pass could take minutes


def test_a_test_part_that_repeats_the_training_part_is_noticed():
    images = torch.cat([TEST.images[:90], TRAIN.images[:60]])
    mixed = ImageSource(images, [0] * 150, TEST.classes, TEST.preprocessing)
    assert share_repeated(DataSplit("", TRAIN, mixed)) == pytest.approx(0.4)
    assert share_repeated(DataSplit("", TRAIN, TEST)) == 0
    words = {"ids": torch.arange(40).view(10, 4), "mask": torch.ones(10, 4, dtype=torch.bool)}
    texts = TensorSource(words, [0] * 10)
    parts = (texts.subset(torch.arange(8)), texts.subset(torch.arange(6, 10)))
    assert share_repeated(DataSplit("", *parts)) == 0.5


@pytest.mark.parametrize("repeated", [0, 5, 8])
def test_files_whose_test_part_is_the_training_part_are_refused(tmp_path, repeated):
    rng = np.random.default_rng(0)
    train, test = (rng.integers(0, 255, (10, 8, 8), dtype=np.uint8) for _ in range(2))
    test[:repeated] = train[:repeated]
    for name, array in (("x", train), ("t", test), ("y", np.arange(10) % 2)):
        np.save(tmp_path / f"{name}.npy", array)
    spec = ",".join(str(tmp_path / f"{name}.npy") for name in "xyty")
    if not repeated:
        assert len(load_data(spec).test) == 10
        return
    message = f"{repeated}0% of the test examples of x are among"
    refusal = pytest.raises(ValueError, match=message)
    with refusal if repeated > 5 else pytest.warns(RepeatedWarning, match=message):
        load_data(spec)
