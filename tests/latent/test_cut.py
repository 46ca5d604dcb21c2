from __future__ import annotations

import copy
import gc
import linecache

import pytest
import torch
from torch import fx, nn

from vinets.latent.cut import (
    StoppedNetwork,
    cut_points,
    paper_convolutions,
    share_removed,
    truncate,
)
from vinets.models import PRESETS, resnet18, resnet34

SIZES = 675_392, 2_184_768, 3_955_776, 8_808_512, 2_849_600, 5_210_944, 14_196_032, 18_916_672
PLACES = [(*place, size) for place, size in zip(PRESETS.values(), SIZES, strict=True)]
NETWORKS = {"resnet18": resnet18(10), "resnet34": resnet34(100)}
IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(("net", "cut", "size"), PLACES)
def test_the_cut_network_has_the_papers_parameters_and_the_networks_activations(net, cut, size):
    model, seen = NETWORKS[net].eval(), []
    part = truncate(model, cut)
    assert sum(p.numel() for p in part.parameters()) == size
    watch = model.get_submodule(cut).register_forward_hook
    with watch(lambda m, a, out: seen.append(out.clone())), torch.no_grad():
        model(IMAGES)
        torch.testing.assert_close(part(IMAGES), seen[0])


@pytest.mark.parametrize("net", NETWORKS)
def test_cut_points_agree_with_what_truncation_keeps(net):
    points = {p.name: p for p in cut_points(NETWORKS[net], IMAGES[:1], every=True)}
    for cut, size in [(cut, size) for name, cut, size in PLACES if name == net]:
        assert points[cut].parameters == size
        assert not points[cut].main or cut.count(".") == 1
    for point in list(points.values())[::7]:
        part = truncate(NETWORKS[net], point.name)
        assert sum(p.numel() for p in part.parameters()) == point.parameters
        assert tuple(part(IMAGES[:1]).shape[1:]) == point.shape
    removed = [p.removed for p in points.values() if "downsample" not in p.name]
    assert removed == sorted(removed, reverse=True)
    assert points["fc"].removed == 0


def test_cutting_changes_nothing_in_the_model_and_statistics_do_not_move():
    model = resnet18(10).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    cut_points(model, IMAGES[:1])
    part = truncate(model, "layer3.1.bn1")
    part(IMAGES)
    assert model.training and not part.training
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_places_by_name_index_and_share_are_the_same_places():
    model = NETWORKS["resnet18"]
    point = cut_points(model, IMAGES[:1])[10]
    by_index = truncate(model, point.index, IMAGES[:1])
    torch.testing.assert_close(by_index(IMAGES), truncate(model, point.name)(IMAGES))
    half = truncate(model, "50%", IMAGES[:1])
    assert sum(isinstance(m, nn.Conv2d) for m in half.modules()) == 10  # of 20


class Branching(nn.Module):
    """Cannot be traced: control flow depends on the data."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 3), nn.Linear(3, 2)

    def forward(self, x):
        x = self.first(x)
        return self.second(-x if x.sum() > 0 else x)


def test_a_network_that_does_not_trace_is_stopped_by_a_hook():
    model = Branching()
    part = truncate(model, "first")
    assert isinstance(part, StoppedNetwork)
    x = torch.randn(5, 4)
    torch.testing.assert_close(part(x), model.first(x))
    assert not model.first._forward_hooks
    assert [p.name for p in cut_points(model, x)] == ["first", "second"]


class Reading(Branching):
    """Reads the weights of a layer that it calls behind the cut only."""

    def forward(self, x):
        return super().forward(x + self.second.weight.sum())


class Failing(Branching):
    """Fails at its second pass, for a reason that has nothing to do with the cut."""

    passes = 0

    def forward(self, x):
        self.passes += 1
        if self.passes > 1:
            raise OSError("the disk is full")
        return super().forward(x)


def test_a_network_that_does_not_trace_loses_what_it_does_not_use():
    x = torch.randn(5, 4)
    for model, kept in ((Branching(), 15), (Reading(), 21)):
        part = truncate(model, "first", x)
        assert sum(p.numel() for p in part.parameters()) == kept
        torch.testing.assert_close(part(x), truncate(model, "first")(x))


def test_an_error_of_the_network_is_not_taken_for_a_missing_module():
    with pytest.raises(OSError, match="the disk is full"):
        truncate(Failing(), "first", torch.randn(5, 4))


def test_the_share_removed_is_counted_once_and_the_papers_way_is_an_argument():
    model = NETWORKS["resnet18"]
    for point in cut_points(model, IMAGES[:1])[::9]:
        assert share_removed(model, truncate(model, point.name)) == point.removed
    # stage 4 has five of the fifteen convolutions of stages 2 to 4
    part = truncate(model, "layer3.1.conv2")
    assert share_removed(model, part, paper_convolutions) == pytest.approx(5 / 15)
    stopped = StoppedNetwork(model, "layer2.0")
    assert share_removed(model, stopped) == 0
    assert share_removed(nn.Linear(2, 2), nn.Linear(2, 2)) == 0


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        ("layer3.1.bn", r"be the name of a module.*names are layer3\.1\.bn[12], layer3\.1\.bn"),
        (10_000, r"must be an index below"),
        *((share, r"must be a share from '0%' to '100%'") for share in ("many%", "500%", "nan%")),
    ],
)
def test_unknown_places_are_named_with_their_neighbours(cut, message):
    with pytest.raises(ValueError, match=message):
        truncate(NETWORKS["resnet18"], cut, IMAGES[:1])
    with pytest.raises(ValueError, match="needs an example"):
        truncate(NETWORKS["resnet18"], 3)


def test_nothing_of_a_cut_network_stays_in_memory():
    """torch.fx keeps the source of every graph that it compiles, and does not forget."""

    def kept() -> set[str]:
        return linecache.cache.keys() | fx.graph_module._loader.eval_cache.keys()

    before = kept()
    cut_points(NETWORKS["resnet18"], IMAGES[:1])
    part = truncate(NETWORKS["resnet18"], "layer1.0.bn1")
    other = copy.deepcopy(part)
    assert len({name for name in kept() - before if "eval_with_key" in name}) == 2
    del part
    gc.collect()
    other(IMAGES[:1])
    del other
    gc.collect()
    assert not {name for name in kept() - before if "eval_with_key" in name}
