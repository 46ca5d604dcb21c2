"""Promises of all heads, of this package and from outside: the latter disturb no other."""

import pytest
import torch
from head_fixtures import HEAD_NAMES
from torch import nn

from vinets import baselines, build, collect
from vinets.core.settings import LatentOptions, TrainingOptions
from vinets.data import digits
from vinets.heads import (
    HEADS,
    Head,
    HeadMaps,
    HeadOptions,
    LinearHead,
    LinearMap,
    LocalOptions,
    VanishingHead,
    VanishingOptions,
)
from vinets.models import digits_cnn
from vinets.networks import CutNetwork
from vinets.testing.heads import HeadContract, lived, small_latents, stored
from vinets.testing.sources import assert_same
from vinets.theory import cut_complexity

REQUIRED = ("forward", "config", "parts", "maps")


class TestHeads(HeadContract):
    @pytest.fixture(params=HEAD_NAMES)
    def head(self, request, heads) -> Head:
        torch.manual_seed(0)
        return lived(heads[request.param]()).eval()

    def test_folding_leaves_fewer_numbers_and_no_normalisation(self, head):
        folded = head.folded()
        assert stored(folded) < stored(head)
        assert not any(isinstance(m, nn.BatchNorm1d) for m in folded.modules())


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_options_and_rivals_are_known_by_their_names(kind):
    head = HEADS[kind]
    assert kind not in head.rivals and set(head.rivals) <= HEADS.keys()
    assert len({HEADS[rival].label for rival in head.rivals}) == len(head.rivals)  # a row each
    assert head.rivals or kind not in ("vanishing", "local", "products")
    assert issubclass(head.Options, HeadOptions)
    assert TrainingOptions(**head.training_defaults)
    assert LatentOptions(**head.latent_defaults(head.Options()))
    if head.Options.kind:  # baselines find the head that they are made like
        assert head.Options.kind == kind


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_equal_seeds_give_equal_heads_whatever_was_built_before(kind):
    alone = HEADS[kind].build(small_latents((6, 4), 3), seed=2)
    small = small_latents((6, 4), 3)
    HEADS["vanishing"].build(small, VanishingOptions(components=3, train_projection=True), seed=1)
    HEADS["local"].build(small, LocalOptions(components=2), seed=2)
    torch.rand(3)
    head = HEADS[kind].build(small, seed=2)
    assert_same(head.state_dict(), alone.state_dict())
    assert head.facts.head == head.kind and head.facts.cut == "first" and not head.training
    assert head.facts.examples == len(small.store)
    assert head.kind == kind or not HEADS[kind].needs_training  # a way to solve for a head


def test_heads_of_class_ideals_alone_are_called_vi_nets():
    assert {kind for kind, head in HEADS.items() if head.from_ideals} == {"vanishing", "local"}
    labels = {kind: head.label for kind, head in HEADS.items()}
    assert {kind for kind, label in labels.items() if label == "VI-Net"} == {"vanishing", "local"}
    assert labels["linear"] == "linear, flat" and labels["products"] == "product head"


@pytest.mark.parametrize("name", ["sparse", "local sparse"])
def test_masks_survive_training_and_folding(heads, latents, name):
    head = heads[name]()
    zero = ~head.polynomials.mask
    optimizer = torch.optim.SGD(head.trained_parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        optimizer.zero_grad()
        head(latents).logsumexp(1).sum().backward()
        optimizer.step()
    assert zero.any() and (head.polynomials.coefficients[zero] == 0).all()
    folded = head.eval().folded()
    assert (folded.polynomials.weight[zero] == 0).all()
    torch.testing.assert_close(folded(latents), head(latents), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("missing", REQUIRED)
def test_a_head_says_all_that_others_need(missing, monkeypatch):
    monkeypatch.setattr(HEADS, "_entries", dict(HEADS))
    body = {name: lambda self, *_: None for name in REQUIRED if name != missing}
    partly = type("Partly", (Head,), {"kind": "partly", **body})
    with pytest.raises(TypeError, match=missing):
        partly()
    whole = type("Whole", (Head,), {"kind": "whole", **body, missing: lambda self, *_: None})
    assert isinstance(whole(), nn.Module)


# --- a head from outside ----------------------------------------------------------------------


@pytest.fixture
def soft(monkeypatch) -> type[Head]:
    """A linear layer on squashed latents; the tutorial on heads has one with a base of its own."""
    monkeypatch.setattr(HEADS, "_entries", dict(HEADS))

    class SoftHead(LinearHead):
        kind, label = "soft", "tanh, linear"

        def features(self, latents):
            return torch.tanh(latents.flatten(1))

        def maps(self, shape):
            first = LinearMap("tanh", torch.ones(shape[0] * shape[1]).to(self.linear.weight))
            return HeadMaps((first,), LinearMap("linear", self.linear.weight))

    return SoftHead


class TestSoftHead(HeadContract):
    @pytest.fixture
    def head(self, soft) -> Head:
        return lived(soft(24, 3)).eval()


@pytest.fixture(scope="module")
def digit_latents():
    torch.manual_seed(0)
    return collect(digits_cnn(), digits().train, "relu3", per_class=20, progress=None)


def test_it_is_built_by_its_kind_and_joins_the_baselines(digit_latents, soft, monkeypatch):
    net, facts = build(digit_latents, head="soft", seed=1, progress=None)
    assert type(net.head) is soft and facts.head == "soft"
    monkeypatch.setattr(VanishingHead, "rivals", ("pooled", "soft"))
    others = baselines(digit_latents, seed=1)
    assert list(others) == ["linear, pooled", "tanh, linear"]
    assert torch.equal(others["tanh, linear"].head.linear.weight, net.head.linear.weight)


def test_theory_reads_it_and_a_file_says_what_to_import(digit_latents, soft, tmp_path, monkeypatch):
    network = build(digit_latents, head="soft", progress=None)[0]
    found = cut_complexity(network)
    assert [layer.name for layer in found.head.layers] == ["tanh", "linear"]
    assert 0 < found.whole.R < float("inf")
    network.save_pretrained(tmp_path)
    monkeypatch.setattr(HEADS, "_entries", {k: h for k, h in HEADS.items() if h is not soft})
    with pytest.raises(ValueError, match=r"no head 'soft'.*import the module that defines it"):
        CutNetwork.from_pretrained(tmp_path)


def test_one_that_is_not_made_from_latents_says_so(digit_latents, soft):
    soft.make = classmethod(Head.make.__func__)
    with pytest.raises(ValueError, match="kind 'soft' is not made from latents"):
        build(digit_latents, head="soft", progress=None)


def test_a_kind_that_is_taken_is_refused(soft):
    with pytest.raises(ValueError, match="head 'mlp' already"):
        type("Other", (soft,), {"kind": "mlp"})
    assert type("Heir", (soft,), {"kind": "heir"}).label == "heir"
    with pytest.raises(ValueError, match=r"no head 'sofd'. Did you mean 'soft'"):
        HEADS["sofd"]
