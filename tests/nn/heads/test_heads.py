"""What all heads have in common."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from vinets.nn.heads import HEADS


def stored(head: nn.Module) -> int:
    """Entries of the state dict, less counters of batches and masks.

    A mask follows from the zeros of the coefficients; the counters are of no use to anybody. The
    indices of monomials and blocks count as one number each.
    """
    return sum(
        t.numel()
        for k, t in head.state_dict().items()
        if not k.endswith(("num_batches_tracked", ".mask"))
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-4), (torch.float64, 1e-10)])
def test_folding_keeps_the_logits(head, latents, dtype, tolerance):
    head, latents = head.to(dtype), latents.to(dtype)
    folded = head.folded()
    expected = head(latents)
    assert expected.shape == (9, 3) and folded(latents).dtype == dtype
    torch.testing.assert_close(
        folded(latents),
        expected,
        atol=tolerance * float(expected.detach().abs().max()),
        rtol=tolerance,
    )


def test_folding_leaves_fewer_numbers_and_no_normalisation(head):
    folded = head.folded()
    assert stored(folded) < stored(head)
    assert not any(isinstance(m, nn.BatchNorm1d) for m in folded.modules())
    assert type(folded) is type(head)


def test_folding_touches_neither_the_head_nor_the_random_state(head, latents):
    before, state = head(latents), torch.random.get_rng_state()
    folded = head.folded()
    assert torch.equal(torch.random.get_rng_state(), state)
    with torch.no_grad():
        for p in folded.parameters():
            p.zero_()
    assert torch.equal(head(latents), before)


def test_parts_sum_to_what_is_stored(head):
    assert sum(head.parts().values()) == stored(head)
    folded = head.folded()
    assert sum(folded.parts().values()) == stored(folded)


@pytest.mark.parametrize("fold", [False, True])
def test_config_and_state_make_the_same_head_again(head, latents, fold):
    head = head.folded() if fold else head
    config = json.loads(json.dumps(head.config()))
    state = head.state_dict()
    again = HEADS[config["kind"]].from_config(config, state)
    again.load_state_dict(state)
    assert type(again) is type(head)
    assert torch.equal(again.eval()(latents), head(latents))
    assert again.config() == head.config()
    flags = {k: p.requires_grad for k, p in head.named_parameters()}
    assert {k: p.requires_grad for k, p in again.named_parameters()} == flags


def test_gradients_reach_all_that_is_trained_and_nothing_else(head, latents):
    head.train()
    head(latents).square().sum().backward()
    trained = {id(p) for p in head.trained_parameters()}
    for name, p in head.named_parameters():
        if id(p) in trained:
            assert p.grad is not None and torch.isfinite(p.grad).all(), name
            assert (p.grad != 0).any() or name.endswith("bias"), name  # a norm behind it eats it
        else:
            assert name.startswith("projection.") and p.grad is None


def test_gradients_are_finite_where_the_latents_are_zero(head, latents):
    z = torch.zeros_like(latents).requires_grad_()
    head(z).sum().backward()
    assert torch.isfinite(z.grad).all()


def test_bfloat16_is_close_to_float32(head, latents):
    exact = head(latents)
    with torch.autocast("cpu", torch.bfloat16):
        rough = head(latents)
    assert (rough.float() - exact).abs().max() < 0.1 * exact.abs().max()


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
