from __future__ import annotations

import pytest
import torch


def test_the_order_says_what_the_polynomials_see(heads, latents):
    z = latents.flatten(1)
    first = heads["vanishing"]()
    expected = torch.tanh((first.projection(z) - first.rescale.mean) / first.rescale.std)
    torch.testing.assert_close(first.variables(latents), expected)
    assert first.variables(1e3 * latents).abs().max() <= 1
    last = heads["tanh first"]()
    squashed = torch.tanh((z - last.rescale.mean) / last.rescale.std)
    expected = squashed @ last.projection.weight.T + last.projection.bias
    torch.testing.assert_close(last.variables(latents), expected)


def test_a_path_adds_what_is_linear_in_the_latents(heads, latents):
    head = heads["narrow path"]().eval()
    with_path, path = head(latents), head.path
    head.path = None
    reduced = torch.einsum("wc,bcp->bwp", path.reduce.weight[:, :, 0], latents)
    linear = reduced.flatten(1) / path.scale @ path.out.weight.T
    torch.testing.assert_close(with_path, head(latents) + linear)


def test_an_unknown_order_is_refused(heads):
    config = heads["vanishing"]().config() | {"arguments": {"order": "pca"}}
    head = heads["vanishing"]()
    with pytest.raises(ValueError, match=r"'order' parameter of VanishingHead.*'pca'"):
        type(head).from_config(config, head.state_dict())
