from __future__ import annotations

import pytest
import torch

from vinets.nn import LinearHead, MLPHead


@pytest.mark.parametrize("numbers", [60, 500, 12_345])
def test_the_matched_width_is_the_largest_that_fits(numbers):
    head = MLPHead.matched(5, 4, 3, numbers=numbers)
    width = head.hidden.out_features
    stored = sum(head.folded().parts().values())
    wider = sum(MLPHead(5, 4, 3, width=width + 1).folded().parts().values())
    assert stored <= numbers < wider


def test_one_unit_at_least():
    assert MLPHead.matched(50, 4, 3, numbers=10).hidden.out_features == 1


def test_pooled_latents_are_means_over_positions():
    head = LinearHead(5, 4, 3, pooling="pooled").eval()
    latents = torch.randn(6, 5, 4)
    shuffled = latents[:, :, torch.tensor([2, 0, 3, 1])]
    torch.testing.assert_close(head(latents), head(shuffled))
    assert head.linear.in_features == 5 and LinearHead(5, 4, 3).linear.in_features == 20


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"'pooling' parameter of LinearHead.*'max'"):
        LinearHead(5, 4, 3, pooling="max")
    with pytest.raises(ValueError, match=r"'width' parameter of MLPHead"):
        MLPHead(5, 4, 3, width=0)
