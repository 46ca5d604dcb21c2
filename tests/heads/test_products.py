"""Products of forms, those that start from generators, and what they expand to."""

import numpy as np
import pytest
import torch

from vinets import ABM, build, collect
from vinets.data import digits
from vinets.heads import ProductsHead, ProductsOptions
from vinets.heads.products import factored_generators
from vinets.ideals import abm
from vinets.ideals.base import ScaleWarning
from vinets.models import digits_cnn
from vinets.testing.heads import lived
from vinets.training import train_classifier

SMALL = {"head": "products", "components": 6, "progress": None}
# Products are of whole components, with no tanh between, so their generators are found there.
pytestmark = pytest.mark.filterwarnings("ignore::vinets.ideals.base.ScaleWarning")


@pytest.fixture(scope="module")
def vectors():
    """Latents with one position, so that every descriptor is drawn."""
    torch.manual_seed(0)
    model, train = digits_cnn(), digits().train
    train_classifier(model, train, epochs=2, batch_size=64, progress=None)
    return collect(model, train, "relu3", read="mean_token", per_class=40, progress=None)


@pytest.fixture(scope="module")
def start(vectors):
    return factored_generators(vectors, ProductsOptions(components=6), 0, 10**6)


@pytest.fixture(scope="module")
def h(vectors):
    return torch.cat([values for values, _ in vectors.store.chunks()])[..., 0]


def products_of(forms, h):
    standard = (h - h.mean(0)) / h.std(0, unbiased=False)
    weight, gain, bias = (part.to(h) for part in forms[:3])
    return (gain[:, None] * (standard @ weight.mT) + bias[:, None]).prod(0)


def test_products_are_generators_up_to_a_factor(vectors, start, h):
    with pytest.warns(ScaleWarning, match=r"psi is meant for data in \[-1, 1\]"):
        net, report = build(vectors, parameters=5_000, start="ideal", **SMALL)
    count = net.head.count
    facts = start[1]
    assert report.explained_variance == facts["explained_variance"]
    assert report.generators_found == facts["generators_found"] > report.generators_kept
    assert 20 < report.generators_kept == count < facts["generators_kept"]
    head = net.head.train()  # so that forms are normalised by these very points
    ours = head.units(head.forms(h[:, None]))[:, 0].detach().double()
    forms, _ = factored_generators(vectors, ProductsOptions(components=6), 0, count)
    expected = products_of(forms, h.double())
    for pair in zip(ours.mT, expected.mT, strict=True):
        assert torch.corrcoef(torch.stack(pair))[0, 1] > 0.999


def test_a_line_is_a_product_with_a_constant(vectors, monkeypatch):
    monkeypatch.setattr(abm, "ABM", lambda *_, **__: ABM(psi=0.3, max_degree=1))
    (_, gain, *_), _ = start = factored_generators(vectors, ProductsOptions(components=6), 0, 512)
    small, large = gain.sort(0).values
    assert (small < 1e-4).all() and (large > 0.1).all()
    head = build(vectors, **SMALL)[0].head.train()
    head.start_from(*start[0])
    assert all(torch.isfinite(p).all() for p in head.parameters())
    rows = head.forms.weight.unflatten(0, (2, 512))[:, : gain.shape[1]]
    assert (rows.norm(dim=-1) > 0.1).all()  # a direction to move into


def test_they_are_small_on_their_class(vectors, start, h):
    forms, _ = start
    values = products_of(forms, h).abs()
    own = vectors.store.labels[:, None] == forms[3]
    inside, outside = ((values * one).sum(0) / one.sum(0) for one in (own, ~own))
    assert (inside < outside).double().mean() > 0.9


def test_fewer_are_taken_from_all_classes_and_the_best_of_each(vectors, start):
    weight, *_, owners = start[0]
    fewer, _ = factored_generators(vectors, ProductsOptions(components=6), 0, 10)
    assert sorted(fewer[3].tolist()) == list(range(10))
    best = [int((owners == k).nonzero()[0]) for k in range(10)]
    torch.testing.assert_close(fewer[0], weight[:, best])


# --- without generators -----------------------------------------------------------------------


@pytest.mark.parametrize("factors", [1, 2, 3, 4])
def test_products_expand_to_ordinary_polynomials(factors):
    head = ProductsHead(4, 9, 3, count=5, rank=4, factors=factors)
    lived(head).eval().double()
    points = torch.randn(20, 4, dtype=torch.float64)
    plain = head.folded()
    expected = plain.units(plain.forms(points))
    found = head.to_polynomials()
    np.testing.assert_allclose(found.evaluate(points), expected.detach(), rtol=1e-9, atol=1e-12)
    assert found.terms.degrees.max() == factors


def test_an_expansion_that_nobody_could_read_is_refused():
    head = ProductsHead(64, 4, 3, count=2, rank=2, factors=5)
    with pytest.raises(ValueError, match="factored form"):
        head.to_polynomials()


def test_the_first_products_are_those_that_are_given():
    head = ProductsHead(4, 3, 2, count=5, rank=2)
    before = head.forms.weight.detach().clone().unflatten(0, (2, 5))
    weight, gain = torch.randn(2, 3, 4), torch.tensor([[0.5, 0.0, 1.0], [0.7, 1.0, 0.2]])
    bias, owners = torch.randn(2, 3), torch.tensor([1, 1, 0])
    head.start_from(weight, gain, bias, owners)
    trained = head.forms.weight, head.forms.gain, head.forms.bias
    rows, *others = (p.detach().unflatten(0, (2, 5)) for p in trained)
    weight[0, 1] = before[0, 1]  # a constant factor keeps a direction to move into
    assert torch.equal(rows[:, :3], weight) and torch.equal(rows[:, 3:], before[:, 3:])
    assert torch.equal(others[0][:, :3], gain) and torch.equal(others[1][:, :3], bias)
    assert head.owners.tolist() == [1, 1, 0, 1, 0]


@pytest.mark.filterwarnings("error:.*side effects")
def test_a_strict_export_finds_nothing_that_the_forward_pass_changes():
    head = ProductsHead(4, 3, 2, count=5, rank=2).eval()
    latents = torch.randn(2, 4, 3)
    program = torch.export.export(head, (latents,), strict=True)
    assert torch.allclose(program.module()(latents), head(latents), atol=1e-6)


def test_sizes_are_those_of_the_whole_batch_however_it_is_run():
    head = ProductsHead(8, 64, 4, count=600, rank=2).train()  # on a CPU a few images at a time
    labels = torch.arange(40) % 4
    head(torch.randn(40, 8, 64))
    assert not head.seen  # as nobody has asked for them
    head.watched = True
    head(torch.randn(40, 8, 64))
    assert torch.cat(head.seen).shape == (40, 600)
    assert torch.isfinite(head.vanishing_loss(labels))


@pytest.mark.parametrize(("classes", "labels"), [(2, [0, 0, 1, 1, 1]), (3, [0, 0, 1, 1])])
def test_the_vanishing_loss_is_the_share_of_the_size_on_the_own_class(classes, labels):
    """Classes that a batch does not hold say nothing."""
    head = ProductsHead(4, 3, classes, count=4, rank=2).train()
    head.watched, labels = True, torch.tensor(labels)
    head(torch.randn(len(labels), 4, 3))
    sizes, owners = torch.cat(head.seen).detach(), enumerate(head.owners.tolist())
    pairs = [(sizes[labels == k, j], sizes[labels != k, j]) for j, k in owners if k in labels]
    shares = [own.mean() / (others.mean() + 1e-6) for own, others in pairs]
    torch.testing.assert_close(head.vanishing_loss(labels), torch.stack(shares).mean())
