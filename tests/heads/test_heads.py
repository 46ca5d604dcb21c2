"""What all heads have in common."""

from __future__ import annotations

import pytest
import torch
from head_fixtures import HEAD_NAMES
from torch import nn

from vinets.core.settings import LatentOptions, TrainingOptions
from vinets.heads import HEADS, Head, HeadOptions, LocalOptions, VanishingOptions
from vinets.testing.heads import HeadContract, lived, small_latents, stored


class TestHeads(HeadContract):
    @pytest.fixture(params=HEAD_NAMES)
    def head(self, request, heads) -> Head:
        torch.manual_seed(0)
        return lived(heads[request.param]()).eval()

    def test_folding_leaves_fewer_numbers_and_no_normalisation(self, head):
        folded = head.folded()
        assert stored(folded) < stored(head)
        assert not any(isinstance(m, nn.BatchNorm1d) for m in folded.modules())


def test_the_table_of_heads_has_a_row_a_class():
    labels = {kind: head.label for kind, head in HEADS.items()}
    assert labels["linear"] == "linear, flat" and labels["local"] == "VI-Net"
    assert labels["products"] == "product head"


def test_heads_are_compared_with_heads_that_there_are():
    for kind, head in HEADS.items():
        assert kind not in head.rivals and set(head.rivals) <= HEADS.keys()
        labels = [HEADS[rival].label for rival in head.rivals]
        assert len(set(labels)) == len(labels)  # a row each
    assert all(HEADS[kind].rivals for kind in ("vanishing", "local", "products"))


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_options_are_known_by_their_names(kind):
    head = HEADS[kind]
    assert issubclass(head.Options, HeadOptions)
    assert TrainingOptions(**head.training_defaults)
    assert LatentOptions(**head.latent_defaults(head.Options()))
    if head.Options.kind:  # baselines find the head that they are made like
        assert head.Options.kind == kind


@pytest.fixture(scope="module")
def small():
    return small_latents((6, 4), 3)


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_every_kind_builds_itself_from_latents(small, kind):
    made = HEADS[kind].build(small, seed=2)
    assert made.facts.head == made.kind and made.facts.cut == "first"
    assert made.facts.latent_shape == (6, 4) and made.facts.examples == len(small.store)
    (latents, _), *_ = small.store.chunks()
    assert made(latents).shape == (len(small.store), 3) and not made.training
    assert made.kind == kind or not HEADS[kind].needs_training  # a way to solve for a head


@pytest.mark.parametrize("kind", sorted(HEADS))
def test_equal_seeds_give_equal_weights_whatever_was_built_before(small, kind):
    alone = HEADS[kind].build(small_latents((6, 4), 3), seed=2).state_dict()
    HEADS["vanishing"].build(small, VanishingOptions(components=3, train_projection=True), seed=1)
    HEADS["local"].build(small, LocalOptions(components=2), seed=2)
    torch.rand(3)
    after = HEADS[kind].build(small, seed=2).state_dict()
    assert all(torch.equal(t, after[k]) for k, t in alone.items())


def test_a_head_is_called_a_vi_net_if_its_polynomials_come_from_class_ideals():
    found = {kind for kind, head in HEADS.items() if head.from_ideals}
    assert found == {"vanishing", "local"}
    assert found == {kind for kind, head in HEADS.items() if head.label == "VI-Net"}


def test_a_head_that_lacks_something_cannot_be_made():
    class Empty(Head):
        """Has no kind either, so it is in no table."""

    with pytest.raises(TypeError, match="abstract"):
        Empty()
    assert Empty not in HEADS.values()


@pytest.mark.parametrize("name", ["vanishing", "blocks", "local path"])
def test_heads_compile_without_graph_breaks(heads, latents, name):
    head = heads[name]().eval()
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(latents), head(latents))


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
