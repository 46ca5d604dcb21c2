from __future__ import annotations

import pytest
import torch

from vinets import build, collect
from vinets.models import digits_cnn

SMALL = {"components": 4, "keep": 4, "monomials": 32, "progress": None}


class Count:
    """A progress that adds up, and may stop."""

    def __init__(self, most=10**9):
        self.stages, self.done, self.most = [], 0, most

    def start(self, stage, total):
        self.stages.append((stage, total))

    def advance(self, count=1, note=""):
        self.done += count
        if self.done > self.most:
            raise InterruptedError


def test_latents_are_what_the_cut_network_returns(model, train, latents):
    store = latents.store
    assert len(store) == 600 and store.labels.bincount().tolist() == [60] * 10
    values = store.tensor()
    with torch.no_grad():
        everything = torch.cat([latents.reader(latents.backbone(x)) for x, _ in train.batches(500)])
    rows = everything.flatten(1)
    for value in values[::97].flatten(1):
        assert ((rows - value).abs().amax(1) < 1e-5).any()


def test_four_fifths_of_every_class_are_fitted(latents):
    labels = latents.store.labels
    assert [int(latents.fit[labels == k].sum()) for k in range(10)] == [48] * 10


def test_the_record_tells_how_to_make_it_again(latents, train):
    record = latents.record
    assert record.cut == "relu3" and record.classes == train.classes
    assert record.inputs == {"": {"shape": [1, 8, 8], "dtype": "float32"}}
    assert record.source["name"] == "digits_cnn"
    assert record.preprocessing == train.preprocessing.to_dict()
    assert latents.original_parameters == 103_466 and latents.n_classes == 10


def test_progress_counts_the_examples(model, train):
    watch = Count()
    collect(model, train, "relu1", per_class=8, batch_size=32, progress=watch)
    assert watch.stages == [("latents", 100)] and watch.done == 100


def test_networks_built_from_a_file_and_from_memory_are_equal(model, train):
    nets = []
    for limit in (1 << 30, 1 << 16):
        torch.manual_seed(0)
        options = SMALL | {"per_class": 16, "memory_limit": limit}
        nets.append(build(model, train, "relu2", **options)[0].state_dict())
    assert all(torch.equal(t, nets[1][k]) for k, t in nets[0].items())


def test_a_class_with_one_example_is_fitted_and_scored_on_it():
    images = torch.randn(21, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0] * 10 + [1] * 10 + [2])
    net, report = build(digits_cnn(), (images, labels), "relu3", **SMALL)
    assert report.examples == 21 and net(images).shape == (21, 3)
    assert (report.pictures.owners == 2).any()


def test_too_few_examples_are_said():
    images = torch.randn(1, 1, 8, 8)
    with pytest.raises(ValueError, match=r"^[^\n]+\.$"):
        build(digits_cnn(), (images, torch.tensor([0])), "relu3", **SMALL)


def test_few_examples_lower_the_number_of_components():
    images = torch.randn(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    options = SMALL | {"components": 50}
    net = build(digits_cnn(), (images, torch.arange(6) % 2), "relu3", **options)[0]
    assert len(net.head.projection.weight) == 5


def test_unknown_places_and_readings_are_named(model, train):
    with pytest.raises(ValueError, match=r"nearest names are .*conv3"):
        collect(model, train, "conv33", progress=None)
    with pytest.raises(ValueError, match=r"must be an index below"):
        collect(model, train, 99, progress=None)
    with pytest.raises(ValueError, match=r"'read' parameter of collect"):
        collect(model, train, "relu1", read="tokens", progress=None)
    with pytest.raises(ValueError, match=r"reads tokens"):
        collect(model, train, "relu1", read="class_token", progress=None)


@pytest.mark.parametrize(
    ("read", "pool", "shape"), [("pool", 2, (64, 4)), ("mean_token", None, (64, 1))]
)
def test_latents_are_read_as_asked(model, train, read, pool, shape):
    found = collect(model, train, "relu3", per_class=4, read=read, pool=pool, progress=None)
    assert found.shape == shape
