"""The promises of every source of examples and labels, as tests for pytest to inherit.

In a file of tests::

    class TestMine(SourceContract):
        def make(self):
            return MySource(folder)

        def expected(self):
            return inputs, labels  # all of them, from first to last
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from vinets.core.device import Inputs, each
from vinets.data import Source, split_source

# equal to the last bit, name by name if inputs have names
assert_same = partial(torch.testing.assert_close, rtol=0, atol=0)


class SourceContract(ABC):
    """Tests of a :class:`~vinets.data.Source` with at least 4 examples."""

    @abstractmethod
    def make(self) -> Source:
        """Make a new source."""

    @abstractmethod
    def expected(self) -> tuple[Inputs, Tensor]:
        """Return all inputs, as batches hold them when nothing is augmented, and all labels."""

    def test_it_is_a_source(self) -> None:
        source, (_, labels) = self.make(), self.expected()
        assert isinstance(source, Source) and len(source) == len(labels) >= 4
        assert source.labels.dtype == torch.int64 and source.labels.device.type == "cpu"
        assert torch.equal(source.labels, labels)
        assert isinstance(source.classes, tuple) and all(type(c) is str for c in source.classes)
        assert len(source.classes) > int(labels.max())

    @pytest.mark.parametrize("batch_size", [1, 3, 1000])
    def test_all_examples_come_in_their_order_as_often_as_asked(self, batch_size: int) -> None:
        source, (inputs, labels) = self.make(), self.expected()
        for _ in range(2):
            batches = list(source.batches(batch_size))
            assert_same(_joined(batches), (inputs, labels))
            sizes = [len(y) for _, y in batches]
            assert sizes[:-1] == [batch_size] * (len(sizes) - 1) and sizes[-1] <= batch_size

    def test_any_order_is_kept_with_what_it_repeats(self) -> None:
        source, (inputs, labels) = self.make(), self.expected()
        order = torch.tensor([len(labels) - 1, 0, 2, 2, 1])
        batches = list(source.batches(2, order=order))
        assert [len(y) for _, y in batches] == [2, 2, 1]
        assert_same(_joined(batches), (each(inputs, lambda t: t[order]), labels[order]))
        assert list(source.batches(2, order=order[:0])) == []

    def test_a_subset_of_a_subset_is_the_subset_by_composed_positions(self) -> None:
        source, (inputs, labels) = self.make(), self.expected()
        first, second = torch.tensor([3, 0, len(labels) - 1]), torch.tensor([2, 0])
        part, wanted = source.subset(first).subset(second), labels[first][second]
        assert_same(list(part.batches(10)), [(each(inputs, lambda t: t[first][second]), wanted)])
        assert torch.equal(part.labels, wanted)
        assert part.classes == source.classes and len(source) == len(labels)
        empty = part.subset(torch.tensor([], dtype=torch.int64))
        assert len(empty) == 0 and list(empty.batches(2)) == []
        assert empty.classes == source.classes
        with pytest.raises(ValueError, match="source is empty"):
            empty.example()

    def test_examples_are_the_first_inputs(self) -> None:
        source, (inputs, _) = self.make(), self.expected()
        assert_same(source.example(), each(inputs, lambda t: t[:1]))
        assert_same(source.example(3), each(inputs, lambda t: t[:3]))
        assert_same(source.example(10**6), inputs)

    def test_equal_generators_augment_alike_and_nothing_else_is_drawn_from(self) -> None:
        source, state = self.make(), torch.get_rng_state()
        first, second = (
            _joined(list(source.batches(3, augment=torch.Generator().manual_seed(1))))
            for _ in range(2)
        )
        assert_same(first, second)
        assert torch.equal(torch.get_rng_state(), state)
        # without a generator, as before
        assert_same(_joined(list(source.batches(3))), self.expected())

    def test_a_split_loses_nothing(self) -> None:
        source = self.make()
        rest, held_out = split_source(source, 0.5, seed=0)
        assert len(rest) + len(held_out) == len(source)
        both = torch.cat([rest.labels, held_out.labels])
        assert torch.equal(both.sort().values, source.labels.sort().values)
        assert set(rest.labels.tolist()) == set(source.labels.tolist())  # no class is left out

    @pytest.mark.parametrize("wrong", [[10**6], [-1], [0.0]], ids=["beyond", "negative", "float"])
    def test_positions_and_counts_that_are_none_are_refused(self, wrong: list[Any]) -> None:
        source = self.make()
        with pytest.raises(ValueError, match=r"'order' parameter .* positions below"):
            list(source.batches(2, order=torch.tensor(wrong)))
        with pytest.raises(ValueError, match=r"'index' parameter .* positions below"):
            source.subset(torch.tensor(wrong))
        # Batches and examples are counted by positive integers.
        with pytest.raises(ValueError, match=r"'batch_size' parameter .* positive"):
            list(source.batches(0))
        with pytest.raises(ValueError, match=r"'count' parameter .* positive"):
            source.example(0)


def _joined(batches: list[Any]) -> tuple[Inputs, Tensor]:
    inputs, labels = zip(*batches, strict=True)
    if isinstance(inputs[0], Tensor):
        return torch.cat(inputs), torch.cat(labels)
    return {name: torch.cat([x[name] for x in inputs]) for name in inputs[0]}, torch.cat(labels)
