"""Trainings that ask where the ideal matters: equal budgets, controls, results that are kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import ideal_study as study
from vinets.core.files import read_json, write_json
from vinets.core.settings import SampleOptions
from vinets.data import digits
from vinets.models import digits_cnn
from vinets.runs.setup import Setup

# Its generators are found in components of unit variance, as they were for its results.
pytestmark = pytest.mark.filterwarnings("ignore::vinets.ideals.base.ScaleWarning")
FOLDER = Path(__file__).parents[2] / "benchmarks" / "results" / "tuning" / "ideal"
TINY = {"epochs": 1, "train": 30, "test": 5}


@pytest.fixture(scope="module")
def setup():
    return Setup("digits_cnn", digits_cnn(), digits(), torch.device("cpu"))


@pytest.fixture
def bench(setup, tmp_path):
    group = study.groups("digits", ["beside"], 1, **TINY)[1]
    return study.Bench(setup, group.place, group.trial, tmp_path)


@pytest.mark.parametrize("where", study.PLACES)
def test_a_plan_has_every_study_at_every_place_with_every_seed(where):
    found = study.groups(where, list(study.STUDIES))
    assert len({group.name for group in found}) == len(found)
    for place in study.PLACES[where]:
        here = [group for group in found if group.place is place]
        assert len(here) == place.seeds * len(study.STUDIES)
        assert {group.trial.recipe.trained for group in here} == {"backbone"}
    for group in found:
        assert {row for row, _ in group.arms} == set(study.STUDIES[group.study][0])
    for name, pairs in study.CONTRASTS.items():
        assert {way for pair in pairs for way in pair} <= set(study.STUDIES[name][1])


def test_heads_beside_each_other_have_one_budget(bench):
    budget = bench.trial.options.parameters
    sizes = {}
    for way in study.STUDIES["beside"][1]:
        network, trial = bench.beside("all examples", way)
        assert trial.sampling == SampleOptions(**{k: TINY[k] for k in ("train", "test")})
        parts = network.folded().head.parts()
        sizes[way] = sum(parts.values())
    assert all(0.98 * budget < size <= budget for size in sizes.values()), sizes


def test_half_of_the_head_comes_from_the_ideal_and_the_control_is_alike_but_random(bench):
    own, _ = bench.beside("all examples", study.HALF_IDEAL)
    other, _ = bench.beside("all examples", study.HALF_RANDOM)
    ours, drawn = (one.head.polynomials for one in (own, other))
    assert ours.weight.shape == drawn.weight.shape
    assert not torch.allclose(ours.weight, drawn.weight)
    assert torch.equal(own.head.forms.weight, other.head.forms.weight)  # the other half
    latents = bench.context(bench.trial).latents
    count, monomials = ours.weight.shape
    each = monomials + 1 + own.head.spatial.weight.shape[0] + own.head.linear.out_features
    patterns = own.head.spatial.patterns.numel()
    spent = own.head.parts()["projection"] + count * each
    assert 0.4 < spent / (bench.trial.options.parameters - patterns) < 0.5
    own.head.eval()
    values, labels = next(latents.store.chunks(200))
    with torch.no_grad():
        sizes = ours.values(own.head.projection(own.head.rescale(values).mT)).abs().mean(1)
    # a normalised layer in eval mode has its first statistics, so sizes compare within a column
    owners = torch.arange(sizes.shape[1]) // (sizes.shape[1] // 10)
    on_own = torch.stack([sizes[labels == k][:, owners == k].mean() for k in range(10)])
    elsewhere = torch.stack([sizes[labels != k][:, owners == k].mean() for k in range(10)])
    assert (on_own < elsewhere).float().mean() > 0.7


def test_generators_that_are_held_keep_their_directions(bench):
    network, trial = bench.beside("all examples", study.FIXED)
    head = network.head
    half = head.count // 2
    before = unit_rows(head)
    bench.train(network, trial, "held")
    moved = (unit_rows(head) - before).norm(dim=-1)
    assert moved[:, :half].max() < 1e-6 < 1e-4 < moved[:, half:].min()


def unit_rows(head):
    rows = head.forms.weight.detach().double().unflatten(0, (head.factors, head.count))
    return rows / rows.norm(dim=-1, keepdim=True)


def test_a_second_tuning_starts_from_the_tuned_backbone_and_its_own_generators(bench):
    row = "a quarter of the epochs"
    going_on, again = bench.refit(row, study.GOING_ON)
    assert again.seed != bench.trial.seed
    x = bench.setup.test.example(4)
    before = bench.context(bench.trial).latents
    found = {}
    for way in (study.NEW, study.REFITTED):
        network, trial = bench.refit(row, way)
        assert trial.recipe == again.recipe
        torch.testing.assert_close(network.latents(x), going_on.latents(x))
        found[way] = network.head.forms.weight
    assert not torch.allclose(before.reader(before.backbone(x)), going_on.latents(x))
    stale = bench.products(before, again.change(start="ideal")).head.forms.weight
    assert not torch.allclose(found[study.REFITTED], stale)
    assert not torch.allclose(found[study.REFITTED], found[study.NEW])


def test_random_coefficients_stand_in_the_monomials_of_the_generators(bench):
    heads = {way: bench.monomials("local", way)[0].head for way in study.ways("monomials", "local")}
    terms = {
        way: head.polynomials.monomials.terms for way, head in heads.items() if way != "products"
    }
    names = {way: one.names() for way, one in terms.items()}
    assert names[study.COEFFICIENTS] == names[study.IDEAL] != names[study.DEGREES]
    own, drawn = heads[study.IDEAL].polynomials, heads[study.COEFFICIENTS].polynomials
    assert own.activation == drawn.activation and not torch.allclose(own.weight, drawn.weight)
    size = sum(heads[study.IDEAL].folded().parts().values())
    assert 0.95 * size < sum(heads["products"].folded().parts().values()) <= size


def test_what_is_there_is_not_trained_again_and_other_settings_are_refused(
    monkeypatch, setup, tmp_path
):
    class Files:
        def open(self, name, device):
            return setup

    group = study.groups("digits", ["monomials"], 1, **TINY)[0]
    monkeypatch.setitem(study.STUDIES, "monomials", (("local",), (study.IDEAL, study.PRODUCTS)))
    where = (Files(), tmp_path / "out", tmp_path / "work", "cpu", None)
    study.run_group(group, *where)
    path = tmp_path / "out" / f"{group.name}.json"
    first = read_json(path)
    assert [one["way"] for one in first["results"]] == [study.IDEAL, study.PRODUCTS]
    kept = first["results"][0] | {"accuracy": 0.123}
    write_json(path, first | {"results": [kept]})
    study.run_group(group, *where)
    results = read_json(path)["results"]
    assert results[0] == kept and results[1]["accuracy"] == first["results"][1]["accuracy"]
    other = replace(group, trial=group.trial.change(epochs=2))
    with pytest.raises(ValueError, match="other settings"):
        study.run_group(other, *where)


def test_differences_beyond_two_joint_deviations_are_marked(monkeypatch, tmp_path):
    monkeypatch.setitem(study.STUDIES, "monomials", (("local",), (study.IDEAL, study.ANY)))
    place = study.PLACES["digits"][0]
    for seed, accuracies in enumerate([(0.90, 0.80), (0.92, 0.84)]):
        trial = place.trial.change(seed=seed)
        facts = {"network": trial.network, "cut": trial.cut, "seed": seed}
        pairs = zip((study.IDEAL, study.ANY), accuracies, strict=True)
        results = [{"row": "local", "way": way, "accuracy": right} for way, right in pairs]
        group = study.Group("monomials", place, trial)
        write_json(tmp_path / f"{group.name}.json", facts | {"results": results})
    (one,) = study.differences(tmp_path, "monomials")
    assert one["ahead_points"] == pytest.approx(9.0)
    assert one["joint_points"] == pytest.approx((2 + 8) ** 0.5) and one["beyond"]


def test_the_results_in_the_repository_are_those_of_the_plan():
    plan = [group for where in study.PLACES for group in study.groups(where, list(study.STUDIES))]
    by_name = {f"{group.name}.json": group for group in plan}
    seeds = {}
    for path in FOLDER.glob("*.json"):
        group, record = by_name[path.name], read_json(path)
        assert record["settings"] == study.as_plain(group.trial.changes)
        assert [(one["row"], one["way"]) for one in record["results"]] == group.arms
        key = group.study, group.trial.network, group.trial.cut
        seeds.setdefault(key, set()).add(group.trial.seed)
    assert {key[1:] for key in seeds} >= {("digits_cnn", "relu1"), ("digits_cnn", "relu2")}
    assert min(map(len, seeds.values())) >= 3
