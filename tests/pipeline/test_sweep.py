"""A sweep finds what builds find, and goes on where it was stopped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vinets.data import DataSplit
from vinets.ideals.abm import ABM
from vinets.models import digits_cnn
from vinets.pipeline import build
from vinets.pipeline.sweep import sweep
from vinets.pipeline.trial import Trial
from vinets.pipeline.variables import find_variables
from vinets.settings import Placing, Projecting

FEW = Trial().change(components=8, per_class=48, max_degree=3)
QUICK = Trial().change(components=8, per_class=12, max_degree=3)


class Stages:
    """A progress that remembers the stages, and may stop in front of one."""

    def __init__(self, stop_at: int | None = None):
        self.seen, self.stop_at = [], stop_at

    def start(self, stage, total):
        self.seen.append(stage)
        if self.stop_at is not None and self.seen.count("latents") == self.stop_at:
            raise InterruptedError

    def advance(self, count=1, note=""):
        pass


@pytest.fixture(scope="module")
def data(train):
    return DataSplit("digits", train, train)


def swept(model, data, cuts, out, trial=QUICK, **more):
    more = {"dimension": False, "progress": None} | more
    return sweep(model, data, cuts, out, trial=trial, **more)


def same(a, b) -> bool:
    """Equal but for the time that it took."""

    def timeless(facts):
        return [replace(f, ideals=replace(f.ideals, seconds=0)) for f in facts]

    return timeless(a) == timeless(b)


@pytest.mark.parametrize("order", ["tanh-pca", "pca-tanh"])
def test_what_is_counted_is_what_a_build_finds(model, data, tmp_path, order):
    (found,) = swept(model, data, ["relu3"], tmp_path, FEW.change(order=order))
    options = {"components": 8, "per_class": 48, "order": order, "progress": None}
    _, report = build(model, data.train, "relu3", ideal=ABM(0.1, max_degree=3), **options)
    assert found.ideals.monomials == report.monomials_found
    assert found.ideals.polynomials == report.generators_found
    assert found.ideals.explained_variance == report.explained_variance
    assert found.cut == report.cut and found.ideals.features == np.prod(report.latent_shape)


def test_classes_are_counted_one_by_one_and_shared_terms_once(model, data, latents, tmp_path):
    (found,) = swept(model, data, ["relu3"], tmp_path, FEW)
    made = find_variables(latents, Placing(), Projecting(components=8))
    points, labels = made.points[latents.fit], made.labels[latents.fit]
    everything = set()
    for k in range(10):
        with pytest.warns(UserWarning, match="scale|range|unit|\\[-1, 1\\]"):
            fitted = ABM(psi=0.1, max_degree=3).fit(points[labels == k].numpy())
        used = (fitted.generators_.tail != 0).any(0).numpy()
        rows = [*fitted.order_ideal_[used].tolist(), *fitted.leading_terms_.tolist()]
        terms = {tuple(row) for row in rows if any(row)}
        everything |= terms
        assert found.ideals.by_class[str(k)] == len(terms)
    assert found.ideals.monomials == len(everything) < sum(found.ideals.by_class.values())


def test_pruning_leaves_fewer_and_fewer_monomials(model, data, tmp_path):
    (found,) = swept(model, data, ["relu3"], tmp_path)
    left = list(found.ideals.monomials_left.values())
    assert left == sorted(left, reverse=True) and left[0] == found.ideals.monomials


def test_dimensions_are_those_of_the_latents_themselves(model, data, latents, tmp_path):
    pytest.importorskip("skdim")
    (found,) = swept(model, data, ["relu3"], tmp_path, FEW, dimension=True)
    neighbours = found.dimension.neighbours
    flat = latents.store.tensor().flatten(1).double().numpy()[latents.fit.numpy()]
    labels = latents.store.labels.numpy()[latents.fit.numpy()]
    expected = []
    for k in range(10):
        mine = flat[labels == k]
        apart = np.linalg.norm(mine[:, None] - mine[None], axis=2)
        apart = np.sort(apart)[:, 1 : neighbours + 1]
        inverse = np.log(apart[:, -1:] / apart[:, :-1]).mean(1)  # Levina and Bickel
        expected.append(1 / inverse.mean())  # MacKay and Ghahramani
    assert np.allclose(list(found.dimension.per_class.values()), expected, rtol=1e-4)
    assert np.isclose(found.dimension.mean, np.mean(expected), rtol=1e-4)


def test_places_may_be_indices_or_shares_and_count_once(model, data, tmp_path):
    found = swept(model, data, ["75%", 2, "relu1", "relu2"], tmp_path)
    assert [f.cut for f in found] == ["relu1", "relu2"]
    assert [f.removed for f in found] == [0.75, 0.5]


def test_an_interrupted_sweep_goes_on_and_may_grow(model, data, tmp_path):
    with pytest.raises(InterruptedError):
        swept(model, data, ["pool", "relu3"], tmp_path, progress=Stages(stop_at=2))
    watch = Stages()
    found = swept(model, data, ["pool", "relu3"], tmp_path, progress=watch)
    assert watch.seen.count("latents") == 1
    assert same(found, swept(model, data, ["pool", "relu3"], tmp_path / "anew"))
    watch = Stages()
    more = swept(model, data, ["relu3", "relu4", "pool"], tmp_path, progress=watch)
    assert watch.seen.count("latents") == 1
    assert [more[0], more[2]] == found[::-1]


def test_results_of_other_settings_stand_beside_each_other(model, data, tmp_path):
    (one,) = swept(model, data, ["relu4"], tmp_path)
    (other,) = swept(model, data, ["relu4"], tmp_path, QUICK.change(components=4))
    assert (one.ideals.variables, other.ideals.variables) == (8, 4)
    assert same(swept(model, data, ["relu4"], tmp_path), [one])


def test_other_weights_and_other_data_are_refused(model, data, tmp_path):
    swept(model, data, ["relu4"], tmp_path)
    torch.manual_seed(5)
    with pytest.raises(ValueError, match=r"uncut with other weights\. Choose another folder"):
        swept(digits_cnn(), data, ["relu4"], tmp_path)
    part = data.train.subset(torch.arange(400, 900))
    with pytest.raises(ValueError, match=r"uncut with other data\. Choose another folder"):
        swept(model, DataSplit("digits", part, part), ["relu4"], tmp_path)


@pytest.mark.parametrize("cuts", ["relu3", [], ()])
def test_a_list_of_cuts_is_asked_for(model, data, tmp_path, cuts):
    with pytest.raises(ValueError, match="'cuts' parameter of sweep"):
        swept(model, data, cuts, tmp_path)
