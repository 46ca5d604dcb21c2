import numpy as np
import pytest
import torch

from vinets import ABM
from vinets.algebra.common_terms import SharedPolynomials, term_moments
from vinets.heads.facts import class_means, measure_vanishing
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.ideals.classwise import fit_class_ideals

RADII = (0.3, 0.6, 0.9)
PSI = 1e-4


def circles(seed: int, count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    angles = rng.uniform(0, 2 * np.pi, (len(RADII), count))
    points = np.stack([np.cos(angles), np.sin(angles)], -1) * np.array(RADII)[:, None, None]
    return points.reshape(-1, 2), np.repeat(np.arange(len(RADII)), count)


HELD = tuple(map(torch.from_numpy, circles(1)))  # points of the same circles, with their labels


@pytest.fixture(scope="module")
def ideals():
    return fit_class_ideals(*circles(0), ABM(psi=PSI, max_degree=2, normalization="leading"))


@pytest.fixture
def layer(ideals):
    shared = SharedPolynomials.of([ideal.generators_ for _, ideal in ideals])
    moments = term_moments(shared.terms, torch.from_numpy(circles(0)[0]))
    return PolynomialLayer.from_polynomials(shared, moments, classes=len(RADII))


@pytest.mark.parametrize("factor", [1.0, 7.0])
def test_generators_of_circles_vanish_on_their_own_circle_alone_however_scaled(layer, factor):
    with torch.no_grad():
        layer.weight.mul_(factor)
        layer.bias.mul_(factor)
    found = measure_vanishing(layer, [HELD], PSI)
    assert (found.points, found.smallest_own, found.satisfied) == (180, 1.0, 1.0)
    assert found.own_over_other < 1e-3 and found.mean_square < PSI


def test_mean_squares_are_those_of_the_generators_at_leading_coefficient_one(layer, ideals):
    points, labels = HELD
    # under the leading rule generators have leading coefficient 1
    expected = torch.cat([one.transform(points[labels == k]).square().mean(0) for k, one in ideals])
    found = measure_vanishing(layer, [HELD], PSI).mean_square
    assert found == pytest.approx(np.median(expected), abs=1e-9)


def test_means_are_taken_class_by_class(layer):
    points, labels = HELD
    parts = zip(points.split(100), labels.split(100), strict=True)
    means, squares, seen = class_means(layer, parts)
    values = layer(points.float()).double()
    for k in range(len(RADII)):
        torch.testing.assert_close(means[k], values[labels == k].mean(0))
        torch.testing.assert_close(squares[k], values[labels == k].square().mean(0))
    assert seen.tolist() == [60, 60, 60]


def test_other_polynomials_do_not_vanish(layer):
    with torch.no_grad():
        layer.draw(torch.Generator().manual_seed(0))
    found = measure_vanishing(layer, [HELD], PSI)
    assert found.smallest_own < 1 or found.satisfied == 0
    assert found.mean_square > 100 * PSI


def test_the_ratio_is_that_of_means_on_own_points_to_means_on_all_others(layer):
    layer.draw(torch.Generator().manual_seed(1))
    points, labels = (part[:150] for part in HELD)  # fewer of the last class
    values = layer(points.float()).double().detach()
    ratios = [
        values[labels == k, j].mean() / values[labels != k, j].mean()
        for j, k in enumerate(layer.owners)
    ]
    found = measure_vanishing(layer, [(points, labels)])
    assert found.own_over_other == pytest.approx(float(torch.stack(ratios).median()))


def test_a_dropped_leading_term_is_no_vanishing_polynomial(layer):
    layer.leading[0] = -1
    count = len(layer.bias)
    found = measure_vanishing(layer, [HELD], PSI)
    assert found.satisfied == pytest.approx((count - 1) / count)


def test_training_keeps_the_owners_through_a_file(layer):
    options = {k: v for k, v in layer.config().items() if k not in ("kind", "n_variables")}
    again = PolynomialLayer(layer.monomials.terms, **options)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again.owners, layer.owners) and torch.equal(again.leading, layer.leading)
