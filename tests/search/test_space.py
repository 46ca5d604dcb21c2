"""Which cuts and heads are tried, and frontiers of them."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from vinets.latent.cut import cut_points
from vinets.models import digits_cnn, resnet18
from vinets.search.result import frontier, layers_of
from vinets.search.space import candidates_at, choose_cuts, start_trial


def test_cuts_differ_in_cost_and_save_something():
    model = resnet18(10)
    whole = sum(p.numel() for p in model.parameters())
    points = cut_points(model, torch.zeros(1, 3, 32, 32))
    chosen = choose_cuts(points, whole, 8)
    assert len(chosen) == 8
    macs = [point.macs for point in chosen]
    assert macs == sorted(set(macs))
    assert macs[-1] > 4 * macs[0]  # from early to late
    assert all(p.parameters < 0.9 * whole or p.macs < 0.9 * points[-1].macs for p in chosen)
    # one in every stage at least, and none on a branch beside the blocks
    assert {point.name[:6] for point in chosen} >= {f"layer{i}" for i in (1, 2, 3, 4)}
    assert not any("downsample" in point.name for point in choose_cuts(points, whole, 99))
    # a block counts with its sum, not with the convolution that it ends with
    every = choose_cuts(points, whole, 99)
    assert {"layer1.0", "layer1.1", "layer2.0"} <= {point.name for point in every}


def test_heads_of_both_kinds_are_tried_and_no_linear_one_that_is_too_large():
    model = digits_cnn()
    points = {p.name: p for p in cut_points(model, torch.zeros(1, 1, 8, 8))}
    found = candidates_at(points["relu1"], 103_466, 10)
    assert {"vi", "relu-units", "pooled"} <= {one.head for one in found}
    assert len({one.name for one in found}) == len(found)
    assert "linear" not in {one.head for one in candidates_at(points["relu1"], 20_000, 10)}
    trial = found[0].trial(start_trial(1_000, 10, seed=3), epochs=5)
    assert (trial.cut, trial.recipe.epochs, trial.seed) == ("relu1", 5, 3)
    assert trial.tuning.tune == "all" and trial.recipe.batch_size == 64


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), max_size=12))
def test_nothing_beats_a_frontier_and_layers_hold_everything(pairs):
    points = [(cost, gain, index) for index, (cost, gain) in enumerate(pairs)]
    front = frontier(points)
    for index in front:
        cost, gain = pairs[index]
        beaten = [c <= cost and g >= gain and (c, g) != (cost, gain) for c, g in pairs]
        assert not any(beaten)
    assert sorted(one for layer in layers_of(points) for one in layer) == list(range(len(pairs)))
    assert not points or layers_of(points)[0] == front
