"""Products that start from generators."""

from __future__ import annotations

import pytest
import torch

from vinets import ABM, build, collect
from vinets.core.settings import Projecting, Pruning
from vinets.heads.units import NormalizedForms
from vinets.ideals.base import ScaleWarning
from vinets.models import digits_cnn
from vinets.runs.factored import factored_generators
from vinets.training import train_classifier

IDEAL = ABM(psi=0.1, max_degree=2)
# Products are of whole components, with no tanh between, so their generators are found there.
pytestmark = pytest.mark.filterwarnings("ignore::vinets.ideals.base.ScaleWarning")


@pytest.fixture(scope="module")
def vectors(train):
    """Latents with one position, so that every descriptor is drawn."""
    torch.manual_seed(0)
    model = digits_cnn()
    train_classifier(model, train, epochs=2, batch_size=64, progress=None)
    return collect(model, train, "relu3", read="mean_token", per_class=40, progress=None)


@pytest.fixture(scope="module")
def train():
    from vinets.data import digits

    return digits().train


def made(latents, **options):
    return factored_generators(latents, Projecting(components=6), Pruning(**options), IDEAL, 0)


def values_of(start, h):
    standard = (h - h.mean(0)) / h.std(0, unbiased=False)
    gain, bias = start.gain.to(h)[:, None], start.bias.to(h)[:, None]
    return gain * (standard @ start.weight.to(h).mT) + bias


def test_products_are_generators_up_to_a_factor(vectors):
    start = made(vectors, keep=3)
    options = {"head": "products", "start": "ideal", "components": 6, "keep": 3}
    with pytest.warns(ScaleWarning, match=r"psi is meant for data in \[-1, 1\]"):
        net, report = build(vectors, parameters=9_000, ideal=IDEAL, progress=None, **options)
    assert report.generators_found == start.found > report.generators_kept == 30
    h = torch.cat([values for values, _ in vectors.store.chunks()])[..., 0]
    head = net.head.train()  # so that forms are normalised by these very points
    assert isinstance(head.forms, NormalizedForms)
    ours = head.units(head.forms(h[:, None]))[:, 0, :30].detach().double()
    forms = values_of(start, h.double())
    expected = forms[0] * forms[1]
    for j in range(30):
        pair = torch.stack([ours[:, j], expected[:, j]])
        assert torch.corrcoef(pair)[0, 1] > 0.999


def test_a_line_is_a_product_with_a_constant(vectors):
    start = factored_generators(
        vectors, Projecting(components=6), Pruning(keep=3), ABM(psi=0.3, max_degree=1), 0
    )
    small, large = start.gain.sort(0).values
    assert (small < 1e-4).all() and (large > 0.1).all()
    head = build(vectors, head="products", progress=None)[0].head.train()
    head.start_from(start.weight, start.gain, start.bias, start.owners)
    assert all(torch.isfinite(p).all() for p in head.parameters())
    rows = head.forms.weight.unflatten(0, (2, 512))[:, : start.gain.shape[1]]
    assert (rows.norm(dim=-1) > 0.1).all()  # a direction to move into


def test_they_are_small_on_their_class(vectors):
    start = made(vectors, keep=4)
    h = torch.cat([values for values, _ in vectors.store.chunks()])[..., 0]
    forms = values_of(start, h)
    values = (forms[0] * forms[1]).abs()
    labels = vectors.store.labels
    own = torch.stack([values[labels == k, j].mean() for j, k in enumerate(start.owners)])
    other = torch.stack([values[labels != k, j].mean() for j, k in enumerate(start.owners)])
    assert (own < other).double().mean() > 0.9


def test_fewer_are_taken_from_all_classes_and_the_best_of_each(vectors):
    start = made(vectors, keep=4)
    fewer = start.first(10)
    assert sorted(fewer.owners.tolist()) == list(range(10))
    best = [int((start.owners == k).nonzero()[0]) for k in range(10)]
    torch.testing.assert_close(fewer.weight, start.weight[:, best])


def test_the_rest_starts_at_random(vectors):
    options = {"head": "products", "components": 6, "keep": 1, "progress": None}
    ideal = build(vectors, start="ideal", ideal=IDEAL, **options)[0].head
    plain = build(vectors, **options)[0].head
    ours, theirs = (head.forms.weight.unflatten(0, (2, 512)) for head in (ideal, plain))
    assert torch.equal(ours[:, 10:], theirs[:, 10:])
    assert not torch.equal(ours[:, :10], theirs[:, :10])


def test_generators_of_two_factors_are_no_start_of_three(vectors):
    with pytest.raises(ValueError, match="2 with start='ideal'"):
        build(vectors, head="products", start="ideal", factors=3, progress=None)
