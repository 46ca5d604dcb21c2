from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from vinets.data import Augmentation, ImageSource, LoaderSource, Preprocessing
from vinets.data.conversion import TensorSource, as_source, split_source
from vinets.testing.sources import SourceContract

INPUTS = torch.arange(20.0).view(10, 2)
LABELS = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2, 2])


class Pairs(Dataset):
    """Counts how often it is read."""

    def __init__(self):
        self.reads = 0

    def __len__(self):
        return len(LABELS)

    def __getitem__(self, i):
        self.reads += 1
        return INPUTS[i], int(LABELS[i])


class Targeted(Pairs):
    targets = LABELS.tolist()
    classes = ("ant", "bee", "cat")


class Tokens(Pairs):
    def __getitem__(self, i):
        return {"ids": INPUTS[i].long(), "mask": torch.ones(2), "labels": int(LABELS[i])}


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(INPUTS, LABELS.tolist(), strict=True))


KINDS = {
    "tensors": (INPUTS, LABELS),
    "arrays": (INPUTS.numpy()[:, ::-1][:, ::-1], LABELS.numpy().astype(np.uint8)),
    "lists": [INPUTS.tolist(), LABELS.tolist()],
    "source": TensorSource(INPUTS, LABELS),
    "dataset": Pairs(),
    "targets": Targeted(),
    "tensor dataset": TensorDataset(INPUTS, LABELS),
    "shuffled loader": DataLoader(Pairs(), batch_size=4, shuffle=True, drop_last=True),
    "stream": DataLoader(Stream(), batch_size=4),
    "batched by itself": DataLoader([(INPUTS, LABELS)], batch_size=None),
}


class TestEveryKind(SourceContract):
    @pytest.fixture(params=KINDS, autouse=True)
    def _chosen(self, request):
        self.kind = request.param

    def make(self):
        return as_source(KINDS[self.kind])

    def expected(self):
        return INPUTS.double() if self.kind == "lists" else INPUTS, LABELS  # Python's floats


NAMED = {"ids": INPUTS.long(), "mask": torch.ones(10, 2)}


class TestNamedInputs(SourceContract):
    @pytest.fixture(params=[DataLoader(Tokens(), batch_size=4), (NAMED, LABELS)], autouse=True)
    def _chosen(self, request):
        self.data = request.param

    def make(self):
        return as_source(self.data)

    def expected(self):
        return NAMED, LABELS


class TestImages(SourceContract):
    images = (INPUTS.view(10, 1, 2, 1) * torch.arange(1, 7)).to(torch.uint8).expand(10, 3, 2, 6)
    preprocessing = Preprocessing(3, (2, 6), (0.1, 0.2, 0.3), (0.5, 0.6, 0.7))

    def make(self):
        return ImageSource(self.images, LABELS, None, self.preprocessing, Augmentation(1))

    def expected(self):
        return self.preprocessing(self.images), LABELS


def test_stored_labels_save_the_pass_and_unsuitable_ones_do_not():
    counted = Targeted()
    source = as_source(counted)
    assert counted.reads == 1 and source.classes == ("ant", "bee", "cat")
    assert as_source(Pairs()).classes == ("0", "1", "2")
    part = as_source(Subset(counted, [5, 6]))
    assert torch.equal(part.labels, LABELS[[5, 6]]) and part.classes == source.classes
    for name, value in (("targets", [0, 1]), ("labels", ["ant"] * 10)):
        odd = Pairs()
        setattr(odd, name, value)
        assert torch.equal(as_source(odd).labels, LABELS) and odd.reads == 10
    transformed = Targeted()
    transformed.target_transform = lambda k: k
    as_source(transformed)
    assert transformed.reads == 10
    wrong = Targeted()
    wrong.targets = LABELS.roll(1).tolist()
    with pytest.raises(ValueError, match="must stay the same on every pass"):
        as_source(wrong)


def test_workers_and_collation_are_those_of_the_loader_and_global_randomness_stays():
    def doubled(items):
        return torch.stack([2 * x for x, _ in items]), torch.tensor([y for _, y in items])

    # a function of a test cannot be sent to a process that is not a fork, as Python 3.14 starts
    workers = {"num_workers": 1, "multiprocessing_context": "fork"}
    source = as_source(DataLoader(Pairs(), batch_size=5, collate_fn=doubled, **workers))
    state = torch.get_rng_state()
    ((inputs, labels),) = source.batches(10, augment=torch.Generator().manual_seed(1))
    assert torch.equal(inputs, 2 * INPUTS) and torch.equal(labels, LABELS)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (3, "must be a pair .* Got 'int' instead"),
        ({"x": 1}, "must be a pair"),
        ((INPUTS, LABELS[:9]), r"as many as the examples \(10\).*'9 labels'"),
        ((INPUTS, LABELS - 1), "integers 0..K-1.*from -1 to 1"),
        ((INPUTS, LABELS + 0.5), "integers 0..K-1.*float"),
        ((INPUTS, ["a"] * 10), "integers 0..K-1"),
        ((INPUTS, LABELS[:, None]), r"integers 0..K-1.*shape \(10, 1\)"),
        ((INPUTS, LABELS * 10**9), "integers 0..K-1"),
        (([[1], [1, 2]], [0, 1]), "numeric array"),
        ((["a", "b"], [0, 1]), "numeric array"),
        ((INPUTS[:0], LABELS[:0]), "at least one example"),
        ((INPUTS[0, 0], LABELS), "tensors of one length"),
        (DataLoader(TensorDataset(INPUTS)), "a loader of batches"),
        (DataLoader([{"text": "a", "label": 0}]), "no tensor under 'text'"),
        (DataLoader([{"text": "a"}]), r"the key 'labels' or 'label'.*\['text'\]"),
    ],
)
def test_other_data_is_refused_in_one_sentence(data, message):
    with pytest.raises(ValueError, match=message):
        as_source(data)


def test_other_options_are_refused_in_one_sentence():
    source = TensorSource(INPUTS, LABELS)
    with pytest.raises(ValueError, match=r"'order' parameter .* positions below 10"):
        source.batches(2, order=[0])
    with pytest.raises(ValueError, match="at least 3 names"):
        as_source((INPUTS, LABELS), classes=("a", "b"))
    with pytest.raises(ValueError, match=r"as_source.*reads any other into memory"):
        LoaderSource(DataLoader(Stream(), batch_size=2))


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
def test_a_split_is_stratified_and_loses_nothing(share):
    labels = torch.repeat_interleave(torch.arange(4), torch.tensor([1, 7, 20, 33]))
    source = TensorSource(torch.arange(61), labels)
    rest, held = split_source(source, share, seed=3)
    assert sorted(torch.cat([rest.inputs, held.inputs]).tolist()) == list(range(61))
    assert torch.equal(labels[rest.inputs], rest.labels)
    counts = held.labels.bincount(minlength=4)
    assert (rest.labels.bincount(minlength=4) >= 1).all()
    assert ((counts - share * labels.bincount()).abs() <= 1).all()
    assert abs(len(held) - share * 61) <= 1
    again, other = (split_source(source, share, seed=s)[1].inputs for s in (3, 4))
    assert torch.equal(again, held.inputs) and not torch.equal(other, held.inputs)


def test_a_split_that_holds_out_nothing_is_asked_for_by_zero_only():
    source = TensorSource(INPUTS, LABELS)
    rest, held = split_source(source, 0.0, seed=0)
    assert len(rest) == 10 and len(held) == 0
    for share in (0.01, 1.0, -0.1):
        with pytest.raises(ValueError, match="'share' parameter of split_source"):
            split_source(source, share, seed=0)
