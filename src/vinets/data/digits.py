"""The handwritten digits of scikit-learn: small, and always at hand."""

from __future__ import annotations

import numpy as np
import torch

from vinets.data.formats import DataFormat, Size
from vinets.data.images import Augmentation, image_split
from vinets.data.source import DataSplit, as_labels, split_pair


class Digits(DataFormat):
    """Digits, by their name."""

    name = "digits"
    written = "'digits'"
    rank = 0  # asked before folders, one of which may have that name

    def matches(self, spec: str) -> bool:
        return spec == "digits"

    def load(self, spec: str, *, seed: int, size: Size) -> DataSplit:
        return digits(seed=seed)


def digits(seed: int = 0) -> DataSplit:
    """Return 1,797 digits of 1 x 8 x 8 pixels in ten classes, split by class with a seed."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    grey = np.rint(raw.images * (255 / 16)).astype(np.uint8)  # the levels are 0..16
    images, labels = torch.from_numpy(grey).unsqueeze(1), as_labels("digits", raw.target)
    train, test = split_pair("digits", (images, labels), 0.25, seed)
    crops = Augmentation(padding=1, flip=False, mode="zero")
    return image_split("digits", train, test, augmentation=crops)
