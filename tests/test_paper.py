"""The paper's pipeline once more, lines 3 to 15, in NumPy, SciPy and scikit-learn alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from reference import least_squares, plain_loop
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from vinets import build, fine_tune
from vinets.data import digits
from vinets.models import digits_cnn
from vinets.training import train_classifier

N, PSI, KEEP, DECAY = 8, 0.02, 12, 1e-2


@pytest.fixture(scope="module")
def data():
    return digits(seed=3)


@pytest.fixture(scope="module")
def model(data):
    torch.manual_seed(0)
    network = digits_cnn()
    recipe = {"epochs": 3, "batch_size": 64, "learning_rate": 0.1, "validation": 0.0}
    train_classifier(network, data.train, progress=None, **recipe)
    return network.eval()


@pytest.fixture(scope="module")
def vinet(model, data):
    network, _ = build(
        model,
        data.train,
        "pool",
        **{"components": N, "psi": PSI, "max_degree": 2, "keep": KEEP, "monomials": None},
        # more than there are: ideals are fitted to all examples, and scored on them
        **{"per_class": 1000, "pca": "exact", "progress": None},
    )
    options = {"weight_decay": DECAY, "augment": False, "validation": 0.0}
    fine_tune(network, data.train, trained="classifier", progress=None, **options)
    return network.eval()


def latents(model, source):
    """Line 3: what the truncated network makes of the images, flat, in float64."""
    images, labels = next(iter(source.batches(len(source))))
    with torch.no_grad():
        first = model.relu1(model.bn1(model.conv1(images)))
        pooled = model.pool(model.relu2(model.bn2(model.conv2(first))))
    return pooled.flatten(1).double().numpy(), labels.numpy()


def evaluate(ideal, z):
    """Line 6: every generator is a leading term plus least squares on what was kept before it."""
    values = {term: np.prod(z[:, list(term)], axis=1) for term in ideal.order_ideal + ideal.leading}
    kept = np.stack([values[term] for term in ideal.order_ideal], 1)
    columns = [kept[:, : len(c) - 1] @ c[:-1] + values[term] for term, c, _ in ideal.generators]
    return np.abs(np.stack(columns, 1))


@pytest.fixture(scope="module")
def independent(model, data, vinet):
    z, y = latents(model, data.train)
    t, _ = latents(model, data.test)
    pca = PCA(N, svd_solver="full").fit(z)  # line 4, components of unit variance, then line 5
    scale = np.sqrt(pca.explained_variance_)
    signs = np.sign((vinet.head.projection.weight.double().numpy() * pca.components_).sum(1))
    train, test = (np.tanh(signs * pca.transform(a) / scale) for a in (z, t))
    features, tested = [], []
    for k in range(10):
        ideal = plain_loop(train[y == k], PSI, least_squares, max_degree=2)
        values = evaluate(ideal, train)
        means = np.stack([values[y == j].mean(0) for j in range(10)])
        score = np.delete(means, k, 0).min(0)  # lines 7 to 10: small here, not small elsewhere
        best = np.sort(np.argsort(-score)[:KEEP])
        features.append(values[:, best])
        tested.append(evaluate(ideal, test)[:, best])
    return np.concatenate(features, 1), y, np.concatenate(tested, 1)


def test_the_values_of_the_generators_are_those_of_an_independent_fit(vinet, independent, data):
    images, _ = next(iter(data.test.batches(len(data.test))))
    head = vinet.head
    with torch.no_grad():
        ours = head.features(vinet.latents(images)).double()
        ours /= head.polynomials.leading_coefficients().abs()  # rows are kept at unit norm
    theirs = independent[2]
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-5 * np.abs(theirs).max())


def test_the_classifier_is_the_minimiser_of_the_regularised_loss(vinet, independent, data):
    features, y, tested = independent
    mean, std = features.mean(0), features.std(0)
    options = {"solver": "newton-cg", "tol": 1e-12, "max_iter": 5000}
    theirs = LogisticRegression(C=1 / (DECAY * len(y)), **options).fit((features - mean) / std, y)
    logits = theirs.decision_function((tested - mean) / std)
    images, _ = next(iter(data.test.batches(len(data.test))))
    with torch.no_grad():
        ours = vinet(images).double().numpy()
    # what is added to all logits of an image changes nothing
    gap = (ours - ours.mean(1, keepdims=True)) - (logits - logits.mean(1, keepdims=True))
    assert np.abs(gap).max() <= 1e-5 * np.abs(logits).max()
