"""A head from outside the package is known everywhere, and disturbs nobody."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vinets import build
from vinets.data import digits
from vinets.heads import HEADS, Head, HeadMaps, LinearMap
from vinets.models import digits_cnn
from vinets.networks import CutNetwork
from vinets.runs import baselines, collect
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
        def beside(cls, reference):
            return cls(reference.channels * reference.positions, reference.classes)

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


@pytest.fixture(scope="module")
def net(latents):
    return build(latents, components=6, keep=4, monomials=30, progress=None)[0]


def test_it_joins_the_baselines_and_leaves_the_others_as_they_were(net, latents, request):
    before = baselines(net, latents, seed=1)
    request.getfixturevalue("soft")
    after = baselines(net, latents, seed=1)
    assert list(after) == [*before, "tanh, linear"]
    for name, network in before.items():
        again = after[name].head.state_dict()
        assert all(torch.equal(t, again[k]) for k, t in network.head.state_dict().items())


def test_theory_reads_it_and_files_hold_it(net, latents, soft, tmp_path):
    network = baselines(net, latents)["tanh, linear"].eval()
    found = cut_complexity(network)
    assert [layer.name for layer in found.head.layers] == ["tanh", "linear"]
    assert 0 < found.whole.R < float("inf")
    network.save_pretrained(tmp_path)
    again, images = CutNetwork.from_pretrained(tmp_path), digits().test.example(5)
    assert type(again.head) is soft and torch.equal(again(images), network(images))


def test_a_file_with_it_says_what_to_import(net, latents, soft, tmp_path, monkeypatch):
    baselines(net, latents)["tanh, linear"].save_pretrained(tmp_path)
    monkeypatch.setattr(HEADS, "_entries", {k: h for k, h in HEADS.items() if h is not soft})
    with pytest.raises(ValueError, match=r"no head 'soft'.*import the module that defines it"):
        CutNetwork.from_pretrained(tmp_path)


def test_a_label_that_is_taken_hides_no_row(net, latents, soft):
    soft.label = "MLP"
    assert {"MLP", "MLP (soft)"} <= baselines(net, latents).keys()


def test_a_kind_that_is_taken_is_refused(soft):
    with pytest.raises(ValueError, match="head 'mlp' already"):
        type("Other", (soft,), {"kind": "mlp"})
    assert type("Heir", (soft,), {"kind": "heir"}).label == "heir"
    with pytest.raises(ValueError, match=r"no head 'sofd'. Did you mean 'soft'"):
        HEADS["sofd"]
