from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.register_assert_rewrite("vinets.testing")  # its failures show values, as those of tests do


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Small matrices: threads cost more than they bring."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seeded():
    """Weights that a test does not choose are the same in every order of the tests."""
    torch.manual_seed(0)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)
