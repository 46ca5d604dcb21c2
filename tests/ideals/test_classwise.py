from __future__ import annotations

import numpy as np
import pytest
import torch

from vinets import ABM, OAVI, VCA, fit_class_ideals
from vinets.data.synthetic import latent_like_classes


@pytest.fixture(scope="module")
def data():
    Z, y = latent_like_classes(4, m=60, n=10, rank=3)
    keep = np.ones(len(y), dtype=bool)
    keep[5:40] = False  # classes of different sizes
    shuffle = np.random.default_rng(0).permutation(int(keep.sum()))
    return Z[keep][shuffle], y[keep][shuffle]


@pytest.mark.parametrize(
    "model",
    [ABM(0.01, max_degree=3), OAVI(0.01, oracle="exact"), OAVI(0.01, max_degree=2), VCA(0.01)],
    ids=["abm", "oavi-exact", "oavi-bpcg", "vca"],
)
def test_backends_agree_with_single_fits(data, model):
    """Rounding may fork the path of a sparse oracle, so of those only the rule must hold."""
    Z, y = data
    sparse = getattr(model, "oracle", "exact") != "exact"
    batched = fit_class_ideals(Z, y, model, backend="batched")
    threads = fit_class_ideals(Z, y, model, backend="joblib", n_jobs=2)
    assert batched.classes.tolist() == [0, 1, 2, 3]
    for label, ideal in batched:
        alone = type(model)(**model.get_params()).fit(Z[y == label])
        for other in (alone, threads[label]):
            assert len(ideal.generators_) == len(other.generators_)
            values = [m.transform(Z[y == label]) for m in (ideal, other)]
            if sparse:
                assert all((v**2).mean(0).max() <= model.psi for v in values)
            else:
                np.testing.assert_allclose(*values, atol=1e-9)
            if not isinstance(model, VCA):
                assert ideal.order_ideal_.tolist() == other.order_ideal_.tolist()
                assert ideal.leading_terms_.tolist() == other.leading_terms_.tolist()


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
