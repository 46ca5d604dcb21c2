"""Heads without polynomials: what linear ones see, and how wide a perceptron is."""

import pytest
import torch

from vinets.heads import MLPHead, PooledHead


def test_pooled_latents_are_means_over_positions():
    head, latents = PooledHead(5, 3).eval(), torch.randn(6, 5, 4)
    torch.testing.assert_close(head(latents), head(latents[:, :, torch.tensor([2, 0, 3, 1])]))


@pytest.mark.parametrize("parameters", [60, 500, 12_345])
def test_the_matched_width_is_the_largest_that_fits(parameters):
    head = MLPHead.matched(20, 3, parameters=parameters)
    wider = MLPHead(20, 3, width=head.hidden.out_features + 1)
    stored, more = (sum(one.folded().parts().values()) for one in (head, wider))
    assert stored <= parameters < more


def test_there_is_one_unit_at_least():
    assert MLPHead.matched(200, 3, parameters=10).hidden.out_features == 1
    with pytest.raises(ValueError, match=r"'width' parameter of MLPHead"):
        MLPHead(20, 3, width=0)
