import copy

import numpy as np
import pytest
import torch
from head_fixtures import next_to

from vinets.algebra.terms import TermSet
from vinets.heads import LocalHead, LocalReLUHead, ProductsHead, ReLUUnits, pieces
from vinets.heads.polynomial_layer import PolynomialLayer
from vinets.latent.rescale import Rescale
from vinets.testing.heads import lived


@pytest.mark.parametrize("projected", [True, False])
def test_the_local_head_is_its_formula(heads, latents, projected):
    head = lived(heads["local"]() if projected else wide(LocalHead)).eval()
    h = (latents - head.rescale.mean) / head.rescale.std
    # without a projection the channels are the variables
    points = [torch.tanh(head.projection(z)) if projected else z for z in h.unbind(-1)]
    values = (head.polynomials(z) for z in points)
    y = sum(weight * value for weight, value in zip(head.spatial.weight, values, strict=True))
    torch.testing.assert_close(head(latents), head.linear(head.norm(y)))
    again = LocalHead.from_config(head.config(), head.state_dict())
    again.load_state_dict(head.state_dict())
    assert torch.equal(again.eval()(latents), head(latents))


def test_channels_come_before_components(heads, latents):
    head = heads["local"]()
    components, head.channels = head.variables(latents), True
    h = head.rescale(latents).mT
    assert torch.equal(head.variables(latents), torch.cat([h, components], -1))
    head.projection = None
    assert torch.equal(head.variables(latents), h)


def test_the_control_has_relus_on_monomials_of_the_same_scale(heads):
    head = heads["local path"]()
    control = next_to(LocalReLUHead, head).polynomials
    assert control.activation == "relu" and torch.equal(control.scale, head.polynomials.scale)


def wide(local):
    """A local head of enough polynomials to be normalised by the moments of their variables."""
    terms = TermSet.from_exponents(np.eye(6, dtype=int))
    layer = PolynomialLayer(terms, 20, normalized=True)
    rescale = Rescale(torch.zeros(6, 4), torch.ones(6, 4), squash=False)
    return local(rescale, None, layer, 3, positions=4)


MADE = {
    "local path": lambda heads: heads["local path"](),  # more monomials than polynomials
    "local": lambda heads: wide(LocalHead),
    "local ReLU": lambda heads: wide(LocalReLUHead),
    "products": lambda heads: ProductsHead(6, 4, 3, count=5, rank=3, factors=3),
    "products, folded": lambda heads: ProductsHead(6, 4, 3, count=5, rank=3, normalized=False),
    "ReLU units": lambda heads: ReLUUnits(6, 4, 3, count=5, rank=2),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("training", [False, True])
def test_batches_beyond_the_cache_are_split(heads, latents, name, training, monkeypatch):
    whole = MADE[name](heads).double().train(training)
    split = copy.deepcopy(whole)
    inputs = [latents.double().requires_grad_() for _ in range(2)]
    found = []
    for head, given, cached in zip((whole, split), inputs, (1 << 30, 1), strict=True):
        monkeypatch.setattr(pieces, "CACHED_VALUES", cached)  # 1: an image at a time
        found.append(head(given))
        found[-1].square().sum().backward()
    torch.testing.assert_close(*found)
    torch.testing.assert_close(*(given.grad for given in inputs))
    assert_trained_alike(split, whole)


def assert_trained_alike(head, expected):
    torch.testing.assert_close(dict(head.state_dict()), dict(expected.state_dict()))
    for p, q in zip(head.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def frozen(head):
    head.projection.requires_grad_(False)
    return head


SPLIT = {
    "components": lambda heads: frozen(heads["local"]()),
    "channels": lambda heads: wide(LocalHead),
    "ReLU": lambda heads: wide(LocalReLUHead),
}


@pytest.mark.parametrize("name", SPLIT)
@pytest.mark.parametrize("training", [False, True])
def test_behind_its_variables_a_head_is_the_same(heads, latents, name, training):
    whole = lived(SPLIT[name](heads)).double().train(training)
    twin = copy.deepcopy(whole)
    front, behind = twin.split()
    assert {id(p) for p in behind.parameters()} == {id(p) for p in twin.trained_parameters()}
    logits = whole(latents.double())
    found = behind(front(latents.double()))
    torch.testing.assert_close(found, logits)
    found.square().sum().backward()
    logits.square().sum().backward()
    assert_trained_alike(twin, whole)


def test_what_is_trained_in_front_is_not_split_off(heads):
    head = frozen(heads["local"]())
    assert head.split() is not None
    assert frozen(heads["local path"]()).split() is None
    head.projection.requires_grad_()
    assert head.split() is None


def test_a_large_batch_is_really_split(monkeypatch):
    monkeypatch.setattr(pieces, "CACHED_VALUES", 60)
    seen = []
    found = pieces.by_parts(lambda part: seen.append(len(part)) or part, torch.ones(8, 5), 20)
    assert seen == [3, 3, 2] and torch.equal(found, torch.ones(8, 5))


@pytest.mark.parametrize("kind", [LocalHead, LocalReLUHead])
def test_training_follows_autocast(kind, latents):
    head = wide(kind)
    twin = copy.deepcopy(head)
    exact = head(latents)
    with torch.autocast("cpu", torch.bfloat16):
        found = twin(latents)
    torch.testing.assert_close(found.float(), exact, rtol=0.05, atol=0.05)
    assert not torch.equal(found.float(), exact)
    found.float().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in twin.parameters() if p.grad is not None)
