"""The promises of every head, as tests for pytest to inherit.

class TestMine(HeadContract):
    def make(self) -> Head:
        return MyHead(24, 3)
"""

from __future__ import annotations

import copy
import json
import math
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from vinets.data.synthetic import latent_like_classes
from vinets.heads import HEADS, Head, HeadOptions
from vinets.latent.collect import Latents, collect
from vinets.latent.cut import truncate
from vinets.latent.reader import LatentReader
from vinets.models.origin import Record, input_fields
from vinets.networks.network import CutNetwork, VINet, network_of, put_behind
from vinets.theory.complexity import head_norms
from vinets.training import fine_tune


def lived(module: nn.Module, seed: int = 0) -> nn.Module:
    """Change parameters and statistics in place, as training might have: none is zero or one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=generator).to(p))
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d):
                assert part.running_mean is not None and part.running_var is not None
                part.running_mean.copy_(torch.randn(part.num_features, generator=generator))
                part.running_var.copy_(torch.rand(part.num_features, generator=generator) + 0.5)
    return module


def stored(module: nn.Module) -> int:
    """Count entries of the state dict, less counters of batches and masks.

    A mask follows from the zeros of the coefficients; the counters have no use.
    """
    unused = "num_batches_tracked", ".mask"
    return sum(t.numel() for k, t in module.state_dict().items() if not k.endswith(unused))


def small_images(shape: tuple[int, int], classes: int) -> tuple[Tensor, Tensor]:
    """Return images (m, C, P, 1) of some classes, 40 each, and their labels."""
    points, labels = latent_like_classes(classes, m=40, n=shape[0] * shape[1], rank=2)
    return torch.from_numpy(points).float().reshape(-1, *shape, 1), torch.from_numpy(labels)


def small_latents(shape: tuple[int, int], classes: int) -> Latents:
    """Return latents (m, C, P) to build heads on, behind the first layer of a small network."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        last = nn.Linear(shape[0] * shape[1], classes)
    uncut = nn.Sequential(OrderedDict(first=nn.Identity(), flat=nn.Flatten(), last=last))
    return collect(uncut, small_images(shape, classes), "first", reuse=True, progress=None)


class HeadContract:
    """Tests of one head; a subclass says how it is made, or overrides the fixture ``head``."""

    shape: tuple[int, int] = (6, 4)  # channels and positions of the latents that the head takes
    classes: int = 3  # logits that it returns
    options: HeadOptions | None = None  # to build the head with; None takes the defaults

    def make(self) -> Head:
        """Make a new head; the generator of torch is seeded."""
        raise NotImplementedError("make() returns a head of the kind that is tested.")

    @pytest.fixture
    def head(self) -> Head:
        """Return the head after some training, in eval mode."""
        torch.manual_seed(0)
        head = self.make()
        lived(head)
        return head.eval()

    @pytest.fixture
    def latents(self) -> Tensor:
        """Return a batch of latents (9, C, P)."""
        return torch.randn(9, *self.shape, generator=torch.Generator().manual_seed(3))

    @pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 2e-4), (torch.float64, 1e-10)])
    def test_latents_become_logits_which_folding_keeps(
        self, head: Head, latents: Tensor, dtype: torch.dtype, close: float
    ) -> None:
        head, latents = head.to(dtype), latents.to(dtype)
        folded, logits = head.folded(), head(latents).detach()
        assert logits.shape == (9, self.classes) and logits.dtype == dtype
        one = head(latents[:1]).detach()  # in eval mode no example sees another
        torch.testing.assert_close(one, logits[:1], atol=5 * close, rtol=5 * close)
        assert type(folded) is type(head) and stored(folded) <= stored(head)
        atol = close * float(logits.abs().max())
        torch.testing.assert_close(folded(latents).detach(), logits, atol=atol, rtol=close)

    def test_what_is_made_from_a_head_shares_nothing_with_it(
        self, head: Head, latents: Tensor
    ) -> None:
        before, state = head(latents), torch.random.get_rng_state()
        folded, twin = head.folded(), copy.deepcopy(head)
        assert torch.equal(torch.random.get_rng_state(), state)
        assert torch.equal(twin(latents), before)
        lived(twin)
        lived(folded)
        assert torch.equal(head(latents), before)

    def test_it_is_known_by_its_kind_and_its_parts(self, head: Head) -> None:
        assert HEADS[head.kind] is type(head) and head.label
        for one in (head, head.folded()):
            assert sum(one.parts().values()) == stored(one)

    @pytest.mark.parametrize("fold", [False, True])
    def test_config_and_state_make_the_same_head_again(
        self, head: Head, latents: Tensor, fold: bool
    ) -> None:
        head = head.folded() if fold else head
        config, state = json.loads(json.dumps(head.config())), head.state_dict()
        again = type(head).from_config(config, state)
        again.load_state_dict(state)
        assert torch.equal(again.eval()(latents), head(latents))
        assert again.config() == head.config()
        flags = {k: p.requires_grad for k, p in head.named_parameters()}
        assert {k: p.requires_grad for k, p in again.named_parameters()} == flags

    def test_a_network_with_it_is_saved_and_loaded(
        self, head: Head, latents: Tensor, tmp_path: Path
    ) -> None:
        uncut = nn.Sequential(OrderedDict(relu=nn.ReLU(), out=nn.Flatten()))
        images = latents[..., None]  # (B, C, P, 1), which the reader flattens again
        record = Record("relu", input_fields(images))
        cut = truncate(uncut, "relu", images[:1])
        network = network_of(cut, LatentReader(), head, record).eval()
        assert isinstance(network, VINet) == head.from_ideals
        network.save_pretrained(tmp_path)
        again = CutNetwork.from_pretrained(tmp_path, backbone=uncut)
        assert type(again) is type(network) and type(again.head) is type(head)
        assert torch.equal(again(images), network(images))

    def test_it_is_built_from_latents_trained_and_saved(self, head: Head, tmp_path: Path) -> None:
        kind = type(head)
        own = (kind.build, Head.build), (kind.make, Head.make)
        if all(mine.__func__ is base.__func__ for mine, base in own):  # type: ignore[attr-defined]
            return  # a head that is not made from latents
        latents, state = small_latents(self.shape, self.classes), torch.random.get_rng_state()
        made, again = (kind.build(latents, self.options, seed) for seed in (1, 1))
        assert torch.equal(torch.random.get_rng_state(), state)
        assert all(torch.equal(t, again.state_dict()[k]) for k, t in made.state_dict().items())
        facts = made.facts
        assert facts is not None and facts.latent_shape == self.shape
        network, _ = put_behind(latents, made, {})
        assert network.folded().parts() == facts.parts
        images = small_images(self.shape, self.classes)
        two_steps = {"epochs": 1, "batch_size": len(images[1]) // 2, "validation": 0.0}
        how: dict[str, Any] = {"trained": "coefficients", "augment": False, **two_steps}
        fine_tune(network, images, teacher=latents.uncut, progress=None, **how)
        moved = network.head.state_dict()
        assert any(not torch.equal(t, moved[k]) for k, t in again.state_dict().items())
        network.save_pretrained(tmp_path)
        loaded = CutNetwork.from_pretrained(tmp_path, backbone=latents.uncut)
        assert torch.equal(loaded(images[0]), network(images[0]))

    def test_gradients_reach_all_that_is_trained_and_nothing_else(
        self, head: Head, latents: Tensor
    ) -> None:
        z = torch.zeros_like(latents).requires_grad_()
        (gradient,) = torch.autograd.grad(head(z).sum(), z)
        assert torch.isfinite(gradient).all()  # where the latents are zero, too
        head.train()
        head(latents).square().sum().backward()
        trained = {id(p) for p in head.trained_parameters()}
        for name, p in head.named_parameters():
            assert (p.grad is not None) == (id(p) in trained), name
            if p.grad is not None:
                assert torch.isfinite(p.grad).all(), name
                # a norm behind a bias eats it
                assert (p.grad != 0).any() or name.endswith("bias"), name

    def test_bfloat16_is_close_to_float32(self, head: Head, latents: Tensor) -> None:
        exact, folded = head(latents), head.folded()
        with torch.autocast("cpu", torch.bfloat16):
            rough = head(latents)
        with torch.no_grad():
            half = folded.bfloat16()(latents.bfloat16())  # without autocast
        assert half.dtype == torch.bfloat16
        for one in (rough, half):
            assert (one.float() - exact).abs().max() < 0.1 * exact.abs().max()

    @pytest.mark.parametrize("count", [1, 9])
    def test_a_head_in_use_gives_what_it_gives_with_gradients(
        self, head: Head, latents: Tensor, count: int
    ) -> None:
        folded, given = head.folded().double(), latents[:count].double()
        plain = folded(given).detach()
        torch.compiler.reset()  # one class may be compiled a few times only
        compiled = torch.compile(folded, backend="eager", fullgraph=True)
        with torch.no_grad():
            for run in (folded, compiled):
                torch.testing.assert_close(run(given), plain)
        assert torch.equal(given, latents[:count].double())  # none of it is changed in place

    def test_it_moves_no_further_than_its_maps_allow(self, head: Head, latents: Tensor) -> None:
        found = head_norms(head, self.shape)
        limit = math.prod(layer.lipschitz * layer.spectral for layer in found.guaranteed())
        assert limit > 0 and found.sizes[-1] == self.classes
        assert next(head.parameters()).dtype == torch.float32  # theory works on a copy
        head, a = head.double(), latents.double()
        generator = torch.Generator().manual_seed(1)
        for size in (1e-4, 1e-2, 1.0):
            step = size * torch.randn(a.shape, generator=generator, dtype=torch.float64)
            moved = (head(a + step) - head(a)).norm(dim=1)
            assert (moved <= limit * step.flatten(1).norm(dim=1) * (1 + 1e-9)).all()

    def test_a_single_map_is_the_head(self, head: Head, latents: Tensor) -> None:
        plain, z = head.folded().double(), latents.double()
        maps = plain.maps(self.shape)
        if maps.before or maps.polynomials is not None:
            return  # only bounds are promised then
        offset = plain(torch.zeros_like(z))
        expected = z.flatten(1) @ maps.final.dense().mT + offset
        torch.testing.assert_close(plain(z), expected)
