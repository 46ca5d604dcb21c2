import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from vinets import ChristoffelClassifier
from vinets.heads import DistanceHead
from vinets.heads.class_distances import (
    ClassDistances,
    ClassSpace,
    calibrate,
    choose_space,
    class_forms,
    class_moments,
    draw_folds,
    fit_distances,
    held_out,
    products_of,
    spaces,
    try_spaces,
)
from vinets.testing.heads import HeadContract, lived


def drawn(*, shared: bool = False) -> ClassDistances:
    made = ClassDistances(6, products_of(3, 2, 2), 3, shared=shared)
    for buffer in made.buffers():
        if buffer.is_floating_point():
            buffer.copy_(0.5 * torch.randn(buffer.shape))
    return made


class TestDistances(HeadContract):
    @pytest.fixture(params=[False, True])
    def head(self, request) -> DistanceHead:
        return lived(DistanceHead(drawn(shared=request.param))).eval()


def test_distances_are_sums_of_squared_polynomials():
    one = drawn().double()
    features = torch.randn(4, 6, dtype=torch.float64)
    z = torch.tanh(features @ one.weight.mT + one.bias)
    v = torch.cat([z, z[:, :1] ** 2, z[:, :1] * z[:, 1:2], z[:, 1:2] ** 2], 1)
    for k in range(3):
        polynomials = v @ one.forms[k].mT + one.offsets[k]
        torch.testing.assert_close(one(features)[:, k], 1 + polynomials.square().sum(1))


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    X, y = load_digits(return_X_y=True)
    return torch.from_numpy(X / 16).double(), torch.from_numpy(y)


LINE, SQUARE = ClassSpace(2, shrink=1.0), ClassSpace(2, 2, 2, shrink=0.0, epsilon=0.01)


def curves(count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """A circle and a ring around it: no line, and no mean, tells them apart."""
    generator = torch.Generator().manual_seed(seed)
    angle = 2 * torch.pi * torch.rand(2 * count, generator=generator, dtype=torch.float64)
    labels = torch.arange(2).repeat_interleave(count)
    radius = torch.where(labels == 0, 0.5, 1.0)
    radius = radius + 0.03 * torch.randn(2 * count, generator=generator, dtype=torch.float64)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], 1), labels


def test_forms_give_the_sum_over_eigenvectors():
    # K = 1 + sum of p_i^2 / (lambda_i + epsilon), as the documentation says
    values, labels = torch.randn(60, 5, dtype=torch.float64), torch.arange(3).repeat(20)
    forms, offsets = class_forms(class_moments(values, labels, 3), 0.0, 0.1)
    new = torch.randn(7, 5, dtype=torch.float64)
    for k in range(3):
        mine = values[labels == k].numpy()
        squares, vectors = np.linalg.eigh(np.cov(mine.T, bias=True))
        p = (new.numpy() - mine.mean(0)) @ vectors
        expected = (p**2 / (squares + 0.1)).sum(1)
        found = (new @ forms[k].mT + offsets[k]).square().sum(1)
        np.testing.assert_allclose(found.numpy(), expected)


def test_mean_of_a_christoffel_function_counts_the_monomials():
    # on its own points, with epsilon near 0, K has the mean 1 + S
    points, labels = curves(400)
    space = ClassSpace(2, 2, 2, shrink=0.0, epsilon=1e-9)
    found = fit_distances(points, labels, space, 2)(points)
    own = found[torch.arange(len(labels)), labels]
    for k in range(2):
        assert own[labels == k].mean() == pytest.approx(1 + 5, rel=1e-4)


def test_a_shared_covariance_of_degree_one_is_linear_discriminant_analysis(digits):
    X, y = digits
    found = fit_distances(X, y, ClassSpace(20, shrink=1.0, epsilon=1e-9), 10)
    z = found.variables(X).numpy()
    expected = LinearDiscriminantAnalysis(priors=np.full(10, 0.1)).fit(z, y).predict(z)
    assert (found(X).argmin(1).numpy() == expected).all()


def test_cross_validation_chooses_degree_two_where_one_does_not_tell_circles():
    points, labels = curves(200)
    tried = try_spaces(points, labels, [LINE, SQUARE], 2)
    assert choose_space(tried).space == SQUARE
    accuracies = {one.space: one.accuracy for one in tried}
    assert accuracies[LINE] < 0.7 and accuracies[SQUARE] > 0.97


def test_classes_that_share_a_covariance_share_its_matrix():
    points, labels = curves(100)
    shared = fit_distances(points, labels, ClassSpace(2, 2, 2, shrink=1.0), 2)
    near = fit_distances(points, labels, ClassSpace(2, 2, 2, shrink=1 - 1e-9), 2)
    assert len(shared.forms) == 1 and len(near.forms) == 2
    torch.testing.assert_close(shared(points), near(points), rtol=1e-6, atol=0)


def test_held_points_judge_in_place_of_folds():
    # told the wrong way round, they choose what does worst
    points, labels = curves(200)
    new, truth = curves(100, seed=1)
    for answer, best in ((truth, SQUARE), (1 - truth, LINE)):
        tried = try_spaces(points, labels, [LINE, SQUARE], 2, held=(new, answer))
        assert choose_space(tried).space == best


def test_held_out_points_are_further_away(digits):
    X, y = digits
    space = ClassSpace(16, 16, 2, shrink=0.1, epsilon=0.01)
    own = fit_distances(X, y, space, 10)(X)
    held = held_out(X, y, space, 10)
    here = torch.arange(len(y))
    assert held[here, y].mean() > 1.2 * own[here, y].mean()


def test_folds_are_even_and_every_class_is_in_each():
    labels = torch.arange(4).repeat_interleave(9)
    folds = torch.stack(draw_folds(labels, 3, seed=0))
    assert (folds.sum(0) == 1).all()
    assert all((folds[:, labels == k].sum(1) == 3).all() for k in range(4))


def test_calibration_finds_the_temperature_that_made_the_labels():
    generator = torch.Generator().manual_seed(0)
    logs = torch.rand(20_000, 4, generator=generator, dtype=torch.float64) * 3
    bias = torch.tensor([0.5, 0.0, 0.0, -0.5], dtype=torch.float64)
    chances = (bias - 2.5 * logs).softmax(1)
    labels = torch.multinomial(chances, 1, generator=generator)[:, 0]
    temperature, found = calibrate(logs, labels)
    assert temperature == pytest.approx(2.5, rel=0.05)
    assert (found - bias).abs().max() < 0.08


def test_the_estimator_classifies_and_its_distances_are_at_least_one(digits):
    X, y = (t.numpy() for t in digits)
    model = ChristoffelClassifier().fit(X[::2], y[::2])
    assert model.score(X[1::2], y[1::2]) > 0.95 and model.space_ in spaces()
    assert model.distance(X).min() >= 1
    shares = model.predict_proba(X)
    np.testing.assert_allclose(shares.sum(1), 1)
    assert (model.classes_[shares.argmax(1)] == model.predict(X)).all()


@pytest.mark.parametrize("labels", [[0, 0, 0, 1], [0, 0, 2, 2]])
def test_classes_without_enough_examples_are_refused_in_a_sentence(labels):
    points, given = torch.randn(4, 2), torch.tensor(labels)
    with pytest.raises(ValueError, match="example"):
        try_spaces(points, given, [ClassSpace(2)], 3)
