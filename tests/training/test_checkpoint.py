"""Histories and checkpoints: a training goes on as if nothing had been, or is refused."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
import torch

from vinets.core.plain import as_plain, from_plain
from vinets.core.settings import BACKBONE
from vinets.core.tensors import read_tensors, write_tensors
from vinets.data import ImageSource
from vinets.models import digits_cnn
from vinets.testing.sources import assert_same
from vinets.training import cache_latents, epochs, fine_tune, train_classifier
from vinets.training.epochs import Checkpoint, Epoch, History, read_checkpoint, write_checkpoint

OPTIONS = {"epochs": 4, "batch_size": 64, "learning_rate": 0.05, "validation": 0.2}
SHORT = OPTIONS | {"epochs": 1, "progress": None}
STEPS = 3  # of an epoch: 240 examples in batches of 64


def timeless(history):
    """Return a history without what may differ: seconds, and who cached the latents."""
    epochs = tuple(replace(e, seconds=0.0) for e in history.epochs)
    return replace(history, epochs=epochs, recipe=replace(history.recipe, views=None))


def nudge(tensor: torch.Tensor) -> None:
    """Change the last number a little."""
    tensor.data.view(-1)[-1] += 1e-3


def test_a_history_survives_json():
    epochs = (Epoch(1, 2.0, 0.5, None, None, 1.5), Epoch(2, 1.0, 0.6, 1.1, 0.4, 0.5))
    history = History(epochs, 2, BACKBONE)
    assert from_plain(History, json.loads(json.dumps(as_plain(history)))) == history
    assert history.seconds == 2.0 and history.kept == epochs[1]


# --- trainings that go on -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "done", "slow"),
    [
        ({}, 1, False),
        ({}, 3, False),
        ({}, 2, True),  # the disk is so slow that the second epoch is left out
        ({"views": 2}, 1, False),
        ({"views": 2}, 3, False),
        ({"trained": "backbone"}, 2, False),
    ],
)
def test_an_interrupted_training_ends_as_if_nothing_had_been(
    make, model, train, tmp_path, stop, interrupted, monkeypatch, options, done, slow
):
    if slow:
        monkeypatch.setattr(epochs, "MAX_WRITE_SECONDS", 0.0)
        monkeypatch.setattr(epochs, "MAX_SHARE", 1e-9)
    whole, again, resumed = make(), make(), make()
    teacher = {"teacher": model} if "trained" in options else {}
    options = OPTIONS | options
    history = fine_tune(whole, train, progress=None, **options, **teacher)
    data = train
    if "views" in options:  # so that the interruption hits the training
        data = cache_latents(again, train, views=2, validation=0.2)
    options |= {"directory": tmp_path, **teacher}
    with pytest.raises(interrupted):
        fine_tune(again, data, progress=stop(done * STEPS + 1), **options)
    _, facts = read_tensors(tmp_path / "checkpoint.safetensors", "checkpoint")
    assert [one["epoch"] for one in facts["epochs"]] == ([1] if slow else [*range(1, done + 1)])
    second = fine_tune(resumed, data, progress=None, **options)
    assert timeless(second) == timeless(history)
    assert_same(resumed.state_dict(), whole.state_dict())


def test_a_finished_training_is_not_repeated_and_leaves_nothing_but_the_checkpoint(
    make, train, tmp_path, stop
):
    first, second, folder = make(), make(), tmp_path / "new"
    history = fine_tune(first, train, directory=folder, progress=None, **OPTIONS)
    done = stop(4 * STEPS)  # what was done is reported, and no step more
    assert fine_tune(second, train, directory=folder, progress=done, **OPTIONS) == history
    assert_same(first.state_dict(), second.state_dict())
    left = sorted(p.name for p in folder.iterdir())
    assert left == [".lock", "checkpoint.safetensors"]  # the empty file is that of the lock


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
    assert_same(resumed.state_dict(), whole.state_dict())


# --- checkpoints that are refused ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"), [("seed", 5), ("epochs", 9), ("clip", 1.0), ("trained", "backbone")]
)
def test_a_checkpoint_of_another_training_is_refused(make, train, tmp_path, name, value):
    fine_tune(make(), train, directory=tmp_path, **SHORT)
    with pytest.raises(ValueError, match=rf"another training: .*{name}.* differ.*another dir"):
        fine_tune(make(), train, directory=tmp_path, **(SHORT | {name: value}))


DAMAGED = ("epochs", "best", "run", "loss", "no best weights", "momentum")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("foreign", r"^[^\n]+\.$"),
        ("cut", r"^[^\n]+\.$"),
        *((part, "is damaged") for part in DAMAGED),
        ("network", "belongs to another network"),
    ],
)
def test_a_damaged_checkpoint_is_refused_in_one_sentence_and_changes_nothing(
    make, train, tmp_path, damage, message
):
    fine_tune(make(), train, directory=tmp_path, **SHORT)
    path = tmp_path / "checkpoint.safetensors"
    tensors, facts = read_tensors(path, "checkpoint")
    if damage == "no best weights":
        tensors = {k: t for k, t in tensors.items() if not k.startswith("best.")}
    elif damage == "momentum":
        tensors["momentum.0"] = torch.zeros(1, 2, 3)
    elif damage == "network":
        tensors["now.linear.weight"] = tensors["now.linear.weight"].T
    elif damage == "loss":
        facts["epochs"][0]["loss"] = "x"
    elif damage in facts:
        facts[damage] = "x" if damage == "run" else ["nonsense"]
    write_tensors(path, "polynomials" if damage == "foreign" else "checkpoint", tensors, facts)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    net, before = make(), make()
    with pytest.raises(ValueError, match=message) as caught:
        fine_tune(net, train, directory=tmp_path, **SHORT)
    assert "\n" not in str(caught.value)
    assert_same(net.state_dict(), before.state_dict())


@pytest.mark.parametrize("views", [None, 1, "whole"])
def test_a_checkpoint_does_not_go_on_with_repaired_data(make, train, tmp_path, views):
    images = train.images.clone()
    images[-1, 0, 4, 4] ^= 1  # a pixel of the last image
    repaired = ImageSource(
        images, train.labels, train.classes, train.preprocessing, train.augmentation
    )

    def training(data):
        if views == "whole":
            options = {"epochs": 1, "batch_size": 64, "progress": None}
            return train_classifier(digits_cnn(), data, directory=tmp_path, **options)
        return fine_tune(make(), data, directory=tmp_path, views=views, **SHORT)

    training(train)
    with pytest.raises(ValueError, match="another training: data differ"):
        training(repaired)


@pytest.mark.parametrize("options", [{}, {"views": 1}, {"trained": "backbone"}])
def test_a_checkpoint_knows_the_backbone_and_the_teacher(make, model, train, tmp_path, options):
    options = SHORT | options | {"directory": tmp_path}
    fine_tune(make(), train, teacher=model, **options)
    fine_tune(make(), train, teacher=model, **options)
    other, teacher = make(), copy.deepcopy(model)
    nudge(next(other.backbone.parameters()))
    with pytest.raises(ValueError, match="another training: backbone differ"):
        fine_tune(other, train, teacher=model, **options)
    nudge(teacher.fc.bias)
    with pytest.raises(ValueError, match="another training: teacher differ"):
        fine_tune(make(), train, teacher=teacher, **options)


# --- what is written, and when ------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.5, [1, 6, 11, 16, 21, 26, 30]), (0.1, [*range(1, 31)])]
)
def test_slow_checkpoints_take_a_tenth_of_the_time_and_quick_ones_follow_every_epoch(
    make, train, tmp_path, monkeypatch, seconds, expected
):
    now, written = 0.0, []

    def train_epoch(step, advance, feed, number, watch):
        nonlocal now
        now += 1.0
        return Epoch(number, 1.0, 0.5, None, None, 1.0)

    def write(folder, state, *_):
        nonlocal now
        now += seconds
        written.append(len(state.epochs))

    monkeypatch.setattr(epochs.time, "perf_counter", lambda: now)
    monkeypatch.setattr(epochs, "_epoch", train_epoch)
    monkeypatch.setattr(epochs, "write_checkpoint", write)
    fine_tune(make(), train, directory=tmp_path, **SHORT | {"epochs": 30})
    assert written == expected
