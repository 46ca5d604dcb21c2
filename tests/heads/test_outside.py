"""A head from outside the package is known everywhere, and disturbs nobody."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from vinets import baselines, build, collect
from vinets.data import digits
from vinets.heads import HEADS, Head, HeadMaps, LinearMap, VanishingHead
from vinets.heads.base import plain_facts, seeded
from vinets.models import digits_cnn
from vinets.networks import CutNetwork
from vinets.testing.heads import HeadContract, lived
from vinets.theory import cut_complexity


@pytest.fixture
def soft(monkeypatch) -> type[Head]:
    """All that a head has to say, here a linear layer on squashed latents."""
    monkeypatch.setattr(HEADS, "_entries", dict(HEADS))

    class SoftHead(Head):
        kind, label = "soft", "tanh, linear"

        def __init__(self, inputs, classes):
            super().__init__()
            self.linear = nn.Linear(inputs, classes)

        @classmethod
        def build(cls, latents, options=None, seed=0, progress=None):
            with seeded(seed):
                head = cls(latents.shape[0] * latents.shape[1], latents.n_classes)
            head.facts = plain_facts(head, latents, time.perf_counter())
            return head

        def forward(self, latents):
            return self.linear(torch.tanh(latents.flatten(1)))

        def maps(self, shape):
            first = LinearMap("tanh", torch.ones(shape[0] * shape[1]).to(self.linear.weight))
            return HeadMaps((first,), LinearMap("linear", self.linear.weight))

        def parts(self):
            return {"linear": self.linear.weight.numel() + self.linear.bias.numel()}

        def config(self):
            return {"inputs": self.linear.in_features, "classes": self.linear.out_features}

    return SoftHead


class TestSoftHead(HeadContract):
    @pytest.fixture
    def head(self, soft) -> Head:
        return lived(soft(24, 3)).eval()


@pytest.fixture(scope="module")
def latents():
    torch.manual_seed(0)
    return collect(digits_cnn(), digits().train, "relu3", per_class=20, progress=None)


def test_it_is_built_by_its_kind_and_joins_the_baselines(latents, soft, monkeypatch):
    net, facts = build(latents, head="soft", seed=1, progress=None)
    assert type(net.head) is soft and facts.head == "soft"
    monkeypatch.setattr(VanishingHead, "rivals", ("pooled", "soft"))
    others = baselines(latents, seed=1)
    assert list(others) == ["linear, pooled", "tanh, linear"]
    assert torch.equal(others["tanh, linear"].head.linear.weight, net.head.linear.weight)


def test_theory_reads_it_and_files_hold_it(latents, soft, tmp_path):
    network = build(latents, head="soft", progress=None)[0]
    found = cut_complexity(network)
    assert [layer.name for layer in found.head.layers] == ["tanh", "linear"]
    assert 0 < found.whole.R < float("inf")
    network.save_pretrained(tmp_path)
    again, images = CutNetwork.from_pretrained(tmp_path), digits().test.example(5)
    assert type(again.head) is soft and torch.equal(again(images), network(images))


def test_a_file_with_it_says_what_to_import(latents, soft, tmp_path, monkeypatch):
    build(latents, head="soft", progress=None)[0].save_pretrained(tmp_path)
    monkeypatch.setattr(HEADS, "_entries", {k: h for k, h in HEADS.items() if h is not soft})
    with pytest.raises(ValueError, match=r"no head 'soft'.*import the module that defines it"):
        CutNetwork.from_pretrained(tmp_path)


def test_one_that_is_not_made_from_latents_says_so(latents, soft):
    del soft.build
    with pytest.raises(ValueError, match="kind 'soft' is not made from latents"):
        build(latents, head="soft", progress=None)


def test_a_kind_that_is_taken_is_refused(soft):
    with pytest.raises(ValueError, match="head 'mlp' already"):
        type("Other", (soft,), {"kind": "mlp"})
    assert type("Heir", (soft,), {"kind": "heir"}).label == "heir"
    with pytest.raises(ValueError, match=r"no head 'sofd'. Did you mean 'soft'"):
        HEADS["sofd"]
