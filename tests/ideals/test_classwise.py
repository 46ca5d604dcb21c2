from __future__ import annotations

import numpy as np
import pytest
import torch

from vinets import ABM, fit_class_ideals
from vinets.data.synthetic import latent_like_classes


@pytest.fixture(scope="module")
def data():
    Z, y = latent_like_classes(4, m=60, n=10, rank=3)
    keep = np.ones(len(y), dtype=bool)
    keep[5:40] = False  # classes of different sizes
    shuffle = np.random.default_rng(0).permutation(int(keep.sum()))
    return Z[keep][shuffle], y[keep][shuffle]


@pytest.mark.slow
def test_processes_give_what_one_process_gives(data):
    Z, y = data
    model = ABM(0.01, max_degree=2)
    here, there = (fit_class_ideals(Z, y, model, backend="joblib", n_jobs=n) for n in (1, 2))
    for (label, a), (other, b) in zip(here, there, strict=True):
        assert label == other
        np.testing.assert_allclose(a.transform(Z), b.transform(Z), atol=1e-9)


def test_a_worker_takes_one_core(data, monkeypatch):
    Z, y = data
    monkeypatch.setattr("multiprocessing.parent_process", lambda: "somebody")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        fit_class_ideals(Z, y, ABM(0.01, max_degree=1), backend="joblib")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_features_are_the_classes_side_by_side(data):
    Z, y = data
    ideals = fit_class_ideals(torch.from_numpy(Z), torch.from_numpy(y), ABM(0.01, max_degree=2))
    out = ideals.transform(torch.from_numpy(Z))
    assert out.shape == (len(Z), ideals.n_generators)
    assert not hasattr(ABM(0.01), "generators_")
    own = len(ideals[0].generators_)
    assert ideals.feature_classes.tolist() == [k for k, i in ideals for _ in i.generators_.lead]
    assert torch.equal(out[:, :own], ideals[0].transform(torch.from_numpy(Z)))


def test_mistakes_are_named(data):
    Z, y = data
    with pytest.raises(ValueError, match=r"y must have shape"):
        fit_class_ideals(Z, y[:-1], ABM())
    with pytest.raises(ValueError, match=r"'backend' parameter of fit_class_ideals"):
        fit_class_ideals(Z, y, ABM(), backend="mpi")
    with pytest.raises(KeyError, match="no class 9"):
        fit_class_ideals(Z, y, ABM(max_degree=1))[9]
