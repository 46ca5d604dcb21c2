"""The network and the digits of :mod:`digit_fixtures`, and points in three clouds."""

import pytest
import torch
from digit_fixtures import model, train  # noqa: F401


@pytest.fixture(scope="session")
def cloud():
    """A function that draws positive points, a third about each of three centres, with labels."""

    def draw(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        labels = torch.arange(3).repeat(count // 3)
        centres = 4 * torch.eye(3, 8)
        points = centres[labels] + torch.randn(count, 8, generator=generator)
        return points.abs(), labels

    return draw
