"""Trials give the same whether they run together, alone, or after an interruption."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch

from vinets import VINet
from vinets.core.executors import open_executor
from vinets.data import DataSplit, digits
from vinets.heads import ProductsOptions
from vinets.models import save_weights
from vinets.runs.compare import head_trials, speed_trial
from vinets.runs.setup import Setup, SetupFiles
from vinets.runs.store import Store, run_trials
from vinets.runs.trial import Trial
from vinets.training import train_classifier
from vinets.training.epochs import DivergedError

WHOLE = digits()
DATA = DataSplit("digits", WHOLE.train.subset(torch.arange(500)), WHOLE.test)
SMALL = Trial(network="net", cut="relu3").change(
    **{"components": 8, "order": "pca-tanh", "keep": 4, "monomials": 32, "per_class": 20},
    **{"epochs": 2, "batch_size": 64, "repeats": 1, "seconds": 0},
)


@pytest.fixture(scope="module")
def trained(model):
    model = copy.deepcopy(model)  # that of the session stays as it is
    train_classifier(model, WHOLE.train, epochs=1, batch_size=64, progress=None)
    return model


@pytest.fixture
def setups(trained):
    return {"net": Setup("net", trained, DATA, torch.device("cpu"))}


def timeless(result):
    """A training without what a clock says."""
    training = result.trained
    build = None if training.build is None else replace(training.build, seconds={}, pictures=None)
    losses = [e.loss for e in training.history.epochs] if training.history else None
    return replace(training, seconds=0.0, history=None, build=build), losses


def run(trials, setups, folder, jobs=1):
    store = Store(folder)
    with open_executor(jobs) as executor:
        run_trials(trials, setups, store, executor=executor, progress=None)
    return store


@pytest.mark.parametrize("caching", [{}, {"views": 2}, {"views": 2, "projected": True}])
def test_a_trial_alone_gives_what_it_gives_among_others(setups, tmp_path, caching):
    heads = head_trials(SMALL.change(**caching), baselines=True)
    together = run(heads.values(), setups, tmp_path / "together")
    for name in ("VI-Net", "MLP", "random monomials"):
        alone = run([heads[name]], setups, tmp_path / name)
        assert timeless(alone.read(heads[name])) == timeless(together.read(heads[name]))


def test_what_a_frozen_projection_makes_may_be_kept(setups, tmp_path):
    """The same training up to rounding, whether variables are computed once or in every step."""
    plain = SMALL.change(views=1, augment=False, validation=0.0)
    once = plain.change(projected=True)
    store = run([plain, once], setups, tmp_path)
    one, other = (store.read(trial).trained for trial in (plain, once))
    assert one.loss == pytest.approx(other.loss, rel=1e-3)
    assert one.parts == other.parts and abs(one.accuracy - other.accuracy) < 0.02


PRODUCTS = replace(SMALL, head="products", options=ProductsOptions(parameters=2000)).change(
    trained="backbone", epochs=1
)


def test_a_tuned_network_is_tested_on_inputs_and_baselines_have_a_loss_of_their_own(
    setups, tmp_path
):
    """Latents that were cached are those of the backbone before it was tuned."""
    linear = PRODUCTS.change(head="linear")
    trials = [trial.change(vanish=v) for trial in (linear, PRODUCTS) for v in (0.0, 0.3)]
    trials += [PRODUCTS, PRODUCTS.change(projected=True)]
    store = run(trials, setups, tmp_path)
    *others, one, other = (store.read(trial).trained for trial in trials)
    assert (one.accuracy, one.loss) == (other.accuracy, other.loss)
    losses = [facts.loss for facts in others]
    assert losses[0] == losses[1] and losses[2] != losses[3]


def test_every_baseline_of_products_is_trained_where_latents_are_cached(setups, tmp_path):
    cached = PRODUCTS.change(trained="coefficients", views=1, distill=0.7)
    heads = head_trials(cached, baselines=True)
    assert not run(heads.values(), setups, tmp_path).missing(heads.values())
    uncached = {name for name, trial in heads.items() if trial.recipe.views is None}
    assert uncached == {"SimKD"}  # it learns more than logits of the uncut network


def test_draws_of_the_caller_go_on_and_nothing_is_run_twice(setups, tmp_path, monkeypatch):
    heads = head_trials(SMALL.change(views=1, projected=True), baselines=True)
    others = [SMALL.change(task=task) for task in ("ideals", "dimension")]
    trials, state = [*heads.values(), speed_trial(heads), *others], torch.random.get_rng_state()
    run(trials, setups, tmp_path)
    assert torch.equal(torch.random.get_rng_state(), state)
    monkeypatch.setattr("vinets.runs.store.TASKS", {})
    run([*trials, *trials], setups, tmp_path)


class Listener(list):
    """Keeps stages with their notes, and stops a training after some steps."""

    def __init__(self, most=None):
        self.most, self.steps = most, 0

    def start(self, stage, total):
        self.stage = stage

    def advance(self, count=1, note=""):
        self.append((self.stage, note))
        self.steps += count * self.stage.startswith("training")
        if self.most is not None and self.steps > self.most:
            raise KeyboardInterrupt


def test_a_call_that_was_stopped_goes_on_from_its_checkpoint(setups, tmp_path):
    trial = SMALL.change(detailed=True)
    whole = run([trial], setups, tmp_path / "whole").read(trial)
    with pytest.raises(KeyboardInterrupt):  # in the second epoch
        run_trials([trial], setups, Store(tmp_path / "parts"), progress=Listener(10))
    assert any((tmp_path / "parts" / "checkpoints").rglob("*.safetensors"))
    again = run([trial], setups, tmp_path / "parts").read(trial)
    assert timeless(again) == timeless(whole)


@pytest.mark.parametrize("detailed", [True, False])
def test_a_result_holds_what_was_asked_for_of_a_part_of_the_data(setups, tmp_path, detailed):
    trial, heard = SMALL.change(detailed=detailed, train=40, test=3), Listener()
    run_trials([trial], setups, Store(tmp_path), progress=heard)
    notes = [note for stage, note in heard if stage == "VI-Net"]
    assert any(note.startswith("classes 9/10") for note in notes)
    found = Store(tmp_path).read(trial).trained
    assert found.accuracy * 30 == pytest.approx(round(found.accuracy * 30))
    if detailed:
        assert found.accuracy == 1 - len(found.wrong) / 30
    assert (found.wrong is not None) == (found.history is not None) == detailed
    assert found.uncut == setups["net"].sampled(trial.sampling).accuracy
    assert found.polynomials == 40 and found.monomials <= 32 and found.capped is False


def test_saved_networks_are_timed_in_turns_and_answer_as_tested(setups, tmp_path):
    heads = head_trials(SMALL, baselines=True)
    timed = speed_trial(heads)
    store = run([*heads.values(), timed], setups, tmp_path)
    speeds = store.read(timed).timed.speeds
    assert list(speeds) == ["net", *heads] and all(s.mean > 0 for s in speeds.values())
    net = VINet.from_pretrained(tmp_path)
    images, labels = next(DATA.test.batches(len(DATA.test)))
    wrong = (net(images).argmax(1) != labels).nonzero()[:, 0].tolist()
    assert wrong == list(store.read(heads["VI-Net"]).trained.wrong)


@pytest.mark.parametrize("sent", ["files", "memory"])
def test_processes_side_by_side_find_the_same(setups, trained, tmp_path, sent):
    if sent == "files":
        save_weights(trained, tmp_path / "w.safetensors")
        setups = {"net": SetupFiles("digits_cnn", str(tmp_path / "w.safetensors"), "digits")}
    trials = [SMALL.change(cut=cut, epochs=1) for cut in ("relu3", "relu4")]
    one, two = run(trials, setups, tmp_path / "one"), run(trials, setups, tmp_path / "two", jobs=2)
    assert [timeless(one.read(t)) for t in trials] == [timeless(two.read(t)) for t in trials]


def test_a_network_that_cannot_be_sent_or_is_not_there_is_named(trained, tmp_path):
    model = copy.deepcopy(trained)
    model.numbers = (x for x in ())  # what is under way cannot travel
    setups = {"net": Setup("net", model, DATA, torch.device("cpu"))}
    with pytest.raises(ValueError, match=r"cannot be sent to other processes .* jobs=1"):
        run([SMALL], setups, tmp_path, jobs=2)
    with pytest.raises(ValueError, match=r"about the network 'other', and those given are 'net'"):
        run([SMALL.change(network="other")], setups, tmp_path)


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_diverges_does_not_end_what_runs_beside_it(setups, tmp_path, jobs):
    good = SMALL.change(epochs=1)
    bad = good.change(learning_rate=1e30)
    with pytest.raises(DivergedError):
        run([bad, good.change(seed=1), good], setups, tmp_path, jobs)
    assert Store(tmp_path).missing([good, bad, good.change(seed=1)]) == [bad]
