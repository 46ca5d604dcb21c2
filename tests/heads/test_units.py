"""Units of forms: products, and ReLU units next to them."""

from functools import partial

import pytest
import torch
from torch import nn

from vinets.heads import ProductsHead, ProductsOptions, ReLUUnits, units
from vinets.heads.units import NormalizedForms, SpatialPatterns
from vinets.testing.heads import HeadContract, lived, small_latents

MADE = {
    "cubic": partial(ProductsHead, 6, 4, 3, count=5, rank=3, factors=3),
    "gated": partial(ProductsHead, 6, 4, 3, count=5, rank=4, offset=1.0),
    "ReLU": partial(ReLUUnits, 6, 4, 3, count=5, rank=2),
}


class TestUnits(HeadContract):
    @pytest.fixture(params=MADE)
    def head(self, request):
        return lived(MADE[request.param]()).eval()


@pytest.fixture(scope="module")
def small():
    return small_latents((6, 16), 3)


@pytest.mark.parametrize("kind", [ProductsHead, ReLUUnits])
@pytest.mark.parametrize("budget", [600, 2_000, 9_000])
def test_heads_to_measure_fill_their_budget_and_never_pass_it(small, kind, budget):
    head = kind.build(small, kind.Options(parameters=budget))
    size = sum(head.folded().parts().values())
    assert 0.85 * budget < size <= budget


def test_controls_are_as_large_as_products_are_asked_to_be(small):
    like = ProductsOptions(parameters=2_000, factors=3)
    options = ({"like": like}, {"parameters": 2_000})
    head, same = (ReLUUnits.build(small, ReLUUnits.Options(**o)) for o in options)
    assert head.parts() == same.parts()


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
            sums = ((values.square() @ weights).sum() for values in (found, expected))
            gradients = (torch.autograd.grad(one, forms.weight)[0] for one in sums)
            torch.testing.assert_close(*gradients, atol=1e-2, rtol=1e-3)
    forms.eval(), norm.eval(), standard.eval()
    # running moments are averages: those of forms and those that follow from channels are close
    agreed = forms(h).reshape(-1, 9), norm(standard(rows) @ forms.weight.mT)
    torch.testing.assert_close(*agreed, atol=0.1, rtol=0.05)
    torch.testing.assert_close(forms.folded()(h), forms(h), atol=1e-4, rtol=1e-4)


def test_there_is_always_a_unit_and_never_more_patterns_than_positions(small):
    tiny = ProductsHead.build(small, ProductsOptions(parameters=1, spatial_rank=50))
    assert tiny.count == 1 and len(tiny.spatial.weight) == 16
    assert len(ProductsHead.build(small, ProductsOptions(spatial_rank=None)).spatial.weight) == 16


def test_forms_start_at_the_size_of_their_variables():
    weight = NormalizedForms(400, 50).weight.detach()
    assert 0.8 < float(weight.norm(dim=1).mean()) < 1.2


@pytest.mark.parametrize("kind", [ProductsHead, ReLUUnits])
def test_large_forms_are_computed_once_more_for_gradients(kind, monkeypatch):
    """Gradients are the same, and need less memory until the batch is done."""

    def gradients(most: int) -> tuple[list[torch.Tensor], int]:
        torch.manual_seed(0)
        monkeypatch.setattr(units, "KEPT_VALUES", most)
        head, kept = kind(4, 100, 3, count=32, rank=2), dict[int, int]()
        latents = torch.randn(6, 4, 100, requires_grad=True)

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = head(latents).square().sum()
        loss.backward()
        return [latents.grad, *(p.grad for p in head.parameters())], sum(kept.values())

    plain, much = gradients(10**9)
    again, little = gradients(0)
    for one, other in zip(plain, again, strict=True):
        torch.testing.assert_close(one, other)
    assert little < much / 2
