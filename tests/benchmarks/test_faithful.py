"""Areas under the curves of deletion and insertion."""

from __future__ import annotations

import torch

from benchmarks.faithful import faithfulness

WEIGHTS = torch.linspace(-1, 2, 16).view(1, 4, 4)


def network(images):
    """The logit of class 1 is a weighted sum of pixels."""
    score = (images[:, 0] * WEIGHTS).sum((1, 2))
    return torch.stack([torch.zeros_like(score), score], 1)


IMAGES = 1 + torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
ANSWERS = torch.ones(5, dtype=torch.int64)
BLANK = torch.zeros_like(IMAGES)


def test_true_contributions_are_more_faithful_than_any_other_order():
    true = IMAGES[:, 0] * WEIGHTS
    best = faithfulness(network, IMAGES, true, ANSWERS, BLANK)
    worst = faithfulness(network, IMAGES, -true, ANSWERS, BLANK)
    for seed in range(5):
        drawn = torch.rand(5, 4, 4, generator=torch.Generator().manual_seed(seed))
        other = faithfulness(network, IMAGES, drawn, ANSWERS, BLANK)
        assert (best[0] <= other[0]).all() and (other[0] <= worst[0]).all()
        assert (best[1] >= other[1]).all() and (other[1] >= worst[1]).all()


def test_curves_begin_and_end_at_the_image_and_at_nothing():
    deleted, inserted = faithfulness(network, IMAGES, IMAGES[:, 0], ANSWERS, BLANK, steps=1)
    whole, none = (network(one).softmax(1)[:, 1].double() for one in (IMAGES, BLANK))
    torch.testing.assert_close(deleted, (whole + none) / 2)
    torch.testing.assert_close(inserted, deleted)
