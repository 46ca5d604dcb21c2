from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from vinets.algebra.storage import read_tensors, write_tensors
from vinets.data import ImageSource
from vinets.models import digits_cnn
from vinets.training import cache_latents, checkpoint, fine_tune, train_classifier
from vinets.training.checkpoint import Checkpoint, Pace, read_checkpoint, write_checkpoint
from vinets.training.history import Epoch

OPTIONS = {"epochs": 4, "batch_size": 64, "learning_rate": 0.05, "validation": 0.2}
STEPS = 3  # of an epoch: 240 examples in batches of 64


def timeless(history):
    """A history without what may differ: seconds, and who cached the latents."""
    epochs = tuple(replace(e, seconds=0.0) for e in history.epochs)
    return replace(history, epochs=epochs, recipe=replace(history.recipe, views=None))


def same(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    states = a.state_dict(), b.state_dict()
    return all(torch.equal(t, states[1][k]) for k, t in states[0].items())


@pytest.mark.parametrize("views", [None, 2])
@pytest.mark.parametrize("done", [1, 3])
def test_an_interrupted_training_ends_as_if_nothing_had_been(
    make, train, tmp_path, stop, interrupted, views, done
):
    whole, again = make(), make()
    history = fine_tune(whole, train, views=views, progress=None, **OPTIONS)
    data = train
    if views is not None:  # so that the interruption hits the training
        data = cache_latents(again, train, views=views, validation=0.2)
    steps = done * STEPS + 1
    with pytest.raises(interrupted):
        fine_tune(again, data, directory=tmp_path, progress=stop(steps), views=views, **OPTIONS)
    resumed = make()
    second = fine_tune(resumed, data, directory=tmp_path, progress=None, views=views, **OPTIONS)
    assert timeless(second) == timeless(history)
    assert same(resumed, whole)


def test_a_finished_training_is_not_repeated(make, train, tmp_path, stop):
    first, second = make(), make()
    history = fine_tune(first, train, directory=tmp_path, progress=None, **OPTIONS)
    done = stop(4 * STEPS)  # what was done is reported, and no step more
    assert fine_tune(second, train, directory=tmp_path, progress=done, **OPTIONS) == history
    assert same(first, second)


@pytest.mark.parametrize("taught", [False, True])
@pytest.mark.parametrize("memory_format", ["auto", "channels_last"])
def test_whole_networks_resume_too(
    model, train, tmp_path, stop, interrupted, taught, memory_format
):
    def begin():
        torch.manual_seed(0)
        return digits_cnn()

    options = {"epochs": 2, "batch_size": 64, "memory_format": memory_format}
    options["teacher"] = model if taught else None
    whole, cut_off, resumed = begin(), begin(), begin()
    train_classifier(whole, train, progress=None, **options)
    with pytest.raises(interrupted):
        train_classifier(cut_off, train, directory=tmp_path, progress=stop(5), **options)
    train_classifier(resumed, train, directory=tmp_path, progress=None, **options)
    assert same(resumed, whole)


@pytest.mark.parametrize(
    ("other", "name"), [({"seed": 5}, "seed"), ({"epochs": 9}, "epochs"), ({"clip": 1.0}, "clip")]
)
def test_a_checkpoint_of_another_training_is_refused(make, train, tmp_path, other, name):
    options = OPTIONS | {"epochs": 1}
    fine_tune(make(), train, directory=tmp_path, progress=None, **options)
    with pytest.raises(ValueError, match=rf"another training: .*{name} differ.*another directory"):
        fine_tune(make(), train, directory=tmp_path, progress=None, **(options | other))


def test_a_checkpoint_of_another_network_is_refused(make, train, tmp_path):
    options = OPTIONS | {"epochs": 1}
    fine_tune(make(), train, directory=tmp_path, progress=None, **options)
    path = tmp_path / "checkpoint.safetensors"
    tensors, facts = read_tensors(path, "checkpoint")
    tensors["now.linear.weight"] = tensors["now.linear.weight"].T
    write_tensors(path, "checkpoint", tensors, facts)
    with pytest.raises(ValueError, match="belongs to another network"):
        fine_tune(make(), train, directory=tmp_path, progress=None, **options)


@pytest.mark.parametrize("damage", ["foreign", "cut", "epochs", "best"])
def test_damaged_checkpoints_are_refused_in_one_sentence(make, train, tmp_path, damage):
    options = OPTIONS | {"epochs": 1}
    fine_tune(make(), train, directory=tmp_path, progress=None, **options)
    path = tmp_path / "checkpoint.safetensors"
    tensors, facts = read_tensors(path, "checkpoint")
    if damage == "foreign":
        write_tensors(path, "polynomials", tensors, facts)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        write_tensors(path, "checkpoint", tensors, facts | {damage: ["nonsense"]})
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        fine_tune(make(), train, directory=tmp_path, progress=None, **options)


def test_nothing_but_the_checkpoint_is_left(make, train, tmp_path):
    fine_tune(make(), train, directory=tmp_path / "new", progress=None, **OPTIONS | {"epochs": 1})
    left = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert left == [".lock", "checkpoint.safetensors"]  # the empty file is that of the lock


def last_changed(source):
    """The same data but for one pixel of the last image."""
    images = source.images.clone()
    images[-1, 0, 4, 4] ^= 1
    parts = source.classes, source.preprocessing, source.augmentation
    return ImageSource(images, source.labels, *parts)


@pytest.mark.parametrize("views", [None, 1])
def test_a_checkpoint_does_not_go_on_with_repaired_data(make, train, tmp_path, views):
    options = OPTIONS | {"epochs": 1, "views": views}
    fine_tune(make(), train, directory=tmp_path, progress=None, **options)
    with pytest.raises(ValueError, match="another training: data differ"):
        fine_tune(make(), last_changed(train), directory=tmp_path, progress=None, **options)


def test_a_whole_training_does_not_go_on_with_repaired_data(train, tmp_path):
    options = {"epochs": 1, "batch_size": 64, "directory": tmp_path, "progress": None}
    train_classifier(digits_cnn(), train, **options)
    with pytest.raises(ValueError, match="another training: data differ"):
        train_classifier(digits_cnn(), last_changed(train), **options)


@pytest.mark.parametrize("views", [None, 1])
def test_a_checkpoint_knows_the_frozen_networks(make, model, train, tmp_path, views):
    options = OPTIONS | {"epochs": 1, "views": views, "directory": tmp_path, "progress": None}
    fine_tune(make(), train, teacher=model, **options)
    other, teacher = make(), copy.deepcopy(model)
    next(other.backbone.parameters()).data.view(-1)[-1] += 1e-3
    with pytest.raises(ValueError, match="another training: backbone differ"):
        fine_tune(other, train, teacher=model, **options)
    teacher.fc.bias.data[0] += 1e-3
    with pytest.raises(ValueError, match="another training: teacher differ"):
        fine_tune(make(), train, teacher=teacher, **options)


def test_a_checkpoint_knows_the_backbone_that_is_tuned_with_the_head(make, train, tmp_path):
    options = OPTIONS | {
        "epochs": 1,
        "trained": "backbone",
        "directory": tmp_path,
        "progress": None,
    }
    fine_tune(make(), train, **options)
    fine_tune(make(), train, **options)
    other = make()
    next(other.backbone.parameters()).data.view(-1)[-1] += 1e-3
    with pytest.raises(ValueError, match="another training: backbone differ"):
        fine_tune(other, train, **options)


@pytest.mark.parametrize("damage", ["best", "momentum", "run", "epoch"])
def test_a_checkpoint_that_lacks_a_part_is_refused_and_changes_nothing(
    make, train, tmp_path, damage
):
    options = OPTIONS | {"epochs": 1}
    fine_tune(make(), train, directory=tmp_path, progress=None, **options)
    path = tmp_path / "checkpoint.safetensors"
    tensors, facts = read_tensors(path, "checkpoint")
    if damage == "best":
        tensors = {k: t for k, t in tensors.items() if not k.startswith("best.")}
    elif damage == "momentum":
        tensors["momentum.0"] = torch.zeros(1, 2, 3)
    elif damage == "run":
        facts["run"] = "x"
    else:
        facts["epochs"][0]["loss"] = "x"
    write_tensors(path, "checkpoint", tensors, facts)
    net = make()
    before = {k: t.clone() for k, t in net.state_dict().items()}
    with pytest.raises(ValueError, match="is damaged"):
        fine_tune(net, train, directory=tmp_path, progress=None, **options)
    assert all(torch.equal(before[k], t) for k, t in net.state_dict().items())


def test_momentum_lies_in_memory_as_its_parameter_does(tmp_path):
    """Fused steps of a GPU refuse any other layout."""

    def begin():
        conv = torch.nn.Conv2d(8, 8, 3).to(memory_format=torch.channels_last)
        return conv, torch.optim.SGD(conv.parameters(), 0.1, momentum=0.9)

    conv, optimizer = begin()
    conv(torch.ones(1, 8, 4, 4)).sum().backward()
    optimizer.step()
    epoch = Epoch(1, 1.0, 0.5, None, None, 1.0)
    write_checkpoint(tmp_path, Checkpoint([epoch], 1, conv.state_dict()), conv, optimizer, {})
    other, again = begin()
    read_checkpoint(tmp_path, other, again, {})
    for p, q in zip(conv.parameters(), other.parameters(), strict=True):
        kept, read = optimizer.state[p]["momentum_buffer"], again.state[q]["momentum_buffer"]
        assert torch.equal(kept, read) and read.stride() == q.stride()


def test_checkpoints_take_a_tenth_of_the_time_at_most(monkeypatch):
    now = 0.0
    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: now)
    pace, written = Pace(), []
    for epoch in range(1, 31):
        now += 1.0  # the epoch
        if pace.due(last=epoch == 30):
            written.append(epoch)
            with pace.writing():
                now += 0.5
    assert written == [1, 6, 11, 16, 21, 26, 30]


def test_quick_checkpoints_are_written_after_every_epoch(monkeypatch):
    now = 0.0
    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: now)
    pace = Pace()
    for _ in range(5):
        assert pace.due(last=False)
        with pace.writing():
            now += 0.1


def test_a_training_goes_on_from_the_last_checkpoint_that_was_written(
    make, train, tmp_path, stop, interrupted, monkeypatch
):
    """With a disk so slow that the second epoch is left out."""
    monkeypatch.setattr(checkpoint, "MOMENT", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 1e-9)
    whole, cut_off, resumed = make(), make(), make()
    history = fine_tune(whole, train, progress=None, **OPTIONS)
    with pytest.raises(interrupted):
        fine_tune(cut_off, train, directory=tmp_path, progress=stop(2 * STEPS + 1), **OPTIONS)
    _, told = read_tensors(tmp_path / "checkpoint.safetensors", "checkpoint")
    assert [epoch["epoch"] for epoch in told["epochs"]] == [1]
    second = fine_tune(resumed, train, directory=tmp_path, progress=None, **OPTIONS)
    assert timeless(second) == timeless(history)
    assert same(resumed, whole)
