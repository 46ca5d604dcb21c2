from __future__ import annotations

import pytest
import torch

from vinets.data import choose_per_class

LABELS = torch.randint(5, (200,), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_at_most_count_of_each_class_are_chosen_sorted(count):
    chosen = choose_per_class(LABELS, count, seed=0)
    assert torch.equal(chosen, chosen.unique())
    expected = LABELS.bincount().clamp(max=count)
    assert torch.equal(LABELS[chosen].bincount(), expected)


def test_the_draw_of_a_class_does_not_depend_on_the_others():
    chosen = choose_per_class(LABELS, 6, seed=1)
    without = LABELS.clone()
    without[LABELS == 4] = 0  # class 4 joins class 0; classes 1 to 3 stay where they are
    redrawn = choose_per_class(without, 6, seed=1)
    for k in (1, 2, 3):
        assert torch.equal(chosen[LABELS[chosen] == k], redrawn[without[redrawn] == k])


def test_seeds_matter_and_fewer_are_a_part_of_more():
    few, many = (set(choose_per_class(LABELS, n, seed=0).tolist()) for n in (3, 9))
    assert few < many
    assert few != set(choose_per_class(LABELS, 3, seed=1).tolist())
    assert torch.equal(choose_per_class(LABELS, None, seed=0), torch.arange(200))
    assert len(choose_per_class(LABELS[:0], 3, seed=0)) == 0


@pytest.mark.parametrize(("count", "seed", "name"), [(0, 0, "count"), (2, -1, "seed")])
def test_bad_counts_and_seeds_are_named(count, seed, name):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of choose_per_class"):
        choose_per_class(LABELS, count, seed)
