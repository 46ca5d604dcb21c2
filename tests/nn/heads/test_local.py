from __future__ import annotations

import torch

from vinets.latent.rescale import Rescale
from vinets.nn import PolynomialLayer
from vinets.nn.heads import LocalHead, LocalReLUHead, Reference
from vinets.nn.heads.local import local_variables


def test_the_local_head_is_its_formula(heads, latents):
    """Position by position, polynomial by polynomial."""
    head = heads["local"]().eval()
    h = (latents - head.rescale.mean) / head.rescale.std
    y = torch.zeros(len(latents), len(head.polynomials.bias))
    for p in range(latents.shape[2]):
        variables = torch.tanh(head.projection(h[:, :, p]))
        y += head.spatial.weight[p] * head.polynomials(variables)
    torch.testing.assert_close(head(latents), head.linear(head.norm(y)))


def test_channels_come_before_components(heads):
    head = heads["local"]()
    h = torch.randn(5, 6)
    both = local_variables(h, head.projection, channels=True)
    assert torch.equal(both[:, :6], h)
    assert torch.equal(both[:, 6:], torch.tanh(head.projection(h)))
    assert local_variables(h, None, channels=True) is h


def test_without_a_projection_the_channels_are_the_variables(shared):
    layer = PolynomialLayer(shared.terms, 4)
    rescale = Rescale(torch.zeros(5, 2), torch.ones(5, 2), squash=False)
    head = LocalHead(rescale, None, layer, positions=2, classes=3).eval()
    latents = torch.randn(7, 5, 2)
    y = sum(head.spatial.weight[p] * layer(latents[:, :, p]) for p in range(2))
    torch.testing.assert_close(head(latents), head.linear(head.norm(y)))
    config = head.config()
    again = LocalHead.from_config(config, head.state_dict())
    again.load_state_dict(head.state_dict())
    assert torch.equal(again.eval()(latents), head(latents))


def test_the_control_has_the_shape_and_other_numbers(heads):
    head = heads["local path"]()
    beside = Reference((6, 4), 3, lambda: head, lambda: None, seed=2)
    control = LocalReLUHead.beside(beside)
    assert type(control) is LocalReLUHead and control.parts() == head.parts()
    assert control.polynomials.activation == "relu"
    assert not torch.equal(control.polynomials.weight, head.polynomials.weight)
    assert torch.equal(control.polynomials.scale, head.polynomials.scale)
    same = LocalReLUHead.beside(beside)
    assert torch.equal(control.polynomials.weight, same.polynomials.weight)


def test_batches_beyond_the_cache_are_split_without_a_trace(heads, latents, monkeypatch):
    head = heads["local path"]().eval()
    with torch.no_grad():
        whole = head(latents)
        monkeypatch.setitem(head.features.__func__.__globals__, "CACHED", 1)  # an image at a time
        assert head._may_split(latents)
        torch.testing.assert_close(head(latents), whole)
    assert not head._may_split(latents)  # gradients are wanted
    with torch.no_grad():
        assert not head.train()._may_split(latents)  # batch statistics need the whole batch
