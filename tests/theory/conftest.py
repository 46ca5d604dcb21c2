from __future__ import annotations

import math

import pytest
import torch


@pytest.fixture(scope="session")
def matrix_of():
    """Write an affine map of one example as a matrix, column by column, without its offset."""

    def matrix(apply, shape):
        with torch.no_grad():
            zero = apply(torch.zeros(shape, dtype=torch.float64))
            units = torch.eye(math.prod(shape), dtype=torch.float64)
            columns = [(apply(unit.reshape(shape)) - zero).flatten() for unit in units]
        return torch.stack(columns, 1)

    return matrix
