from __future__ import annotations

import pytest
import torch

from vinets.heads import MLPHead, Reference
from vinets.networks.network import network_of
from vinets.runs import baseline, baselines, build
from vinets.runs.baselines import kinds_beside, reference_to

SMALL = {"components": 8, "keep": 4, "monomials": 32, "progress": None}


@pytest.mark.parametrize("placement", ["global", "local"])
def test_baselines_stand_behind_the_same_cut(latents, placement):
    net = build(latents, placement=placement, linear_path=2, **SMALL)[0]
    others = baselines(net, latents, seed=1)
    assert {"linear, flat", "linear, pooled", "MLP", "random monomials"} <= others.keys()
    assert ("local ReLU" in others) == (placement == "local")
    images = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for network in others.values():
        assert torch.equal(network.eval().latents(images), net.latents(images))
        assert network(images).shape == (3, 10) and network.record is net.record
        ours, theirs = net.backbone.parameters(), network.backbone.parameters()
        assert all(p.data_ptr() == q.data_ptr() for p, q in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("placement", ["global", "local"])
def test_sizes_are_comparable(latents, placement):
    net = build(latents, placement=placement, **SMALL)[0]
    others = baselines(net, latents)
    numbers = sum(net.head.folded().parts().values())
    sizes = {name: sum(n.head.folded().parts().values()) for name, n in others.items()}
    width = 64 * 16 + 1 + 10  # what one more unit would take
    assert isinstance(others["MLP"].head, MLPHead)
    assert numbers - width < sizes["MLP"] <= numbers
    # generators have a leading term each, and what is drawn has none
    assert sizes["random, same degrees"] == numbers - len(net.head.polynomials.leading)
    assert sizes["linear, flat"] == 10 * (64 * 16 + 1) and sizes["linear, pooled"] == 650


def test_products_have_baselines_of_their_size(latents, model):
    net = build(latents, placement="products", head_parameters=60_000, factors=3, progress=None)[0]
    others = baselines(net, latents, model=model)
    numbers = sum(net.head.folded().parts().values())
    sizes = {name: sum(n.head.folded().parts().values()) for name, n in others.items()}
    assert 58_000 < numbers <= 60_000
    for name in ("local ReLU units", "SimKD", "MLP"):
        assert 0.95 * numbers < sizes[name] <= numbers, name
    assert "SimKD" not in baselines(net, latents)  # it takes over what only the model has


def test_seeds_make_the_baselines_and_leave_the_state_outside_alone(latents):
    net = build(latents, **SMALL)[0]
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first = baselines(net, latents, seed=1)
    assert torch.equal(torch.rand(1), expected)
    again, other = baselines(net, latents, seed=1), baselines(net, latents, seed=2)
    for name, network in first.items():
        states = [n[name].head.state_dict() for n in (first, again, other)]
        assert all(torch.equal(t, states[1][k]) for k, t in states[0].items())
        assert not all(
            states[2][k].shape == t.shape and torch.equal(t, states[2][k])
            for k, t in states[0].items()
        )
        assert not network.head.linear.weight.isnan().any()


def test_baselines_of_baselines_are_refused(latents):
    net = build(latents, **SMALL)[0]
    other = network_of(net.backbone, net.reader, MLPHead(64 * 16, 10, width=2), net.record)
    with pytest.raises(ValueError, match=r"made for a VI-Net.*'mlp'"):
        baselines(other, latents)


@pytest.mark.parametrize("placement", ["global", "local", "products"])
def test_one_baseline_is_drawn_as_among_all(latents, placement):
    net = build(latents, placement=placement, linear_path=2, **SMALL)[0]
    for name, network in baselines(net, latents, seed=2).items():
        reference = reference_to(latents, lambda: net.head, seed=2, placement=placement)
        one = baseline(network.head.kind, reference).state_dict()
        assert all(torch.equal(t, one[k]) for k, t in network.head.state_dict().items()), name
    with pytest.raises(ValueError, match=r"'vanishing' is no baseline here. There are: linear, "):
        baseline("vanishing", reference_to(latents, lambda: net.head))


@pytest.mark.parametrize("placement", ["global", "local", "products"])
def test_kinds_are_known_before_anything_is_made(latents, model, placement):
    net = build(latents, placement=placement, **SMALL)[0]
    made = [network.head.kind for network in baselines(net, latents, model=model).values()]
    assert kinds_beside(placement) == made


def refuse():
    raise AssertionError("nobody asked for it")


def test_linear_baselines_do_without_the_vi_head():
    reference = Reference((4, 3), 2, refuse, refuse)
    assert baseline("linear", reference).linear.in_features == 12
    assert baseline("pooled", reference).linear.in_features == 4


def test_making_the_vi_head_late_does_not_move_the_draws(latents):
    net = build(latents, **SMALL)[0]

    def late():
        torch.rand(7)
        return net.head

    known = reference_to(latents, lambda: net.head)
    reference = Reference(latents.shape, 10, late, lambda: known.points)
    ours, theirs = baseline("mlp", known), baseline("mlp", reference)
    assert torch.equal(ours.hidden.weight, theirs.hidden.weight)
