"""What all heads have in common."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vinets.heads import HEADS, Head
from vinets.testing.heads import HeadContract, lived, stored

NAMES = (
    *("vanishing", "tanh first", "blocks", "sparse", "trained projection", "narrow path"),
    *("wide path", "random", "local", "local path", "local sparse", "relu", "local random"),
    *("linear", "pooled", "components", "components, tanh first", "mlp"),
)


class TestHeads(HeadContract):
    @pytest.fixture(params=NAMES)
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
    ours = {kind: head.placement for kind, head in HEADS.items() if head.placement}
    assert ours == {"vanishing": "global", "local": "local", "products": "products"}
    assert labels["products"] == "product head"


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
