"""Preprocessing as others describe it; torchvision may be missing, so stand-ins are read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from vinets.data import Preprocessing, as_source, preprocessing_of

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def step(kind: str, **facts: Any) -> Any:
    """An object of a class of that name, as torchvision has them."""
    return type(kind, (SimpleNamespace,), {})(**facts)


def compose(*steps: Any) -> Any:
    return step("Compose", transforms=[*steps])


RESIZE, CROP = step("Resize", size=256), step("CenterCrop", size=(224, 224))
NORMALIZE = step("Normalize", mean=torch.tensor(MEAN).double().numpy(), std=[*STD])


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (compose(RESIZE, CROP, step("ToTensor"), NORMALIZE), (224, 224, "crop:0.875")),
        (compose(compose(step("Resize", size=[224]), CROP), NORMALIZE), (224, 224, "crop")),
        (compose(step("Resize", size=(96, 128)), step("ToTensor"), NORMALIZE), (96, 128, "squash")),
        ({"size": 32, "mean": MEAN, "std": STD}, (32, 32, "squash")),
        ({"size": (8, 9), "mean": [*MEAN], "std": STD, "resize": "crop"}, (8, 9, "crop")),
    ],
)
def test_transforms_and_numbers_become_a_preprocessing(way, expected):
    found = preprocessing_of(way)
    assert (*found.size, found.resize) == expected
    assert found.mean == pytest.approx(MEAN) and found.std == STD
    assert preprocessing_of(found) is found


def test_grey_images_and_no_normalisation():
    grey = compose(step("Grayscale", num_output_channels=1), step("Resize", size=(8, 8)))
    assert preprocessing_of(grey) == Preprocessing(1, (8, 8), (0.0,), (1.0,))
    assert preprocessing_of({"size": 8, "mean": 0.5, "std": 0.25}).mean == (0.5,) * 3
    assert preprocessing_of({"size": 8, "channels": 1, "mean": [0.5]}).mean == (0.5,)


@pytest.mark.parametrize(
    "way",
    [
        compose(step("RandomResizedCrop", size=224), NORMALIZE),
        compose(step("RandomHorizontalFlip"), RESIZE, CROP),
        compose(RESIZE, NORMALIZE),  # of any width
        compose(CROP, NORMALIZE),  # of any scale
        compose(step("Resize", size=(256, 256)), CROP),  # squashed, then cut
        {"mean": MEAN, "std": STD},
        {"size": 8, "means": MEAN},
        None,
    ],
)
def test_what_is_random_or_not_known_is_refused(way):
    with pytest.raises(ValueError, match="a transform of torchvision or timm without random"):
        preprocessing_of(way)


def test_a_loader_tells_what_its_data_set_knows():
    data = TensorDataset(torch.zeros(4, 3, 8, 8), torch.arange(4) % 2)
    assert as_source(DataLoader(data)).preprocessing is None
    data.transform = compose(step("Resize", size=(8, 8)), NORMALIZE)
    assert as_source(DataLoader(data, batch_size=2)).preprocessing.size == (8, 8)
    data.transform = compose(step("RandomCrop", size=8))
    assert as_source(DataLoader(data)).preprocessing is None
