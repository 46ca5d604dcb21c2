import pytest
import torch
from sklearn.linear_model import RidgeClassifier

from vinets import CutNetwork, attach_distances, build, collect, evaluate, train_classifier
from vinets.data import digits
from vinets.heads import HEADS, DistanceHead, LinearHead, PooledHead, closed
from vinets.heads.closed import fit_ridge
from vinets.models import digits_cnn
from vinets.testing.sources import assert_same


@pytest.fixture(scope="module")
def trained():
    torch.manual_seed(0)
    model, data = digits_cnn(), digits()
    train_classifier(model, data.train, epochs=3, progress=None)
    return model, data


def accuracy(network, data) -> float:
    return evaluate(network, data.test).accuracy


def test_a_network_without_training_is_near_the_uncut_one_and_is_saved(trained, tmp_path):
    model, data = trained
    net, report = build(model, data.train, "pool", head="closed", progress=None)
    assert accuracy(net, data) > accuracy(model, data) - 0.02
    assert report.closed is not None and set(report.closed.accuracies) == {
        *("ridge", "ridge, flat", "LDA", "distances", "ridge on generators")
    }
    assert net.record.notes["head"] == "closed" and report.head == net.head.kind
    assert f"closed form: {report.closed.taken}, the smallest" in str(report)
    net.save_pretrained(tmp_path)
    x = data.test.example(8)
    assert torch.equal(CutNetwork.from_pretrained(tmp_path)(x), net(x))


def test_held_out_accuracy_is_that_of_heads_which_did_not_see_the_examples(trained, monkeypatch):
    # labels at random cannot be told on examples that were held out
    model, data = trained
    latents = collect(model, data.train, "pool", per_class=40, progress=None)
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(latents.store), generator=generator)
    monkeypatch.setattr(latents.store, "labels", latents.store.labels[order])
    _, report = build(latents, head="closed", progress=None)
    assert max(report.closed.accuracies.values()) < 0.3


def test_distances_tell_how_far_the_classes_are(trained):
    model, data = trained
    net, _ = build(model, data.train, "pool", head="distance", progress=None)
    assert isinstance(net.head, DistanceHead) and accuracy(net, data) > 0.9
    x = data.test.example(8)
    k = net.distance(x)
    assert k.shape == (8, 10) and (k >= 1).all()


@pytest.mark.parametrize(
    ("kind", "options", "made"),
    [("ridge", {}, PooledHead), ("ridge", {"flat": True}, LinearHead), ("lda", {}, PooledHead)],
)
def test_a_linear_layer_is_solved_for_and_folded(trained, kind, options, made):
    model, data = trained
    net, report = build(model, data.train, "pool", head=kind, progress=None, **options)
    assert type(net.head) is made and net.head.norm is None
    assert accuracy(net, data) > 0.85
    assert report.parts["linear"] == sum(p.numel() for p in net.head.parameters())


def test_the_best_of_a_single_way_is_that_way(trained, monkeypatch):
    model, data = trained
    candidates = {"distances": closed.candidates_for((6, 4))["distances"]}
    monkeypatch.setattr(closed, "candidates_for", lambda shape: candidates)
    latents = collect(model, data.train, "pool", per_class=40, progress=None)
    chosen, same = (HEADS[kind].build(latents) for kind in ("closed", "distance"))
    assert_same(chosen.state_dict(), same.state_dict())


def test_any_network_can_be_given_distances_that_are_saved_with_it(trained, tmp_path):
    model, data = trained
    options = {"components": 8, "keep": 4, "monomials": 32, "per_class": 20, "progress": None}
    net, _ = build(model, data.train, "pool", **options)
    x, y = next(iter(data.test.batches(200)))
    with pytest.raises(ValueError, match="knows no distances"):
        net.distance(x)
    with pytest.raises(ValueError, match="must be a network behind a cut"):
        attach_distances(model, data.train)
    before = sum(net.parts().values())
    attach_distances(net, data.train, per_class=60)
    nearest = net.distance(x).argmin(1)
    assert (nearest == y).double().mean() > 0.9
    assert sum(net.parts().values()) > before
    net.save_pretrained(tmp_path)
    again = CutNetwork.from_pretrained(tmp_path)
    assert torch.equal(again.distance(x), net.distance(x)) and torch.equal(again(x), net(x))


@pytest.mark.parametrize(("count", "width"), [(120, 20), (12, 30)])  # either Gram matrix
def test_ridge_is_that_of_scikit_learn(count, width):
    X, y = torch.randn(count, width, dtype=torch.float64), torch.arange(count) % 3
    unit = float((X - X.mean(0)).square().sum() / width)
    found = fit_ridge(X, y, 3, penalties=[0.1])
    theirs = RidgeClassifier(alpha=0.1 * unit).fit(X.numpy(), y.numpy())
    expected = torch.from_numpy(theirs.decision_function(X.numpy()))
    torch.testing.assert_close(found(X).detach(), expected)
