from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest
import torch
from sklearn.covariance import EmpiricalCovariance
from sklearn.neighbors import NearestNeighbors
from torch import nn

from vinets.models.libraries.torchvision import import_torchvision
from vinets.scores import SCORES, Activations, rates


@pytest.fixture(scope="module")
def scene(cloud) -> tuple[nn.Linear, Activations, Activations, Activations]:
    torch.manual_seed(0)
    linear = nn.Linear(8, 3).requires_grad_(False)
    linear.weight.copy_(torch.eye(3, 8))
    train, labels = cloud(300, 0)
    ours, _ = cloud(300, 1)
    strange = 6 * torch.rand(300, 8, generator=torch.Generator().manual_seed(2))
    return linear, *(
        Activations(x, linear(x), y) for x, y in ((train, labels), (ours, None), (strange, None))
    )


def test_every_score_of_the_field_is_there():
    assert set(SCORES) == {
        *("softmax", "energy", "mahalanobis", "relative mahalanobis"),
        *("vim", "knn", "react", "ash"),
    }


@pytest.mark.parametrize("name", ["mahalanobis", "relative mahalanobis", "vim", "knn"])
def test_scores_tell_points_that_lie_elsewhere(scene, name):
    linear, train, ours, strange = scene
    score = SCORES[name](linear).fit(train)
    auroc, fpr = rates(score(ours), score(strange))
    assert auroc > 0.8 and fpr < 0.7


def test_softmax_ranks_as_one_minus_the_largest_probability(scene):
    _, _, ours, _ = scene
    plain = 1 - ours.logits.double().softmax(1).max(1).values
    found = SCORES["softmax"]()(ours)
    torch.testing.assert_close(found.exp().double(), plain, rtol=1e-4, atol=1e-6)


def test_mahalanobis_is_that_of_the_pooled_covariance(scene):
    _, train, ours, _ = scene
    means = torch.stack([train.features[train.labels == k].mean(0) for k in range(3)])
    pooled = EmpiricalCovariance(assume_centered=True)
    pooled.fit((train.features - means[train.labels]).numpy())
    expected = torch.stack(
        [torch.from_numpy(pooled.mahalanobis((ours.features - m).numpy())) for m in means], 1
    )
    found = SCORES["mahalanobis"]().fit(train)(ours)
    torch.testing.assert_close(
        found.double(), expected.min(1).values.double(), rtol=1e-3, atol=1e-3
    )


def test_neighbours_are_those_of_scikit_learn(scene):
    _, train, ours, _ = scene
    unit = torch.nn.functional.normalize
    model = NearestNeighbors(n_neighbors=50).fit(unit(train.features).numpy())
    expected = model.kneighbors(unit(ours.features).numpy())[0][:, -1]
    found = SCORES["knn"]().fit(train)(ours)
    torch.testing.assert_close(found, torch.from_numpy(expected).float(), rtol=1e-3, atol=1e-4)


def test_react_and_ash_change_what_the_formulas_say(scene):
    linear, train, ours, _ = scene
    limit = train.features.flatten().double().quantile(0.9)
    clipped = -linear(ours.features.clamp(max=float(limit))).logsumexp(1)
    torch.testing.assert_close(SCORES["react"](linear).fit(train)(ours), clipped)
    x = ours.features[:1]
    top = x.sort(1, descending=True).values[:, :3]  # 35 % of 8
    scaled = torch.where(x >= top[:, -1:], x, 0) * torch.exp(x.sum() / top.sum())
    found = SCORES["ash"](linear).fit(train)(Activations(x, linear(x)))
    torch.testing.assert_close(found, -linear(scaled).logsumexp(1))


def test_scores_without_a_linear_layer_say_so():
    with pytest.raises(ValueError, match="ends in a linear layer"):
        SCORES["vim"]()


def test_rates_are_those_of_ranks():
    inside, outside = torch.arange(100.0), torch.arange(100.0) + 50
    auroc, fpr = rates(inside, outside)
    wins = (outside[:, None] > inside).double() + 0.5 * (outside[:, None] == inside).double()
    assert auroc == pytest.approx(float(wins.mean()))
    assert fpr == pytest.approx(0.45, abs=0.01)  # 95 of ours lie below 95, and 45 strange ones


PACKAGE = {
    "softmax": "MaxSoftmax",
    "energy": "EnergyBased",
    "mahalanobis": "Mahalanobis",
    "relative mahalanobis": "RMD",
    "knn": "KNN",
    "vim": "ViM",
}


@pytest.mark.parametrize("name", PACKAGE)
def test_scores_are_those_of_pytorch_ood(scene, name):
    if find_spec("pytorch_ood") is None:
        pytest.skip("pytorch-ood is not installed")
    import_torchvision()  # which it imports, and which may need help
    kind = getattr(import_module("pytorch_ood.detector"), PACKAGE[name])
    linear, train, ours, strange = scene
    mine = SCORES[name](linear).fit(train)
    if name in ("softmax", "energy"):
        theirs = [kind.score(seen.logits) for seen in (ours, strange)]
    else:
        detector = kind(None, d=4, w=linear.weight, b=linear.bias) if name == "vim" else kind(None)
        detector.fit_features(train.features, train.labels)
        theirs = [detector.predict_features(seen.features) for seen in (ours, strange)]
    for seen, expected in zip((ours, strange), theirs, strict=True):
        ranks = [t.double().argsort().argsort().double() for t in (mine(seen), expected)]
        assert torch.corrcoef(torch.stack(ranks))[0, 1] > 0.999
    assert rates(mine(ours), mine(strange)) == pytest.approx(rates(*theirs), abs=0.005)
