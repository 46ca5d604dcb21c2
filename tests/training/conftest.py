from __future__ import annotations

import copy

import pytest
import torch

from vinets import build
from vinets.data import digits
from vinets.models import digits_cnn
from vinets.networks import VINet

DIGITS = digits()


class Interrupted(Exception):
    """What a person does to a training."""


class Stop:
    """A progress that interrupts the training after so many steps."""

    def __init__(self, after: int) -> None:
        self.left = after

    def start(self, stage: str, total: int) -> None: ...

    def advance(self, count: int = 1, note: str = "") -> None:
        self.left -= count
        if self.left < 0:
            raise Interrupted


@pytest.fixture
def stop():
    return Stop


@pytest.fixture
def interrupted():
    return Interrupted


@pytest.fixture(scope="session")
def train():
    return DIGITS.train.subset(torch.arange(300))


@pytest.fixture(scope="session")
def _built() -> tuple[torch.nn.Module, VINet]:
    torch.manual_seed(0)
    model = digits_cnn().eval()
    small = {"components": 8, "keep": 4, "monomials": 32, "per_class": 40, "progress": None}
    return model, build(model, DIGITS.train, "relu3", **small)[0]


@pytest.fixture
def model(_built) -> torch.nn.Module:
    return _built[0]


@pytest.fixture
def make(_built):
    """Makes the same network again and again."""
    return lambda: copy.deepcopy(_built[1])
