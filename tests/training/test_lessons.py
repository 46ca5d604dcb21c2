"""A teacher that is asked once."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from vinets.training import Lessons, fine_tune

OPTIONS = {
    "epochs": 2,
    "batch_size": 64,
    "validation": 0.2,
    "trained": "backbone",
    "progress": None,
}


class Counted(torch.nn.Module):
    """A teacher that counts the images it is asked about."""

    def __init__(self, model):
        super().__init__()
        self.model, self.asked = model, 0

    def forward(self, x):
        self.asked += len(x)
        return self.model(x)


def state(module):
    return {k: t.clone() for k, t in module.state_dict().items()}


def same(a, b):
    return all(torch.equal(t, b[k]) for k, t in a.items())


@pytest.mark.parametrize("shared", [False, True])
def test_a_second_training_does_not_ask_and_ends_as_if_it_had(make, model, train, tmp_path, shared):
    teacher = Counted(model)
    lessons = Lessons(teacher, tmp_path if shared else None)
    first, second, alone = make(), make(), make()
    fine_tune(first, train, teacher=lessons, **OPTIONS)
    asked = teacher.asked
    assert asked == 2 * 192  # three full batches of 240 examples, two epochs
    again = Lessons(teacher, tmp_path) if shared else lessons  # of another process, perhaps
    fine_tune(second, train, teacher=again, **OPTIONS)
    assert teacher.asked == asked
    fine_tune(alone, train, teacher=Lessons(model), **OPTIONS)
    assert same(state(second), state(first)) and same(state(alone), state(first))


def test_other_steps_have_other_answers(make, model, train):
    teacher = Counted(model)
    lessons = Lessons(teacher)
    for changes in ({}, {"seed": 1}, {"batch_size": 32}, {"augment": False}):
        before = teacher.asked
        fine_tune(make(), train, teacher=lessons, **(OPTIONS | changes))
        assert teacher.asked > before, changes


def test_they_are_close_to_the_teacher_itself(make, model, train):
    losses = [
        fine_tune(make(), train, teacher=teacher, **OPTIONS).epochs[-1].loss
        for teacher in (model, Lessons(model))
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_what_is_too_large_is_asked_again(make, model, train):
    teacher = Counted(model)
    lessons = Lessons(teacher, limit=1_000)
    fine_tune(make(), train, teacher=lessons, **OPTIONS)
    asked = teacher.asked
    fine_tune(make(), train, teacher=lessons, **OPTIONS)
    assert teacher.asked == 2 * asked


def test_processes_wait_for_the_one_that_asks(tmp_path):
    answers, asked = torch.rand(4, 3), []

    def ask():
        asked.append(1)
        time.sleep(0.3)
        return answers

    found = []

    def learn():
        found.append(Lessons(torch.nn.Identity(), tmp_path).answers("key", ask, 1))

    threads = [threading.Thread(target=learn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(asked) == 1
    assert all(torch.equal(each, answers.half()) for each in found)
    assert [p.suffix for p in tmp_path.iterdir()] == [".safetensors"]


def test_whoever_fails_lets_the_next_one_try(tmp_path):
    lessons = Lessons(torch.nn.Identity(), tmp_path)
    with pytest.raises(RuntimeError):
        lessons.answers("key", lambda: torch.linalg.inv(torch.zeros(2, 2)), 1)
    assert torch.equal(lessons.answers("key", lambda: torch.ones(1, 1), 1), torch.ones(1, 1).half())


def test_answers_of_other_trainings_make_room():
    lessons = Lessons(torch.nn.Identity(), limit=100)
    asked = []

    def ask():
        asked.append(1)
        return torch.zeros(10, 2)  # 40 bytes in half precision

    for key in ("a", "b", "a", "c", "a"):
        lessons.answers(key, ask, epochs=2)
    assert len(asked) == 4  # the second "a" was kept, the third gave way to "c"
