from __future__ import annotations

import pytest
import torch

from vinets.data import digits
from vinets.latent.collect import Latents, collect
from vinets.models import digits_cnn

DIGITS = digits()


@pytest.fixture(scope="session")
def train():
    return DIGITS.train


@pytest.fixture(scope="session")
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return digits_cnn().eval()


@pytest.fixture(scope="session")
def latents(model) -> Latents:
    return collect(model, DIGITS.train, "relu3", per_class=48, progress=None)
