from __future__ import annotations

import pytest
import torch

from vinets.data import DataSplit, digits
from vinets.models import digits_cnn
from vinets.search import costs
from vinets.training import train_classifier


@pytest.fixture(autouse=True, scope="package")
def short_windows():
    """What a pass takes is of no matter here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "WINDOWS", {"repeats": 2, "seconds": 0.001})
        yield


@pytest.fixture(scope="session")
def data() -> DataSplit:
    """Few digits."""
    whole = digits()
    return DataSplit("digits", whole.train.subset(torch.arange(400)), whole.test)


@pytest.fixture(scope="session")
def model(data: DataSplit) -> torch.nn.Module:
    """A network that knows them."""
    torch.manual_seed(0)
    model = digits_cnn()
    options = {"epochs": 6, "batch_size": 32, "learning_rate": 0.1, "validation": 0.0}
    train_classifier(model, data.train, progress=None, **options)
    return model
