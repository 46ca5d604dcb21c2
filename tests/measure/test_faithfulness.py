from __future__ import annotations

import pytest
import torch

from vinets.measure.faithfulness import faithfulness

WEIGHTS = torch.linspace(-1, 2, 16).view(1, 4, 4)


def network(images):
    """The logit of class 1 is a weighted sum of pixels."""
    score = (images[:, 0] * WEIGHTS).sum((1, 2))
    return torch.stack([torch.zeros_like(score), score], 1)


IMAGES = 1 + torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
ANSWERS = torch.ones(5, dtype=torch.int64)


def test_curves_begin_and_end_at_the_image_and_at_nothing():
    found = faithfulness(network, IMAGES, torch.rand(5, 4, 4), ANSWERS, nothing=0.5, steps=4)
    whole = network(IMAGES).softmax(1)[:, 1].double()
    none = network(torch.full_like(IMAGES, 0.5)).softmax(1)[:, 1].double()
    torch.testing.assert_close(found.deletion[:, [0, -1]], torch.stack([whole, none], 1))
    torch.testing.assert_close(found.insertion[:, [0, -1]], torch.stack([none, whole], 1))


def test_true_contributions_are_more_faithful_than_any_other_order():
    true = IMAGES[:, 0] * WEIGHTS
    best = faithfulness(network, IMAGES, true, ANSWERS, steps=16)
    worst = faithfulness(network, IMAGES, -true, ANSWERS, steps=16)
    for seed in range(5):
        drawn = torch.rand(5, 4, 4, generator=torch.Generator().manual_seed(seed))
        other = faithfulness(network, IMAGES, drawn, ANSWERS, steps=16)
        assert (best.deleted <= other.deleted).all() and (other.deleted <= worst.deleted).all()
        assert (best.inserted >= other.inserted).all() and (other.inserted >= worst.inserted).all()


def test_a_constant_network_has_its_probability_as_area():
    found = faithfulness(lambda x: x.new_zeros(len(x), 4), IMAGES, IMAGES[:, 0], ANSWERS)
    torch.testing.assert_close(found.deleted, torch.full((5,), 0.25).double())


def test_maps_of_another_size_are_refused():
    with pytest.raises(ValueError, match="a value a pixel"):
        faithfulness(network, IMAGES, torch.rand(5, 2, 2), ANSWERS)
