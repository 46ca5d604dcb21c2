import copy

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from vinets import build, fine_tune
from vinets.core.settings import TrainingOptions
from vinets.data import digits
from vinets.heads import LastLayer
from vinets.heads.facts import measure_vanishing
from vinets.models import digits_cnn
from vinets.training import last_layer
from vinets.training.last_layer import minimise_logistic, solve_classifier

RECIPE = TrainingOptions(weight_decay=1e-3)


@pytest.fixture(scope="module")
def data():
    return digits(seed=1)


@pytest.fixture(scope="module")
def vinet(data):
    torch.manual_seed(0)
    sizes = {"components": 8, "psi": 0.02, "max_degree": 2, "keep": 6, "monomials": None}
    return build(digits_cnn().eval(), data.train, "pool", progress=None, **sizes)[0]


def features(m: int, width: int, classes: int = 4, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(m, width, dtype=torch.float64, generator=generator)
    x[:, : width // 2] @= torch.randn(
        width // 2, width // 2, dtype=torch.float64, generator=generator
    )  # some are strongly correlated
    labels = torch.randint(classes, (m,), generator=generator)
    x[torch.arange(m), labels] += 1.5
    return (x - x.mean(0)) / x.std(0, unbiased=False), labels


def assert_minimum(x, labels, weight, bias, decay):
    weight, bias = (t.clone().requires_grad_() for t in (weight, bias))
    loss = nn.functional.cross_entropy(x @ weight.mT + bias, labels)
    (loss + 0.5 * decay * weight.square().sum()).backward()
    assert float(weight.grad.abs().max()) <= 1e-8 and float(bias.grad.abs().max()) <= 1e-8


@pytest.mark.parametrize(("m", "width"), [(200, 12), (60, 150)])
@pytest.mark.parametrize("decay", [1e-1, 1e-3])
def test_the_gradient_is_zero_at_the_minimum(m, width, decay):
    x, labels = features(m, width)
    assert_minimum(x, labels, *minimise_logistic(x, labels, 4, decay), decay)


def collapsed(m: int, width: int, classes: int):
    """Features of one point a class but for noise, and some examples of no class."""
    generator = torch.Generator().manual_seed(1)
    labels = torch.randint(classes, (m,), generator=generator)
    x = torch.randn(classes, width, generator=generator)[labels]
    x += 0.3 * torch.randn(m, width, generator=generator)
    x[: m // 30] = torch.randn(m // 30, width, generator=generator)
    x = x.double()  # as networks compute them, in single precision
    return (x - x.mean(0)) / x.std(0, unbiased=False), labels


def test_few_steps_suffice_where_classes_are_nearly_separable(monkeypatch):
    """A step that went too far would leave all answers certain, and nothing to step by."""
    x, labels = collapsed(3000, 160, 200)
    monkeypatch.setattr(last_layer, "MAX_STEPS", 12)
    weight, bias = minimise_logistic(x, labels, 200, 2e-3)
    assert_minimum(x, labels, weight, bias, 2e-3)


def test_what_is_no_minimum_is_refused(monkeypatch):
    monkeypatch.setattr(last_layer, "MAX_STEPS", 2)
    with pytest.raises(ValueError, match="not found to a gradient of 1e-08 within 2 steps"):
        minimise_logistic(*features(200, 12), 4, 1e-3)


def test_scikit_learn_finds_the_same_minimum():
    x, labels = features(300, 20)
    decay = 1e-2
    weight, bias = minimise_logistic(x, labels, 4, decay)
    theirs = LogisticRegression(
        C=1 / (decay * len(x)), tol=1e-12, max_iter=2000, solver="newton-cg"
    )
    theirs.fit(x.numpy(), labels.numpy())
    ours = (x @ weight.mT + bias).numpy()
    logits = theirs.decision_function(x.numpy())
    # a constant added to all logits of an example changes nothing
    gap = (ours - ours.mean(1, keepdims=True)) - (logits - logits.mean(1, keepdims=True))
    assert np.abs(gap).max() <= 1e-5 * np.abs(logits).max()


@pytest.mark.parametrize("normalized", [True, False])
def test_a_layer_with_and_without_normalisation_gives_the_same_logits(normalized):
    x, labels = features(120, 6)
    x = (3 + 0.2 * x).float()
    linear, norm = nn.Linear(6, 4), nn.BatchNorm1d(6).eval() if normalized else None
    last = LastLayer(lambda z: z, norm, linear)
    parts = [(x[:50], labels[:50]), (x[50:], labels[50:])]
    accuracy = solve_classifier(last, parts, RECIPE).kept.accuracy
    logits = linear(x if norm is None else norm(x))
    assert float((logits.argmax(1) == labels).double().mean()) == pytest.approx(accuracy)
    standard = (x.double() - x.double().mean(0)) / x.double().std(0, unbiased=False)
    weight, bias = minimise_logistic(standard, labels, 4, 1e-3)
    torch.testing.assert_close(
        logits.detach().double(), standard @ weight.mT + bias, rtol=1e-4, atol=1e-4
    )


def test_a_constant_feature_does_no_harm():
    x, labels = features(80, 5)
    x[:, 2] = 1.0
    linear = nn.Linear(5, 4)
    solve_classifier(LastLayer(lambda z: z, None, linear), [(x.float(), labels)], RECIPE)
    assert bool(torch.isfinite(linear.weight).all())


def test_cached_latents_and_a_pass_over_the_data_give_the_same_classifier(data, vinet):
    options = {"trained": "classifier", "augment": False, "validation": 0.0, "progress": None}
    passed, cached = copy.deepcopy(vinet), copy.deepcopy(vinet)
    fine_tune(passed, data.train, **options)
    fine_tune(cached, data.train, views=1, **options)
    torch.testing.assert_close(passed.head.linear.weight, cached.head.linear.weight)
    assert passed.record.data is not None  # what it was trained on
    before, after = vinet.head.polynomials.state_dict(), passed.head.polynomials.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)  # they stay as they were found


def test_a_weight_keeps_polynomials_small_on_their_class(data, vinet):
    images, labels = next(iter(data.test.batches(len(data.test))))
    found = {}
    for weight in (0.0, 3.0):
        network = copy.deepcopy(vinet)
        recipe = {"epochs": 4, "batch_size": 64, "validation": 0.0, "augment": False}
        fine_tune(network, data.train, vanish=weight, progress=None, **recipe)
        with torch.no_grad():
            points = network.head.variables(network.latents(images))
        found[weight] = measure_vanishing(network.head.polynomials, [(points, labels)], 0.02)
    assert found[3.0].own_over_other < 0.95 * found[0.0].own_over_other
