"""Trainings of heads, of backbones with them, and of whole networks."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vinets import baselines, build, collect, cut_points
from vinets.core.settings import TrainingOptions
from vinets.heads import VanishingOptions
from vinets.models import digits_cnn
from vinets.networks import VINet
from vinets.training import LatentViews, cache_latents, fine_tune, train_classifier, tune

SMALL = {"components": 8, "keep": 4, "monomials": 32}
OPTIONS = {"epochs": 3, "batch_size": 64, "validation": 0.2, "progress": None}
TUNED = OPTIONS | {"trained": "backbone"}


def losses(history) -> list[float]:
    return [epoch.loss for epoch in history.epochs]


def state(module):
    return {k: t.detach().clone() for k, t in module.state_dict().items()}


def changed(module, before):
    return {k for k, t in module.state_dict().items() if not torch.equal(t, before[k])}


def scratch():
    torch.manual_seed(0)
    return digits_cnn()


@pytest.fixture
def opinionated(model):
    """A teacher that knows nothing but one answer."""
    teacher = copy.deepcopy(model)
    with torch.no_grad():
        teacher.fc.bias[7] += 5
    return teacher


# --- heads on frozen backbones ------------------------------------------------------------------


@pytest.mark.parametrize("views", [None, 2])
def test_equal_seeds_give_equal_bits_and_other_seeds_others(make, train, views):
    a, b, c = make(), make(), make()
    first = fine_tune(a, train, views=views, **OPTIONS)
    torch.manual_seed(99)  # the state outside does not matter
    assert losses(fine_tune(b, train, views=views, **OPTIONS)) == losses(first)
    assert torch.equal(a.head.linear.weight, b.head.linear.weight)
    assert losses(fine_tune(c, train, views=views, seed=1, **OPTIONS)) != losses(first)


def test_a_small_network_learns_the_digits(make, train):
    net = make()
    history = fine_tune(net, train, **OPTIONS | {"epochs": 6})
    assert losses(history)[-1] < 0.7 * losses(history)[0]
    assert history.epochs[-1].validation_accuracy > 0.7 and not net.training


def test_one_cache_serves_several_heads_with_and_without_room_for_variables(
    make, train, monkeypatch
):
    cache = cache_latents(make(), train, views=2, validation=0.2)
    first = fine_tune(make(), train, views=2, **OPTIONS)
    assert losses(fine_tune(make(), cache, **OPTIONS)) == losses(first)
    seen = []
    monkeypatch.setattr(tune, "MAX_VIEWS", 0)
    monkeypatch.setattr(LatentViews, "through", lambda *_: seen.append(1))
    second = fine_tune(make(), cache, **OPTIONS)
    assert not seen and losses(second) == pytest.approx(losses(first), rel=1e-3)


@pytest.mark.parametrize("views", [None, 2])
def test_a_teacher_is_listened_to(make, opinionated, train, views):
    inputs = next(iter(train.batches(300)))[0]

    def gap(net):
        with torch.no_grad():
            logs, aim = F.log_softmax(net(inputs), 1), F.softmax(opinionated(inputs), 1)
        return float(F.kl_div(logs, aim, reduction="batchmean"))

    alone, taught = make(), make()
    options = OPTIONS | {"epochs": 6, "learning_rate": 0.2, "views": views}
    fine_tune(alone, train, **options)
    fine_tune(taught, train, teacher=opinionated, distill=1.0, **options)
    assert gap(taught) < 0.2 * gap(alone)


# --- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["head", "head by a recipe", "whole"])
def test_a_teacher_brings_its_weight_along_and_is_needed(make, model, train, way):
    def weight(**more):
        options = OPTIONS | {"epochs": 1} | more
        if way == "whole":
            return train_classifier(scratch(), train, **options).recipe.distill
        recipe = {"recipe": TrainingOptions()} if "recipe" in way else {}
        return fine_tune(make(), train, **recipe, **options).recipe.distill

    assert weight() == 0.0
    assert weight(teacher=model) == 0.7
    assert weight(teacher=model, distill=0.0) == 0.0
    with pytest.raises(ValueError, match=r"distill=0\.5 needs logits.*pass teacher="):
        weight(distill=0.5)


def test_single_numbers_change_the_recipe(make, train):
    history = fine_tune(make(), train, recipe=TrainingOptions(epochs=9, clip=1.0), **OPTIONS)
    assert history.recipe.epochs == 3 and history.recipe.clip == 1.0
    assert fine_tune(make(), train, views=1, **OPTIONS).recipe.epochs == 3
    with pytest.raises(ValueError, match="'momentum' parameter of fine_tune must be a number"):
        fine_tune(make(), train, momentum=1)


def test_cached_latents_are_for_frozen_backbones_and_need_the_teacher_themselves(
    make, model, train
):
    net = make()
    views = cache_latents(net, train, views=2)
    with pytest.raises(ValueError, match="cached latents are those of a backbone that stays"):
        fine_tune(net, views, trained="backbone", progress=None)
    with pytest.raises(ValueError, match="no views"):
        fine_tune(net, train, views=2, **TUNED)
    with pytest.raises(ValueError, match="cache latents with it"):
        fine_tune(net, views, teacher=model, **OPTIONS)


@pytest.mark.parametrize("wrong", ["all", "last:0", "last:x", "last", 3, None])
def test_what_is_trained_is_said_in_four_ways(make, train, wrong):
    with pytest.raises(ValueError, match="'classifier', 'coefficients', 'backbone' or 'last:N'"):
        fine_tune(make(), train, trained=wrong)


# --- backbones with their heads -----------------------------------------------------------------


def test_everything_is_trained_but_the_network_that_was_handed_over(make, model, train):
    net, uncut = make(), state(model)
    before = state(net)
    fine_tune(net, train, teacher=model, **TUNED)
    moved = changed(net, before)
    assert {f"backbone.{k}" for k, _ in net.backbone.named_parameters()} <= moved
    assert any(k.startswith("head.") for k in moved)
    assert any("running_mean" in k for k in moved if k.startswith("backbone."))
    assert changed(model, uncut) == set()
    # Afterwards it is frozen again.
    assert not any(p.requires_grad for p in net.backbone.parameters())
    assert not any(module.training for module in net.train().backbone.modules())


def test_others_behind_the_same_cut_do_not_change(model, train):
    latents = collect(model, train, "relu3", per_class=20, reuse=True, progress=None)
    net, other = (build(latents, head="pooled", progress=None)[0] for _ in range(2))
    before = state(other)
    fine_tune(net, train, **TUNED)
    assert changed(other, before) == set()


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
    fine_tune(net, train, **TUNED | {"trained": trained})
    moved = {k.split(".")[1] for k in changed(net, before) if k.startswith("backbone.")}
    assert {name for name in moved if name.startswith("conv")} == set(layers)
    norms = {name for name in moved if name.startswith(("bn", "norm"))}
    assert len(norms) == len(layers)  # the norm behind a layer is tuned with it


def test_the_backbone_has_a_rate_of_its_own_and_statistics_can_stay_where_they_are(make, train):
    moving, still = make(), make()
    before = state(still)
    fine_tune(moving, train, norms="frozen", **TUNED)
    moved = {k for k in changed(moving, before) if k.startswith("backbone.")}
    assert moved and not any("running" in k or "num_batches" in k for k in moved)
    fine_tune(still, train, backbone_rate=0.0, norms="frozen", **TUNED)
    assert not any(k.startswith("backbone.") for k in changed(still, before))
    once = TUNED | {"epochs": 1, "validation": 0.0, "batch_size": 300, "momentum": 0.0}
    steps = []
    for rate in (0.1, 0.2):
        net = make()
        fine_tune(net, train, backbone_rate=rate, backbone_decay=0.0, **once)
        weight = "backbone.conv1.weight"
        steps.append(net.state_dict()[weight] - before[weight])
    torch.testing.assert_close(2 * steps[0], steps[1], rtol=1e-3, atol=1e-7)


def test_a_tuned_network_is_saved_with_its_own_backbone(make, model, train, tmp_path):
    net = make()
    fine_tune(net, train, **TUNED)
    folded = net.folded()
    folded.save_pretrained(tmp_path)
    again = VINet.from_pretrained(tmp_path, backbone=copy.deepcopy(model))
    assert again.record.notes["tuned"] == "backbone"
    images = train.example(4)
    assert torch.equal(again(images), folded(images))
    torch.testing.assert_close(folded(images), net(images), rtol=1e-3, atol=1e-4)


def test_layers_that_share_weights_are_tuned_once(make):
    net = make()
    shared = nn.Conv2d(4, 4, 1)
    net.backbone = nn.Sequential(nn.Conv2d(1, 4, 1), shared, nn.ReLU(), shared)
    tuned = net.thaw(1)
    assert [tuple(p.shape) for p in tuned] == [(4, 4, 1, 1), (4,)]


# --- polynomials that vanish --------------------------------------------------------------------


def test_a_vanishing_loss_makes_products_vanish_on_their_class(model, train):
    shares = []
    for weight in (0.0, 1.0):
        options = {"head": "products", "parameters": 4_000, "progress": None}
        net, _ = build(model, train, "relu3", per_class=20, **options)
        fine_tune(net, train, vanish=weight, **OPTIONS | {"epochs": 4})
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


# --- whole networks, and layouts ----------------------------------------------------------------


def test_a_classifier_is_trained_from_scratch(train):
    model = scratch()
    before = model.bn1.running_mean.clone()
    history = train_classifier(model, train, epochs=4, batch_size=50, progress=None)
    assert losses(history)[-1] < 0.6 * losses(history)[0]
    assert not torch.equal(model.bn1.running_mean, before)
    assert history.recipe.schedule == "one-cycle" and history.recipe.epochs == 4


@pytest.mark.parametrize("standardize", [False, True])
def test_a_classifier_listens_to_its_teacher(opinionated, train, standardize):
    options = {"epochs": 6, "batch_size": 50, "progress": None, "standardize": standardize}
    before = state(opinionated)
    inputs = next(iter(train.batches(300)))[0]

    def says_seven(**more):
        net = scratch()
        train_classifier(net, train, **options | more)
        with torch.no_grad():
            return float((net(inputs).argmax(1) == 7).float().mean())

    assert says_seven(teacher=opinionated, distill=1.0) > 0.95 > 0.3 > says_seven()
    assert changed(opinionated, before) == set()


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_layouts_and_precisions_learn_alike(make, model, train, memory_format, whole):
    last = []
    for precision in ("float32", "bfloat16"):
        options = {"precision": precision, "memory_format": memory_format, "teacher": model}
        if whole:
            net = trained = scratch()
            options |= {"epochs": 2, "batch_size": 50, "progress": None}
            history = train_classifier(net, train, **options)
        else:
            net = make()
            history = fine_tune(net, train, **TUNED | options | {"epochs": 2})
            trained = net.backbone
        last.append(losses(history)[-1])
        weight = trained.get_parameter("conv2.weight")
        assert weight.is_contiguous() and weight.dtype == torch.float32
    assert last[0] == pytest.approx(last[1], rel=0.1) and last[0] != last[1]
    assert all(p.is_contiguous() for p in model.parameters())


def test_weights_lie_in_the_layout_that_was_asked_for(train):
    seen = []

    class Watching(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = scratch()

        def forward(self, x):
            seen.append(self.net.conv2.weight.is_contiguous(memory_format=torch.channels_last))
            return self.net(x)

    options = {"epochs": 1, "batch_size": 300, "progress": None}
    train_classifier(Watching(), train, memory_format="channels_last", **options)
    train_classifier(Watching(), train, **options)  # on the CPU
    assert seen[1::2] == [True, False]  # behind a look at an example
    with pytest.raises(ValueError, match=r"'memory_format' parameter of .* 'auto'"):
        train_classifier(Watching(), train, memory_format="rows", **options)


class Viewing(nn.Module):
    """A network that views its map as a vector, which only one layout allows."""

    def __init__(self, rows):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=8, padding=1)
        self.fc = nn.Linear(256, 2)
        self.rows = rows  # .view or .reshape
        self.seen = []

    def forward(self, x):
        z = self.conv(x).relu()
        self.seen.append((x.is_contiguous(), z.dtype == torch.bfloat16))
        return self.fc(getattr(z, self.rows)(len(x), -1))


@pytest.mark.parametrize("native", [True, False])
def test_large_images_lie_as_the_network_bears_them_in_the_precision_of_the_cpu(
    monkeypatch, native
):
    monkeypatch.setattr(tune, "cpu_multiplies_bfloat16", lambda: native)
    large = (torch.rand(32, 3, 64, 64), torch.arange(32) % 2)
    options = {"epochs": 1, "batch_size": 16, "precision": "auto", "progress": None}
    plain, fast = Viewing("view"), Viewing("reshape")
    history = train_classifier(plain, large, teacher=Viewing("reshape"), **options)
    assert plain.seen[-1] == (True, False) and history.recipe.precision == "auto"
    history = train_classifier(fast, large, **options)
    assert fast.seen[-1] == (False, native)
    assert history.recipe.precision == ("bfloat16" if native else "auto")
    # A teacher is as old as that, too; what is asked for outright is done.
    train_classifier(student := Viewing("reshape"), large, teacher=Viewing("view"), **options)
    assert student.seen[-1] == (True, False)
    with pytest.raises(RuntimeError, match="view size"):
        train_classifier(Viewing("view"), large, memory_format="channels_last", **options)


class Dense(nn.Module):
    """A network that labels every pixel."""

    def __init__(self):
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 10, 1)

    def forward(self, x):
        return self.out(self.conv(x).relu())


@pytest.mark.parametrize(
    ("network", "change", "message"),
    [
        (scratch, lambda x, y: (x, y + 1), r"has 10 outputs, and labels go up to 10\. Number"),
        (Dense, lambda x, y: (x, y), r"must classify: .* has the shape \(1, 10, 8, 8\)"),
        (scratch, lambda x, y: (x.repeat(1, 3, 1, 1), y), r"not take inputs of shape \(3, 8, 8\)"),
        (scratch, lambda x, y: (x.to(torch.uint8), y), r"not take inputs of shape \(1, 8, 8\): "),
    ],
)
def test_data_that_do_not_fit_are_refused_in_a_sentence(train, network, change, message):
    data, cut = change(*next(iter(train.batches(40)))), {scratch: "relu2", Dense: "conv"}[network]
    with pytest.raises(ValueError, match=message):
        train_classifier(network(), data, epochs=1, progress=None)
    with pytest.raises(ValueError, match=message):
        build(network(), data, cut, head="pooled", progress=None)


def test_a_compiled_network_is_cut_like_the_one_that_was_compiled(train):
    plain = scratch()
    compiled = torch.compile(plain, backend="eager")
    few = train.subset(torch.arange(60))
    assert cut_points(compiled, train.example()) == cut_points(plain, train.example())
    one, two = (build(m, few, "relu2", head="pooled", progress=None)[0] for m in (plain, compiled))
    inputs = few.example(5)
    assert torch.equal(one.latents(inputs), two.latents(inputs))
