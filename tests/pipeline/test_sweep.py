from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from vinets.ideals.abm import ABM
from vinets.models import digits_cnn
from vinets.pipeline import build, collect
from vinets.pipeline.placements import Projecting, global_variables
from vinets.pipeline.sweep import ClassFacts, CutFacts, sweep, sweep_correlation

IDEAL = ABM(psi=0.1, max_degree=3)
FEW = {"ideal": IDEAL, "n_components": 8, "per_class": 48}
QUICK = {**FEW, "per_class": 12, "dimension": False, "progress": None}


class Stages:
    """A progress that remembers the stages, and may stop in front of one."""

    def __init__(self, last: str | None = None):
        self.seen, self.last = [], last

    def start(self, stage, total):
        if self.last is not None and stage.startswith(self.last):
            raise InterruptedError
        self.seen.append(stage)

    def advance(self, count=1, note=""):
        pass


@pytest.fixture(scope="module")
def facts(model, train) -> list[CutFacts]:
    return sweep(model, train, ["relu1", "relu3"], **FEW, dimension=False, progress=None)


def same(a: list[CutFacts], b: list[CutFacts]) -> bool:
    """Equal but for the time that it took."""
    return [replace(x, seconds=0) for x in a] == [replace(x, seconds=0) for x in b]


def exponents(fitted: ABM) -> set[tuple[int, ...]]:
    """The terms that some generator has, without the constant, term by term."""
    used = (fitted.generators_.tail != 0).any(0).numpy()
    rows = [*fitted.order_ideal_[used].tolist(), *fitted.leading_terms_.tolist()]
    return {tuple(row) for row in rows if any(row)}


@pytest.mark.parametrize("order", ["tanh-pca", "pca-tanh"])
def test_what_is_counted_is_what_a_build_finds(model, train, order):
    (found,) = sweep(model, train, ["relu3"], **FEW, order=order, dimension=False, progress=None)
    _, report = build(model, train, "relu3", **FEW, order=order, progress=None)
    assert found.monomials == report.monomials_found
    assert found.polynomials == report.generators_found
    assert found.explained_variance == report.explained_variance
    assert (found.cut, found.latent_shape) == (report.cut, report.latent_shape)


def test_classes_are_counted_one_by_one_and_shared_terms_once(facts, latents):
    made = global_variables(latents, Projecting(8))
    points, labels = made.points[latents.fit], made.labels[latents.fit]
    found = facts[1]
    everything = set()
    for k, mine in enumerate(found.classes):
        with pytest.warns(UserWarning, match="scale|range|unit|\\[-1, 1\\]"):
            fitted = ABM(psi=0.1, max_degree=3).fit(points[labels == k].numpy())
        terms = exponents(fitted)
        everything |= terms
        assert mine == ClassFacts(k, len(terms), len(fitted.leading_terms_), None)
        assert len(terms) <= len(fitted.order_ideal_) - 1 + len(fitted.leading_terms_)
    assert found.monomials == len(everything) < sum(c.monomials for c in found.classes)
    assert found.polynomials == sum(c.polynomials for c in found.classes)


def test_a_cut_says_what_it_removes_and_how_many_examples_were_used(facts):
    early, late = facts
    assert (early.cut, late.cut) == ("relu1", "relu3")
    assert (early.removed, late.removed) == (0.75, 0.25)
    assert (early.latent_shape, late.latent_shape) == ((32, 64), (64, 16))
    assert early.examples == late.examples == 480 and early.variables == 8
    assert early.seconds > 0 and early.dimension is None and early.dimension_std is None


def test_dimensions_are_those_of_the_latents_themselves(model, train, latents):
    pytest.importorskip("skdim")
    (found,) = sweep(model, train, ["relu3"], **FEW, neighbours=5, progress=None)
    flat = latents.store.tensor().flatten(1).double().numpy()[latents.fit.numpy()]
    labels = latents.store.labels.numpy()[latents.fit.numpy()]
    expected = []
    for k in range(10):
        mine = flat[labels == k]
        apart = np.sort(np.linalg.norm(mine[:, None] - mine[None], axis=2))[:, 1:6]
        inverse = np.log(apart[:, -1:] / apart[:, :-1]).mean(1)  # Levina and Bickel
        expected.append(1 / inverse.mean())  # MacKay and Ghahramani
    assert np.allclose([c.dimension for c in found.classes], expected, rtol=1e-4)
    assert np.isclose(found.dimension, np.mean(expected), rtol=1e-4)
    assert np.isclose(found.dimension_std, np.std(expected), rtol=1e-4)


def test_places_may_be_indices_or_shares_and_count_once(model, train):
    found = sweep(model, train, ["75%", 2, "relu1", "relu2"], **QUICK)
    assert [f.cut for f in found] == ["relu1", "relu2"]


def test_a_block_removes_what_its_last_layer_removes():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU())
    net = nn.Sequential(body, nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 2)).eval()
    data = torch.randn(60, 1, 8, 8), torch.arange(60) % 2
    block, layer = sweep(net, data, ["0", "0.1"], **{**QUICK, "n_components": None})
    assert block.removed == layer.removed == 0.5
    assert same([replace(block, cut="0.1")], [layer])


def test_facts_survive_json(facts):
    texts = [json.dumps(f.to_dict()) for f in facts]
    assert [CutFacts.from_dict(json.loads(text)) for text in texts] == facts


def test_an_interrupted_sweep_goes_on_and_may_grow(model, train, tmp_path):
    options = {**QUICK, "directory": tmp_path}
    with pytest.raises(InterruptedError):
        sweep(model, train, ["pool", "relu3"], **{**options, "progress": Stages("relu3")})
    watch = Stages()
    found = sweep(model, train, ["pool", "relu3"], **{**options, "progress": watch})
    assert watch.seen == ["latents", "relu3, cut 2 of 2"]
    assert same(found, sweep(model, train, ["pool", "relu3"], **QUICK))
    watch = Stages()
    more = sweep(model, train, ["relu3", "relu4", "pool"], **{**options, "progress": watch})
    assert watch.seen == ["latents", "relu4, cut 2 of 3"]
    assert [more[0], more[2]] == found[::-1]


@pytest.mark.parametrize(
    "change, named",
    [
        ({"ideal": ABM(psi=0.2, max_degree=3)}, "psi"),
        ({"n_components": 4}, "n_components"),
        ({"seed": 1}, "seed"),
        ({"pool": 2, "read": "pool"}, "pool, read"),
    ],
)
def test_other_settings_are_refused_in_the_same_folder(model, train, tmp_path, change, named):
    options = {**QUICK, "directory": tmp_path}
    sweep(model, train, ["relu4"], **options, batch_size=128)
    sweep(model, train, ["relu4"], **options, batch_size=64)  # changes no result
    with pytest.raises(ValueError, match=f"other settings: they differ in {named}. Choose"):
        sweep(model, train, ["relu4"], **{**options, **change})


def test_other_weights_and_other_data_are_refused(model, train, tmp_path):
    options = {**QUICK, "directory": tmp_path}
    sweep(model, train, ["relu4"], **options)
    torch.manual_seed(5)
    with pytest.raises(ValueError, match="differ in weights"):
        sweep(digits_cnn(), train, ["relu4"], **options)
    with pytest.raises(ValueError, match="differ in inputs, labels"):
        sweep(model, train.subset(torch.arange(400, 900)), ["relu4"], **options)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"facts": {"cut": 3}, "settings": {}}', "\xff"]
)
def test_a_broken_file_is_made_anew(model, train, tmp_path, content):
    options = {**QUICK, "directory": tmp_path}
    found = sweep(model, train, ["relu4"], **options)
    (path,) = (tmp_path / "checkpoints").iterdir()
    path.write_bytes(content.encode("latin-1"))
    assert same(sweep(model, train, ["relu4"], **options), found)
    assert CutFacts.from_dict(json.loads(path.read_text())["facts"]).cut == "relu4"


def test_facts_of_other_settings_are_not_taken_over(model, train, tmp_path):
    options = {**QUICK, "directory": tmp_path}
    sweep(model, train, ["relu4"], **options)
    (tmp_path / "settings.json").unlink()  # now nothing says that the folder is taken
    (again,) = sweep(model, train, ["relu4"], **{**options, "n_components": 4})
    assert again.variables == 4


def invented() -> list[CutFacts]:
    counts = [(3.0, 40, [(2.0, 10), (4.0, 35)]), (5.0, 90, [(4.5, 60), (5.5, 50)])]
    counts += [(8.0, 85, [(7.0, 70), (9.0, 30)]), (9.0, 200, [(8.5, 90), (9.5, 150)])]
    return [
        CutFacts(
            f"layer{i}", 0.5, (2, 2), 9, 3, 0.9, total, 7, 0.1, mean, 1.0,
            tuple(ClassFacts(k, n, 3, d) for k, (d, n) in enumerate(classes)),
        )
        for i, (mean, total, classes) in enumerate(counts)
    ]  # fmt: skip


def test_correlation_over_cuts_and_over_classes():
    found = sweep_correlation(invented())
    json.dumps(found)
    by_cut = np.corrcoef([3, 5, 8, 9], [40, 90, 85, 200])[0, 1]
    by_class = np.corrcoef([2, 4, 4.5, 5.5, 7, 9, 8.5, 9.5], [10, 35, 60, 50, 70, 30, 90, 150])[
        0, 1
    ]
    assert np.isclose(found["cuts"]["pearson"], by_cut) and found["cuts"]["count"] == 4
    assert np.isclose(found["classes"]["pearson"], by_class) and found["classes"]["count"] == 8
    assert np.isclose(found["cuts"]["spearman"], 0.8)


def test_correlation_needs_three_cuts_with_dimensions(facts):
    with pytest.raises(ValueError, match=r"at least 3 cuts with dimensions. Got '2 cuts'"):
        sweep_correlation(invented()[:2])
    with pytest.raises(ValueError, match="none at relu1, relu3"):
        sweep_correlation([*invented(), *facts])


@pytest.mark.parametrize(
    "cuts, change, message",
    [
        ("relu1", {}, "'cuts' parameter of sweep must be a list of at least one cut"),
        ([], {}, "'cuts' parameter of sweep must be a list of at least one cut"),
        (["relu1", "rolu2"], {}, "nearest names are relu"),
        (["relu1", 99], {}, "an index below 15"),
        (["relu1"], {"order": "tanh"}, "'order' parameter of sweep must be one of"),
        (["relu1"], {"n_components": 0}, "'n_components' parameter of sweep must be a positive"),
    ],
)
def test_bad_input_is_refused_before_any_work(model, train, cuts, change, message):
    watch = Stages()
    with pytest.raises(ValueError, match=message):
        sweep(model, train, cuts, **{**QUICK, "progress": watch, **change})
    assert watch.seen == []


def test_a_module_that_never_runs_is_refused(train):
    net = digits_cnn()
    net.idle = nn.ReLU()
    with pytest.raises(ValueError, match=r"modules that the forward pass calls. Got 'idle'"):
        sweep(net, train, ["idle"], **QUICK)


def test_few_points_a_class_are_a_clear_refusal(model, train):
    pytest.importorskip("skdim")
    with pytest.raises(ValueError, match=r"Class 0 cannot be measured.*Take fewer neighbours"):
        sweep(model, train, ["relu4"], **{**QUICK, "dimension": True})


def test_latents_come_from_the_same_call_as_those_of_a_build(model, train, facts):
    made = global_variables(
        collect(model, train, "relu1", per_class=48, progress=None), Projecting(8)
    )
    assert made.explained == facts[0].explained_variance
    assert made.points.shape == (600, facts[0].variables)
    assert torch.allclose(made.points.std(0), torch.ones(8), atol=1e-3)
