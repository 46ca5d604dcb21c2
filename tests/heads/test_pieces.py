"""The pieces of heads, and the maps of their variables."""

import pytest
import torch
from torch import nn

from vinets.heads.pieces import LinearPath, SpatialSum, in_use
from vinets.heads.polynomial_layer import affine_of
from vinets.heads.vanishing import component_maps, components
from vinets.latent.pca import Projection
from vinets.latent.rescale import Rescale


@pytest.mark.parametrize("width", [2, 5])
def test_a_path_is_the_matrix_that_it_tells(width):
    path = LinearPath(5, 3, width, 4, scale=2.5)
    h = torch.randn(7, 5, 3)
    torch.testing.assert_close(path(h), h.flatten(1) @ path.matrix().T)
    torch.testing.assert_close(path.folded()(h), path(h))


def test_a_spatial_sum_starts_near_the_mean_over_positions():
    start = SpatialSum(200, 16).weight.detach()
    assert start.mean().item() == pytest.approx(1 / 16, rel=0.02)
    assert start.std().item() == pytest.approx(0.1 / 16, rel=0.05)


class Asks(nn.Module):
    """One if a network only runs, zero if gradients are wanted or it is exported."""

    def forward(self, x):
        return x + float(in_use())


@pytest.mark.skipif(not hasattr(torch.compiler, "is_exporting"), reason="torch 2.7 and later")
@pytest.mark.parametrize("strict", [True, False])
def test_what_is_compiled_is_in_use_and_what_is_exported_is_not(strict):
    torch.compiler.reset()
    compiled, zero = torch.compile(Asks(), backend="eager", fullgraph=True), torch.zeros(2)
    assert compiled(zero).tolist() == [0, 0]
    with torch.no_grad():
        assert compiled(zero).tolist() == [1, 1]
        exported = torch.export.export(Asks(), (zero,), strict=strict).module()
        assert exported(zero).tolist() == [0, 0]


@pytest.mark.parametrize("order", ["tanh-pca", "pca-tanh"])
def test_the_bound_on_variables_holds_and_is_attained(order):
    weight, bias = torch.randn(3, 6), torch.randn(3)
    size = 6 if order == "tanh-pca" else 3
    rescale = Rescale(torch.zeros(size), torch.ones(size))
    projection = Projection(weight, bias)
    _, reach = component_maps(rescale, projection, order, 6)
    far = 1e4 * torch.cat([weight.sign(), -weight.sign()])[:, :, None]  # tanh is 1 or -1 there
    largest = components(far, rescale, projection, order).abs().max().item()
    assert largest == pytest.approx(reach, rel=1e-5)


def test_a_local_head_with_channels_tells_them_beside_its_components(heads):
    head = heads["local"]()
    weight = head.projection.weight
    for head.channels, expected in (True, torch.cat([torch.eye(6), weight])), (False, weight):
        assert torch.equal(head.maps((6, 4)).before[-1].matrix, expected)


@pytest.mark.parametrize("lost", ["running_mean", "running_var"])
def test_normalisation_without_statistics_is_not_folded(lost):
    norm = nn.BatchNorm1d(3)
    setattr(norm, lost, None)
    with pytest.raises(ValueError, match="without running statistics"):
        affine_of(norm)
