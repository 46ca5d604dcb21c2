"""Products of forms, ReLU units beside them, and the projector of SimKD."""

import numpy as np
import pytest
import torch
from torch import nn

from vinets import collect
from vinets.heads import ProductsHead, ProductsOptions, ReLUUnits, SimKDHead
from vinets.heads.units import NormalizedForms, SpatialPatterns
from vinets.latent.reader import sees_negative
from vinets.testing.heads import HeadContract, lived


class TestProducts(HeadContract):
    def make(self):
        return ProductsHead(6, 4, 3, count=5, rank=3, factors=3)


class TestGatedProducts(HeadContract):
    def make(self):
        return ProductsHead(6, 4, 3, count=5, rank=4, factors=2, offset=1.0)


class TestReLUUnits(HeadContract):
    def make(self):
        return ReLUUnits(6, 4, 3, count=5, rank=2)


class TestSimKD(HeadContract):
    def make(self):
        return SimKDHead(6, 4, 3, features=7, width=5)


class TestSimKDSigned(HeadContract):
    def make(self):
        return SimKDHead(6, 4, 3, features=7, width=5, signed=True)


class TestSimKDWithoutSquare(HeadContract):
    shape = (6, 5)

    def make(self):
        return SimKDHead(6, 5, 3, features=7, width=5)


def uncut(last=nn.ReLU):
    """A network whose classifier sees 20 values of one sign, unless another layer is last."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Identity(), nn.Flatten(), nn.Linear(96, 20), last(), nn.Linear(20, 3))


def latents_of(network):
    data = torch.randn(30, 6, 16, 1), torch.arange(30) % 3
    return collect(network, data, "0", reuse=True, progress=None)


@pytest.fixture(scope="module")
def small():
    return latents_of(uncut())


@pytest.mark.parametrize("kind", [ProductsHead, ReLUUnits, SimKDHead])
@pytest.mark.parametrize("budget", [600, 2_000, 9_000])
def test_heads_to_measure_fill_their_budget_and_never_pass_it(small, kind, budget):
    head = kind.build(small, kind.Options(parameters=budget))
    size = sum(head.folded().parts().values())
    assert 0.85 * budget < size <= budget


@pytest.mark.parametrize("kind", [ReLUUnits, SimKDHead])
def test_controls_are_as_large_as_products_are_asked_to_be(small, kind):
    like = ProductsOptions(parameters=2_000, factors=3)
    head, same = (
        kind.build(small, kind.Options(**o)) for o in ({"like": like}, {"parameters": 2_000})
    )
    assert head.parts() == same.parts()


@pytest.mark.parametrize("factors", [1, 2, 3, 4])
def test_products_expand_to_ordinary_polynomials(factors):
    head = ProductsHead(4, 9, 3, count=5, rank=4, factors=factors)
    lived(head).eval().double()
    points = torch.randn(20, 4, dtype=torch.float64)
    plain = head.folded()
    expected = plain.units(plain.forms(points))
    found = head.to_polynomials()
    np.testing.assert_allclose(found.evaluate(points), expected.detach(), rtol=1e-9, atol=1e-12)
    assert found.terms.degrees.max() == factors


def test_an_expansion_that_nobody_could_read_is_refused():
    head = ProductsHead(64, 4, 3, count=2, rank=2, factors=5)
    with pytest.raises(ValueError, match="factored form"):
        head.to_polynomials()


def test_patterns_begin_as_low_frequencies():
    sums = SpatialPatterns(2, 16, 3)
    patterns = sums.patterns.detach() * 16
    torch.testing.assert_close(patterns[0], torch.ones(16))
    torch.testing.assert_close(patterns @ patterns.mT / 16, torch.eye(3), atol=1e-5, rtol=0)
    grid = patterns[1].view(4, 4)  # varies along one axis only
    assert (grid.std(0).max() < 1e-6) != (grid.std(1).max() < 1e-6)


def test_sums_are_those_of_the_weights_at_every_position():
    sums = SpatialPatterns(5, 7, 4)
    y = torch.randn(3, 7, 5)
    torch.testing.assert_close(sums(y), (y * sums.matrix()).sum(1))


def test_forms_are_batch_normalised():
    forms, norm = NormalizedForms(6, 9), nn.BatchNorm1d(9)
    standard = nn.BatchNorm1d(6, affine=False)
    with torch.no_grad():
        for p, q in ((forms.gain, norm.weight), (forms.bias, norm.bias)):
            p.copy_(torch.randn(9))
            q.copy_(p)
    mixed = torch.randn(6, 6)
    for step in range(200):
        h = torch.randn(50, 4, 6) @ mixed + torch.arange(6.0)
        rows = h.reshape(-1, 6)
        expected = norm(standard(rows) @ forms.weight.mT)
        found = forms(h).reshape(-1, 9)
        if step == 0:
            torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-3)
            weights = torch.randn(9)
            gradients = [
                torch.autograd.grad((values.square() @ weights).sum(), forms.weight)[0]
                for values in (found, expected)
            ]
            torch.testing.assert_close(*gradients, atol=1e-2, rtol=1e-3)
    forms.eval(), norm.eval(), standard.eval()
    # running moments are averages: those of forms and those that follow from channels are close
    agreed = forms(h).reshape(-1, 9), norm(standard(rows) @ forms.weight.mT)
    torch.testing.assert_close(*agreed, atol=0.1, rtol=0.05)
    torch.testing.assert_close(forms.folded()(h), forms(h), atol=1e-4, rtol=1e-4)


def test_the_loss_of_simkd_is_the_distance_of_features():
    head = SimKDHead(6, 4, 3, features=7, width=5).train()
    latents, taught = torch.randn(8, 6, 4), torch.rand(8, 7)
    logits = head(latents)
    seen = head.features(latents)
    loss = head.criterion(logits, torch.zeros(8, dtype=torch.int64), taught, None)
    torch.testing.assert_close(loss, (seen - taught).square().mean() / taught.square().mean())
    assert not any(p.requires_grad for p in head.classifier.parameters())


def test_the_classifier_of_the_uncut_network_is_taken_over(small):
    ours, head = small.uncut[-1], SimKDHead.build(small)
    assert torch.equal(head.classifier.weight, ours.weight)
    assert torch.equal(head.classifier.bias, ours.bias)
    assert head.classifier.weight.data_ptr() != ours.weight.data_ptr()


def test_features_are_negative_where_those_of_the_uncut_network_are(small):
    h = torch.randn(8, 6, 16)
    assert SimKDHead.build(small).features(h).min() >= 0
    signed = latents_of(uncut(lambda: nn.LayerNorm(20)))
    assert SimKDHead.build(signed).features(h).min() < 0


def test_whether_a_classifier_sees_negative_numbers_is_asked_of_the_network():
    behind_relu = nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 3))
    behind_norm = nn.Sequential(nn.Linear(4, 9), nn.LayerNorm(9), nn.Linear(9, 3))
    example = torch.ones(2, 4)
    assert not sees_negative(behind_relu, example) and sees_negative(behind_norm, example)


def test_the_vanishing_loss_is_the_share_of_the_size_on_the_own_class():
    head = ProductsHead(4, 3, 2, count=4, rank=2).train()
    head.watched = True
    labels = torch.tensor([0, 0, 1, 1, 1])
    head(torch.randn(5, 4, 3))
    sizes = torch.cat(head.seen).detach()
    shares = []
    for j, owner in enumerate([0, 1, 0, 1]):
        own, other = sizes[labels == owner, j].mean(), sizes[labels != owner, j].mean()
        shares.append(own / other)
    torch.testing.assert_close(
        head.vanishing_loss(labels), torch.stack(shares).mean(), rtol=1e-4, atol=1e-5
    )


def test_classes_that_a_batch_does_not_hold_say_nothing():
    head = ProductsHead(4, 3, 3, count=3, rank=2).train()
    head.watched = True
    head(torch.randn(4, 4, 3))
    sizes, labels = torch.cat(head.seen).detach(), torch.tensor([0, 0, 1, 1])
    expected = sum(
        sizes[labels == k, k].mean() / (sizes[labels != k, k].mean() + 1e-6) for k in (0, 1)
    )
    torch.testing.assert_close(head.vanishing_loss(labels), expected / 2)


def test_the_first_products_are_those_that_are_given():
    head = ProductsHead(4, 3, 2, count=5, rank=2)
    before = head.forms.weight.detach().clone().unflatten(0, (2, 5))
    weight, gain = torch.randn(2, 3, 4), torch.tensor([[0.5, 0.0, 1.0], [0.7, 1.0, 0.2]])
    bias, owners = torch.randn(2, 3), torch.tensor([1, 1, 0])
    head.start_from(weight, gain, bias, owners)
    rows = head.forms.weight.detach().unflatten(0, (2, 5))
    assert torch.equal(rows[0, [0, 2]], weight[0, [0, 2]]) and torch.equal(rows[1, :3], weight[1])
    assert torch.equal(rows[0, 1], before[0, 1])  # a constant factor keeps a direction to move into
    assert torch.equal(rows[:, 3:], before[:, 3:])
    assert torch.equal(head.forms.gain.detach().unflatten(0, (2, 5))[:, :3], gain)
    assert torch.equal(head.forms.bias.detach().unflatten(0, (2, 5))[:, :3], bias)
    assert head.owners.tolist() == [1, 1, 0, 1, 0]


def test_there_is_always_a_unit_and_never_more_patterns_than_positions(small):
    tiny = ProductsHead.build(small, ProductsOptions(parameters=1, spatial_rank=50))
    assert tiny.count == 1 and len(tiny.spatial.weight) == 16
    assert len(ProductsHead.build(small, ProductsOptions(spatial_rank=None)).spatial.weight) == 16


def test_forms_start_at_the_size_of_their_variables():
    weight = NormalizedForms(400, 50).weight.detach()
    assert 0.8 < float(weight.norm(dim=1).mean()) < 1.2


def test_nobody_keeps_sizes_that_nobody_asked_for():
    head = ProductsHead(4, 3, 2, count=5, rank=2).train()
    head(torch.randn(4, 4, 3))
    assert not head.seen


@pytest.mark.filterwarnings("error:.*side effects")
def test_a_strict_export_finds_nothing_that_the_forward_pass_changes():
    head = ProductsHead(4, 3, 2, count=5, rank=2).eval()
    latents = torch.randn(2, 4, 3)
    program = torch.export.export(head, (latents,), strict=True)
    assert torch.allclose(program.module()(latents), head(latents), atol=1e-6)


def test_sizes_are_those_of_the_whole_batch_however_it_is_run():
    head = ProductsHead(8, 64, 4, count=600, rank=2).train()  # on a CPU a few images at a time
    head.watched = True
    labels = torch.arange(40) % 4
    head(torch.randn(40, 8, 64))
    assert torch.cat(head.seen).shape == (40, 600)
    assert torch.isfinite(head.vanishing_loss(labels))


@pytest.mark.parametrize("budget", [900, 4_000, 40_000])
def test_simkd_is_the_widest_that_fits(small, budget):
    head = SimKDHead.build(small, SimKDHead.Options(parameters=budget))
    wider = SimKDHead(6, 16, 3, features=20, width=head.width + 1)
    assert sum(head.folded().parts().values()) <= budget
    assert sum(wider.folded().parts().values()) > budget


def test_simkd_is_normalised_and_not_signed_unless_told():
    torch.manual_seed(0)
    head, h = SimKDHead(6, 4, 3, features=7, width=5), torch.randn(64, 6, 4)
    seen = head.features(h)
    assert seen.min() >= 0
    assert SimKDHead(6, 4, 3, features=7, width=5, signed=True).features(h).min() < 0
    # what enters the last ReLU has mean 0 and variance 1, so a half of it is above
    torch.testing.assert_close(seen.mean(), torch.tensor(0.4), rtol=0, atol=0.1)
