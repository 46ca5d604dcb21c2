from __future__ import annotations

import copy
import pickle
import warnings

import pytest
import torch
from torch import nn

from vinets import build
from vinets.core.checks import DoubtWarning
from vinets.data import digits
from vinets.heads import PooledHead
from vinets.latent import LatentReader, truncate
from vinets.models import digits_cnn
from vinets.models.origin import Record, example_inputs, input_fields
from vinets.networks import CutNetwork, VINet
from vinets.networks.network import network_of
from vinets.testing.sources import assert_same
from vinets.training import fine_tune

DIGITS = digits()
FEW = DIGITS.train.subset(torch.arange(300))
SMALL = {"components": 8, "keep": 4, "monomials": 32, "per_class": 40, "progress": None}


def made(**options) -> tuple[nn.Module, VINet]:
    torch.manual_seed(0)
    model = digits_cnn()
    return model, build(model, DIGITS.train, "relu3", **SMALL, **options)[0]


@pytest.fixture(scope="module", params=[("vanishing", False), ("local", False), ("local", True)])
def tuned(request):
    """A network after an epoch, with the state it had before, and whether components move."""
    kind, projects = request.param
    net = made(head=kind, train_projection=projects)[1]
    before = copy.deepcopy(net.state_dict())
    fine_tune(net, FEW, batch_size=64, epochs=1, progress=None)
    return net.eval(), before, projects


def test_a_network_is_backbone_reader_head_and_changes_nothing_in_what_was_cut():
    model, net = made()
    images = DIGITS.test.example(5)
    seen = {}
    model.eval().relu3.register_forward_hook(lambda m, a, out: seen.update(out=out.clone()))
    with torch.no_grad():
        model(images)
        assert torch.equal(net.latents(images), seen["out"].flatten(2))
        assert torch.equal(net(images), net.head(seen["out"].flatten(2)))
        compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(images), net(images))
    net.train()
    assert net.training and net.head.training
    assert not any(m.training for m in net.backbone.modules())
    assert all(p.requires_grad for p in model.parameters())
    assert not any(p.requires_grad for p in net.backbone.parameters())
    own = dict(model.named_parameters())
    for name, p in net.backbone.named_parameters():
        assert p.data_ptr() == own[name].data_ptr()  # no second copy of the weights
    net.double()
    assert all(p.dtype == torch.float32 for p in model.parameters())


def test_fine_tuning_changes_the_head_only(tuned):
    net, before, projects = tuned
    after = net.state_dict()
    moved = {k for k in before if not torch.equal(before[k], after[k])}
    assert moved and all(k.startswith("head.") for k in moved)
    still = {k for k in before if "rescale" in k or "terms" in k}
    assert still and not moved & still
    assert ("head.projection.weight" in moved) == projects
    assert {"head.linear.weight", "head.polynomials.weight", "head.norm.running_mean"} <= moved


def test_folding_shares_the_backbone_and_leaves_the_network_alone(tuned):
    net = tuned[0]
    images, state = DIGITS.test.example(30), copy.deepcopy(net.state_dict())
    folded = net.folded()
    torch.testing.assert_close(folded(images), net(images), atol=1e-4, rtol=1e-4)
    assert folded.backbone is net.backbone and type(folded) is VINet
    assert_same(net.state_dict(), state)
    assert sum(folded.parts().values()) < sum(net.parts().values())


@pytest.mark.parametrize(
    "inputs",
    [
        torch.zeros(4, 3, 8, 8),
        torch.zeros(4, 7, dtype=torch.float64),
        {"ids": torch.ones(4, 9, dtype=torch.int64), "mask": torch.ones(4, 9, dtype=torch.bool)},
    ],
)
def test_fields_describe_inputs_and_give_examples(inputs):
    assert_same(example_inputs(input_fields(inputs), batch=4), inputs)


def test_the_last_layers_are_thawed_and_no_others():
    uncut = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 5, 3), nn.ReLU(), nn.Conv2d(5, 6, 1)
    )
    images = torch.zeros(2, 1, 8, 8)
    record = Record("4", input_fields(images))
    head = PooledHead(6, 3)
    net = network_of(truncate(uncut, "4", images), LatentReader(), head, record)
    assert [tuple(p.shape) for p in net.thaw(1)] == [(6, 5, 1, 1), (6,)]
    trained = {name for name, p in net.backbone.named_parameters() if p.requires_grad}
    assert trained == {"4.weight", "4.bias"}
    assert len(net.thaw(2)) == 4 and len(net.thaw()) == 8
    assert net.train().backbone.get_submodule("1").training
    net.freeze()
    assert not any(p.requires_grad for p in net.backbone.parameters())
    assert not net.train().backbone.get_submodule("1").training
    assert all(p.requires_grad for p in uncut.parameters())  # those that were handed over


@pytest.mark.parametrize("name", ["digits-cnn-products", "digits-cnn-vinet"])
def test_networks_are_pickled_and_saved_by_torch(name, tmp_path):
    net = CutNetwork.from_pretrained(f"vinets/{name}")
    torch.save(net, tmp_path / "net.pt")
    inputs = torch.rand(5, 1, 8, 8)
    for again in (
        pickle.loads(pickle.dumps(net)),
        torch.load(tmp_path / "net.pt", weights_only=False),
        copy.deepcopy(net),
    ):
        assert torch.equal(again(inputs), net(inputs))


def test_an_own_loop_hears_that_the_backbone_is_frozen():
    _, net = made()
    with pytest.warns(DoubtWarning, match=r"Only the head will train.* thaw\(\)"):
        net.train()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net.eval().train()  # once is enough
        copy.deepcopy(net).train()
        for ready in (CutNetwork.thaw, CutNetwork.freeze):
            _, other = made()
            ready(other)
            other.train()
