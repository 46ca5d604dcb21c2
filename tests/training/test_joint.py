"""The backbone trained with the head."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from vinets import baselines, build, collect
from vinets.heads import VanishingOptions
from vinets.networks import VINet
from vinets.training import cache_latents, fine_tune, train_classifier

SMALL = {"components": 8, "keep": 4, "monomials": 32}
OPTIONS = {"epochs": 3, "batch_size": 64, "validation": 0.2, "progress": None}


def state(module):
    return {k: t.detach().clone() for k, t in module.state_dict().items()}


def changed(module, before):
    return {k for k, t in module.state_dict().items() if not torch.equal(t, before[k])}


def test_everything_is_trained_but_the_network_that_was_handed_over(make, model, train):
    net, uncut = make(), state(model)
    before = state(net)
    fine_tune(net, train, trained="backbone", teacher=model, **OPTIONS)
    moved = changed(net, before)
    trained = {f"backbone.{k}" for k, _ in net.backbone.named_parameters()}
    assert trained <= moved
    assert {k for k in moved if k.startswith("head.")}
    assert any("running_mean" in k for k in moved if k.startswith("backbone."))
    assert changed(model, uncut) == set()


def test_others_behind_the_same_cut_do_not_change(model, train):
    latents = collect(model, train, "relu3", per_class=20, reuse=True, progress=None)
    net, _ = build(latents, **SMALL, progress=None)
    others = baselines(latents, options=VanishingOptions(**SMALL))
    before = {name: state(other) for name, other in others.items()}
    fine_tune(net, train, trained="backbone", **OPTIONS)
    assert all(changed(other, before[name]) == set() for name, other in others.items())


def test_afterwards_it_is_frozen_again(make, train):
    net = make()
    fine_tune(net, train, trained="backbone", **OPTIONS)
    assert not any(p.requires_grad for p in net.backbone.parameters())
    assert not any(module.training for module in net.train().backbone.modules())


@pytest.mark.parametrize(
    ("trained", "layers"),
    [
        ("last:1", ["conv3"]),
        ("last:2", ["conv2", "conv3"]),
        ("last:9", ["conv1", "conv2", "conv3"]),
    ],
)
def test_the_last_layers_alone(make, train, trained, layers):
    net = make()
    before = state(net)
    fine_tune(net, train, trained=trained, **OPTIONS)
    moved = {k.split(".")[1] for k in changed(net, before) if k.startswith("backbone.")}
    convolutions = {name for name in moved if name.startswith("conv")}
    assert convolutions == set(layers)
    norms = {name for name in moved if name.startswith(("bn", "norm"))}
    assert len(norms) == len(layers)  # the norm behind a layer is tuned with it


def test_statistics_stay_where_they_are_told_to(make, train):
    net = make()
    before = state(net)
    fine_tune(net, train, trained="backbone", norms="frozen", **OPTIONS)
    moved = {k for k in changed(net, before) if k.startswith("backbone.")}
    assert moved and not any("running" in k or "num_batches" in k for k in moved)


def test_the_backbone_has_a_rate_of_its_own(make, train):
    slow, still = make(), make()
    before = state(slow)
    fine_tune(still, train, trained="backbone", backbone_rate=0.0, norms="frozen", **OPTIONS)
    assert not any(k.startswith("backbone.") for k in changed(still, before))
    once = {**OPTIONS, "epochs": 1, "validation": 0.0, "batch_size": 300, "momentum": 0.0}
    steps = []
    for rate in (0.1, 0.2):
        net = make()
        fine_tune(net, train, trained="backbone", backbone_rate=rate, backbone_decay=0.0, **once)
        weight = "backbone.conv1.weight"
        steps.append(net.state_dict()[weight] - before[weight])
    torch.testing.assert_close(2 * steps[0], steps[1], rtol=1e-3, atol=1e-7)


def test_an_interrupted_tuning_ends_as_if_nothing_had_been(
    make, model, train, tmp_path, stop, interrupted
):
    options = {**OPTIONS, "trained": "backbone", "teacher": model, "epochs": 4}
    whole = make()
    history = fine_tune(whole, train, **options)
    with pytest.raises(interrupted):
        fine_tune(make(), train, directory=tmp_path, **{**options, "progress": stop(7)})
    resumed = make()
    second = fine_tune(resumed, train, directory=tmp_path, **options)
    timeless = [[replace(e, seconds=0.0) for e in each.epochs] for each in (history, second)]
    assert timeless[0] == timeless[1]
    assert changed(resumed, state(whole)) == set()


def test_a_checkpoint_of_a_frozen_backbone_is_not_taken_for_one_of_a_tuned_one(
    make, train, tmp_path
):
    fine_tune(make(), train, directory=tmp_path, **OPTIONS)
    with pytest.raises(ValueError, match="another training"):
        fine_tune(make(), train, trained="backbone", directory=tmp_path, **OPTIONS)


def test_cached_latents_are_for_frozen_backbones(make, train):
    net = make()
    views = cache_latents(net, train, views=2)
    with pytest.raises(ValueError, match="cached latents are those of a backbone that stays"):
        fine_tune(net, views, trained="backbone", progress=None)
    with pytest.raises(ValueError, match="no views"):
        fine_tune(net, train, trained="backbone", views=2, progress=None)


@pytest.mark.parametrize("wrong", ["all", "last:0", "last:x", "last", 3, None])
def test_what_is_trained_is_said_in_four_ways(make, train, wrong):
    with pytest.raises(ValueError, match="'classifier', 'coefficients', 'backbone' or 'last:N'"):
        fine_tune(make(), train, trained=wrong)


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_layouts_and_precisions_learn_alike(make, model, train, memory_format):
    losses = []
    for precision in ("float32", "bfloat16"):
        net = make()
        options = {**OPTIONS, "epochs": 2, "memory_format": memory_format, "precision": precision}
        losses.append(
            fine_tune(net, train, trained="backbone", teacher=model, **options).epochs[-1].loss
        )
        weight = net.backbone.get_parameter("conv2.weight")
        assert weight.is_contiguous() and weight.dtype == torch.float32
    assert losses[0] == pytest.approx(losses[1], rel=0.1)


def test_a_tuned_network_is_saved_with_its_own_backbone(make, model, train, tmp_path):
    net = make()
    fine_tune(net, train, trained="backbone", **OPTIONS)
    folded = net.folded()
    folded.save_pretrained(tmp_path)
    again = VINet.from_pretrained(tmp_path, backbone=copy.deepcopy(model))
    assert again.record.notes["tuned"] == "backbone"
    images = train.example(4)
    assert torch.equal(again(images), folded(images))
    torch.testing.assert_close(folded(images), net(images), rtol=1e-3, atol=1e-4)


def test_layers_that_share_weights_are_tuned_once(make, train):
    net = make()
    shared = nn.Conv2d(4, 4, 1)
    net.backbone = nn.Sequential(nn.Conv2d(1, 4, 1), shared, nn.ReLU(), shared)
    tuned = net.thaw(1)
    assert [tuple(p.shape) for p in tuned] == [(4, 4, 1, 1), (4,)]


def test_a_vanishing_loss_makes_products_vanish_on_their_class(model, train):
    shares = []
    for weight in (0.0, 1.0):
        options = {"head": "products", "parameters": 4_000, "progress": None}
        net, _ = build(model, train, "relu3", per_class=20, **options)
        training = {**OPTIONS, "epochs": 4}
        fine_tune(net, train, vanish=weight, **training)
        head = net.head.train()
        head.watched = True
        with torch.no_grad():
            head(net.latents(train.example(len(train))))
        shares.append(float(head.vanishing_loss(train.labels)))
    assert shares[1] < 0.8 * shares[0]


def test_a_vanishing_loss_needs_a_class_to_vanish_on(make, model, train):
    latents = collect(model, train, "relu3", per_class=20, reuse=True, progress=None)
    earlier = make()
    earlier.head.polynomials.counts = None  # as version 0.2 saved it
    others = baselines(latents, options=VanishingOptions(**SMALL))
    for other in (others["linear, flat"], others["random, same degrees"], earlier):
        kind = other.head.kind
        with pytest.raises(ValueError, match=rf"vanish=0.5 is for polynomials that .*'{kind}'"):
            fine_tune(other, train, vanish=0.5, **OPTIONS)
        assert fine_tune(other, train, **OPTIONS).recipe.vanish == 0  # unless it is asked for
    with pytest.raises(ValueError, match="for heads of polynomials"):
        train_classifier(nn.Linear(2, 2), train, vanish=0.5)
