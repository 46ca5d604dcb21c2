"""Measuring from Python, with data in any form."""

from __future__ import annotations

import pytest
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import vinets
from vinets.data import digits

FAST = {"seconds": 0.01, "repeats": 2, "device": "cpu"}


class Own(nn.Module):
    """A class that no library knows."""

    def __init__(self, width):
        super().__init__()
        self.first, self.last = nn.Linear(64, width), nn.Linear(width, 10)

    def forward(self, x):
        return self.last(self.first(x.flatten(1)).relu())


@pytest.fixture(scope="module")
def pairs():
    inputs, labels = next(iter(digits().test.batches(60)))
    return TensorDataset(inputs, labels)


def test_bench_takes_data_or_a_batch(pairs):
    networks = {"large": Own(32), "small": Own(4)}
    forms = (pairs, DataLoader(pairs, batch_size=7), pairs.tensors[0], pairs.tensors)
    for form in forms:
        found = vinets.bench(networks, form, batch_sizes=(1, 8), **FAST)
        assert len(found.speed_table.rows) == 4
        first = found.size_table.rows[0].values
        assert first["parameters"] == 64 * 32 + 32 + 320 + 10 and first["flops"] > 0
    alone = vinets.bench(Own(4), pairs, batch_sizes=(2,), **FAST)
    assert alone.to_dict()["networks"][0]["name"] == "network"
    with pytest.raises(ValueError, match="dict from names to networks"):
        vinets.bench([Own(4)], pairs, **FAST)


def test_compare_is_one_table_beside_the_first(pairs):
    table = vinets.compare({"large": Own(32), "small": Own(4)}, pairs, batch_size=8, **FAST)
    large, small = (row.values for row in table.rows)
    assert "gap" not in large and large["ratio"] == 1
    assert small["gap"] == pytest.approx(small["accuracy"] - large["accuracy"])
    assert small["parameters"] < large["parameters"] and small["size"] < large["size"]
    assert str(table).startswith("| network |")
