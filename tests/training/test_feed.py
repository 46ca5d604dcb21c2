"""What trainings are fed with, and teachers that are asked once."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
import torch

from vinets.core.settings import TrainingOptions
from vinets.training import Lessons, cache_latents, fine_tune
from vinets.training.feed import InputFeed, ViewFeed, generator_of

RECIPE = TrainingOptions(validation=0.2, seed=3)


def everything(steps):
    return [(inputs, labels) for inputs, labels, _ in steps]


def test_the_same_epoch_gives_the_same_batches_and_another_one_others(train):
    feed = InputFeed(train, RECIPE, device="cpu")
    first, again, other = (everything(feed.epoch(n, 64)) for n in (1, 1, 2))
    torch.testing.assert_close(again, first, rtol=0, atol=0)
    assert not torch.equal(first[0][0], other[0][0])


def test_an_epoch_is_full_batches_and_the_held_out_part_is_never_in_it():
    data = torch.arange(50.0)[:, None], torch.arange(50) % 2
    feed = InputFeed(data, RECIPE, device="cpu")
    seen = torch.cat([x for x, _ in everything(feed.epoch(1, 16))])[:, 0]
    assert feed.steps(16) == 2 and len(seen) == len(seen.unique()) == 32
    held = torch.cat([x for x, _ in everything(feed.held_out(16))])[:, 0]
    assert len(held) == 10 and not set(held.tolist()) & set(seen.tolist())
    assert feed.steps(10**6) == 1  # all of them in one
    whole = InputFeed(data, replace(RECIPE, validation=0.0), device="cpu")
    assert everything(whole.held_out(16)) == [] and len(whole.train) == 50


def test_cached_latents_are_the_live_ones(make, train):
    """Without augmentation; with it, the views differ."""
    net = make()
    live = InputFeed(train, replace(RECIPE, augment=False), device="cpu", network=net)
    cache = cache_latents(net, train, augment=False, validation=0.2, seed=3)
    assert len(cache.views) == 1
    cached = ViewFeed(cache, seed=3)
    assert cached.steps(64) == live.steps(64)
    ours, theirs = (
        [everything(steps) for steps in (feed.epoch(1, 64), feed.epoch(2, 64), feed.held_out(64))]
        for feed in (cached, live)
    )
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_views_are_augmented_and_taken_in_turn(make, train):
    cache = cache_latents(make(), train, views=2, seed=3)
    assert not torch.equal(*cache.views)
    feed = ViewFeed(cache, seed=3)
    for number, view in ((1, 0), (2, 1), (3, 0)):
        latents, _, _ = next(feed.epoch(number, 8))
        rows = cache.views[view].flatten(1)
        assert all((rows == row).all(1).any() for row in latents.flatten(1))


def test_lessons_are_the_teachers_logits(make, model, train):
    cache = cache_latents(make(), train, augment=False, validation=0.0, teacher=model)
    inputs = next(iter(train.batches(300)))[0]
    with torch.no_grad():
        torch.testing.assert_close(cache.teacher_logits[0], model(inputs), atol=1e-5, rtol=1e-5)
    assert len(cache.held_labels) == 0


def test_half_precision_takes_half_the_memory(make, train):
    full, half = (cache_latents(make(), train, views=1, dtype=f"float{n}") for n in (32, 16))
    assert half.nbytes * 2 == full.nbytes
    torch.testing.assert_close(half.views[0].float(), full.views[0], atol=1e-2, rtol=1e-2)
    assert next(ViewFeed(half, seed=0).epoch(1, 8))[0].dtype == torch.float32


def test_too_many_views_are_refused_before_they_are_made(make, train):
    with pytest.raises(ValueError, match=r"3 views .* take .* more than memory_limit=1\.0 KiB"):
        cache_latents(make(), train, memory_limit=1024)
    with pytest.raises(ValueError, match=r"'views' parameter of cache_latents.*Got 0"):
        cache_latents(make(), train, views=0)


def test_generators_differ_in_every_argument():
    keys = [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1)]
    draws = {int(torch.randint(2**62, (1,), generator=generator_of(*key))) for key in keys}
    assert len(draws) == len(keys)


# --- teachers -----------------------------------------------------------------------------------


class Counted(torch.nn.Module):
    """A teacher that counts the images it is asked about."""

    def __init__(self, model):
        super().__init__()
        self.model, self.asked = model, 0

    def forward(self, x):
        self.asked += len(x)
        return self.model(x)


@pytest.fixture
def tuned(make, train):
    """A function that trains a network with a teacher, and returns it with its last loss."""

    def tune(teacher, **changes):
        net = make()
        options = {"epochs": 2, "batch_size": 64, "validation": 0.2, "trained": "backbone"}
        history = fine_tune(net, train, teacher=teacher, progress=None, **options | changes)
        return net, history.epochs[-1].loss

    return tune


@pytest.mark.parametrize("shared", [False, True])
def test_a_second_training_does_not_ask_and_ends_as_if_it_had(tuned, model, tmp_path, shared):
    teacher = Counted(model)
    lessons = Lessons(teacher, tmp_path if shared else None)
    first, loss = tuned(lessons)
    assert teacher.asked == 2 * 192  # three full batches of 240 examples, two epochs
    again = Lessons(teacher, tmp_path) if shared else lessons  # of another process, perhaps
    second, alone = tuned(again)[0], tuned(Lessons(model))[0]
    assert teacher.asked == 2 * 192
    for net in (second, alone):
        torch.testing.assert_close(net.state_dict(), first.state_dict(), rtol=0, atol=0)
    assert loss == pytest.approx(tuned(model)[1], rel=1e-3)  # close to the teacher itself


def test_other_steps_and_what_is_too_large_are_asked_again(tuned, model):
    teacher = Counted(model)
    lessons, small = Lessons(teacher), Lessons(teacher, limit=1_000)
    for changes in ({}, {"seed": 1}, {"batch_size": 32}, {"augment": False}):
        before = teacher.asked
        tuned(lessons, **changes)
        assert teacher.asked > before, changes
    for _ in range(2):
        before = teacher.asked
        tuned(small)
        assert teacher.asked == before + 2 * 192


def test_processes_wait_for_the_one_that_asks(tmp_path):
    answers, asked, received = torch.rand(4, 3), [], []

    def ask():
        asked.append(1)
        time.sleep(0.3)
        return answers

    def learn():
        received.append(Lessons(torch.nn.Identity(), tmp_path).answers("key", ask, 1))

    threads = [threading.Thread(target=learn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == 1
    assert all(torch.equal(each, answers.half()) for each in received)
    assert len([*tmp_path.rglob("*.safetensors")]) == 1


def test_answers_of_other_trainings_make_room():
    lessons, asked = Lessons(torch.nn.Identity(), limit=100), []

    def ask():
        asked.append(1)
        return torch.zeros(10, 2)  # 40 bytes in half precision

    for key in ("a", "b", "a", "c", "a"):
        lessons.answers(key, ask, epochs=2)
    assert len(asked) == 4  # the second "a" was kept, the third gave way to "c"
