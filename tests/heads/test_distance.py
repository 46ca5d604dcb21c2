from __future__ import annotations

import torch

from vinets.heads import DistanceHead
from vinets.heads.class_distances import ClassDistances, products_of
from vinets.testing.heads import HeadContract


def drawn(features: int = 6, classes: int = 3, shared: bool = False) -> ClassDistances:
    made = ClassDistances(features, products_of(3, 2, 2), classes, shared=shared)
    for name, buffer in made.named_buffers():
        if buffer.is_floating_point():
            buffer.copy_(0.5 * torch.randn(buffer.shape))
            assert name
    return made


class TestDistances(HeadContract):
    def make(self) -> DistanceHead:
        return DistanceHead(drawn())


class TestSharedDistances(HeadContract):
    def make(self) -> DistanceHead:
        return DistanceHead(drawn(shared=True))


def test_logits_are_logarithms_of_distances():
    torch.manual_seed(0)
    head = DistanceHead(drawn()).double()
    latents = torch.randn(5, 6, 4, dtype=torch.float64)
    with torch.no_grad():
        head.temperature.fill_(2.0)
        head.bias.copy_(torch.tensor([1.0, 0.0, -1.0]))
    expected = head.bias - 2 * head.distance(latents).log()
    torch.testing.assert_close(head(latents), expected)


def test_distances_are_sums_of_squared_polynomials():
    torch.manual_seed(0)
    one = drawn().double()
    features = torch.randn(4, 6, dtype=torch.float64)
    z = torch.tanh(features @ one.weight.mT + one.bias)
    v = torch.cat([z, z[:, :1] ** 2, z[:, :1] * z[:, 1:2], z[:, 1:2] ** 2], 1)
    for k in range(3):
        polynomials = v @ one.forms[k].mT + one.offsets[k]
        torch.testing.assert_close(one(features)[:, k], 1 + polynomials.square().sum(1))
