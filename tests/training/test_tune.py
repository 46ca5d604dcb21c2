from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from vinets.core.settings import TrainingOptions
from vinets.models import digits_cnn
from vinets.training import LatentViews, cache_latents, fine_tune, train_classifier, tune

OPTIONS = {"epochs": 3, "batch_size": 64, "validation": 0.2, "progress": None}


def losses(history) -> list[float]:
    return [epoch.loss for epoch in history.epochs]


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


def test_cached_latents_train_like_live_ones(make, train):
    live, cached = make(), make()
    options = OPTIONS | {"augment": False}
    first = fine_tune(live, train, **options)
    second = fine_tune(cached, train, views=3, **options)
    assert losses(second) == pytest.approx(losses(first), rel=1e-3)
    torch.testing.assert_close(
        live.head.linear.weight, cached.head.linear.weight, atol=1e-3, rtol=1e-3
    )


def test_one_cache_serves_several_heads(make, train):
    cache = cache_latents(make(), train, views=2, validation=0.2)
    direct, from_cache = make(), make()
    first = fine_tune(direct, train, views=2, **OPTIONS)
    assert losses(fine_tune(from_cache, cache, **OPTIONS)) == losses(first)


def test_without_room_for_variables_training_is_the_same(make, train, monkeypatch):
    roomy, narrow = make(), make()
    first = fine_tune(roomy, train, views=2, **OPTIONS)
    seen = []
    monkeypatch.setattr(tune, "ROOM", 0)
    monkeypatch.setattr(LatentViews, "through", lambda *_: seen.append(1))
    second = fine_tune(narrow, train, views=2, **OPTIONS)
    assert not seen and losses(second) == pytest.approx(losses(first), rel=1e-3)


@pytest.mark.parametrize("views", [None, 2])
def test_a_teacher_is_listened_to(make, model, train, views):
    """The teacher knows nothing but one answer; those who listen give it, too."""
    with torch.no_grad():
        teacher = copy.deepcopy(model)
        teacher.fc.bias[7] += 5
    inputs = next(iter(train.batches(300)))[0]

    def gap(net):
        with torch.no_grad():
            logs, aim = F.log_softmax(net(inputs), 1), F.softmax(teacher(inputs), 1)
        return float(F.kl_div(logs, aim, reduction="batchmean"))

    alone, taught = make(), make()
    options = OPTIONS | {"epochs": 6, "learning_rate": 0.2, "views": views}
    fine_tune(alone, train, **options)
    fine_tune(taught, train, teacher=teacher, distill=1.0, **options)
    assert gap(taught) < 0.2 * gap(alone)


@pytest.mark.parametrize("given", [{}, {"recipe": TrainingOptions()}])
def test_a_teacher_brings_its_weight_along(make, model, train, given):
    given = given | OPTIONS | {"epochs": 1}
    assert fine_tune(make(), train, **given).recipe.distill == 0.0
    assert fine_tune(make(), train, teacher=model, **given).recipe.distill == 0.7
    assert fine_tune(make(), train, teacher=model, distill=0.0, **given).recipe.distill == 0.0


def test_distillation_without_a_teacher_is_refused(make, model, train):
    with pytest.raises(ValueError, match=r"distill=0\.5 needs logits.*pass teacher="):
        fine_tune(make(), train, distill=0.5, **OPTIONS)
    cache = cache_latents(make(), train, views=1)
    with pytest.raises(ValueError, match="cache latents with it"):
        fine_tune(make(), cache, teacher=model, **OPTIONS)


def test_single_numbers_change_the_recipe(make, train):
    history = fine_tune(make(), train, recipe=TrainingOptions(epochs=9, clip=1.0), **OPTIONS)
    assert history.recipe.epochs == 3 and history.recipe.clip == 1.0
    assert fine_tune(make(), train, views=1, **OPTIONS).recipe.epochs == 3
    with pytest.raises(TypeError, match=r"has no option 'epoch'\. Did you mean 'epochs'"):
        fine_tune(make(), train, epoch=3)
    with pytest.raises(ValueError, match="'momentum' parameter of fine_tune must be a number"):
        fine_tune(make(), train, momentum=1)


def test_a_classifier_is_trained_from_scratch(train):
    torch.manual_seed(0)
    model = digits_cnn()
    before = model.bn1.running_mean.clone()
    history = train_classifier(model, train, epochs=4, batch_size=50, progress=None)
    assert losses(history)[-1] < 0.6 * losses(history)[0]
    assert not torch.equal(model.bn1.running_mean, before)
    assert history.recipe.schedule == "one-cycle" and history.recipe.epochs == 4


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


@pytest.mark.parametrize("standardize", [False, True])
def test_a_classifier_listens_to_its_teacher(opinionated, train, standardize):
    options = {"epochs": 6, "batch_size": 50, "progress": None, "standardize": standardize}
    before = copy.deepcopy(opinionated.state_dict())
    inputs = next(iter(train.batches(300)))[0]

    def says_seven(**more):
        net = scratch()
        train_classifier(net, train, **options | more)
        with torch.no_grad():
            return float((net(inputs).argmax(1) == 7).float().mean())

    assert says_seven(teacher=opinionated, distill=1.0) > 0.95 > 0.3 > says_seven()
    assert all(torch.equal(t, before[k]) for k, t in opinionated.state_dict().items())


def test_a_teacher_brings_its_weight_along_to_a_classifier(model, train):
    options = {"epochs": 1, "batch_size": 50, "progress": None}
    assert train_classifier(scratch(), train, **options).recipe.distill == 0.0
    assert train_classifier(scratch(), train, teacher=model, **options).recipe.distill == 0.7
    with pytest.raises(ValueError, match=r"distill=0\.5 needs logits.*pass teacher="):
        train_classifier(scratch(), train, distill=0.5, **options)


@pytest.mark.parametrize("memory_format", ["contiguous", "channels_last"])
def test_classifiers_learn_alike_in_every_layout_and_precision(model, train, memory_format):
    found = []
    for precision in ("float32", "bfloat16"):
        net = scratch()
        history = train_classifier(
            net,
            train,
            teacher=model,
            memory_format=memory_format,
            precision=precision,
            epochs=2,
            batch_size=50,
            progress=None,
        )
        found.append(losses(history)[-1])
        assert net.conv2.weight.is_contiguous() and net.conv2.weight.dtype == torch.float32
    assert found[0] == pytest.approx(found[1], rel=0.1) and found[0] != found[1]
    assert all(p.is_contiguous() for p in model.parameters())


def test_weights_lie_in_the_layout_that_was_asked_for(train):
    seen = []

    class Watching(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = scratch()

        def forward(self, x):
            seen.append(self.net.conv2.weight.is_contiguous(memory_format=torch.channels_last))
            return self.net(x)

    options = {"epochs": 1, "batch_size": 300, "progress": None}
    train_classifier(Watching(), train, memory_format="channels_last", **options)
    train_classifier(Watching(), train, **options)  # on the CPU
    assert seen == [True, False]
    with pytest.raises(ValueError, match=r"'memory_format' parameter of .* 'auto'"):
        train_classifier(Watching(), train, memory_format="rows", **options)
