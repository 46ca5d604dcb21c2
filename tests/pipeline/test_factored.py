"""Products that start from generators."""

from __future__ import annotations

import pytest
import torch

from vinets import ABM
from vinets.nn.heads.units import NormalizedForms
from vinets.pipeline import build, collect
from vinets.pipeline.factored import factored_generators
from vinets.settings import Projecting, Pruning

IDEAL = ABM(psi=0.1, max_degree=2)


@pytest.fixture(scope="module")
def vectors(model, train):
    """Latents with one position, so that every descriptor is drawn."""
    return collect(model, train, "relu3", read="mean_token", per_class=40, progress=None)


@pytest.fixture(scope="module")
def train():
    from vinets.data import digits

    return digits().train


def made(latents, **options):
    return factored_generators(latents, Projecting(components=6), Pruning(**options), IDEAL, 0)


def test_products_are_generators_up_to_a_factor(vectors):
    start = made(vectors, keep=3)
    net, report = build(
        vectors,
        placement="products",
        start="ideal",
        components=6,
        keep=3,
        head_parameters=9_000,
        ideal=IDEAL,
        progress=None,
    )
    assert report.generators_found == start.found > report.generators_kept == 30
    h = torch.cat([values for values, _ in vectors.store.chunks()])[..., 0]
    head = net.head.train()  # so that forms are normalised by these very points
    assert isinstance(head.forms, NormalizedForms)
    ours = head.units(head.forms(h[:, None]))[:, 0, :30].detach().double()
    # as the layer standardises, whose variances have a little added to them
    standard = ((h - h.mean(0)) / (h.var(0, unbiased=False) + head.forms.eps).sqrt()).double()
    forms = standard @ start.weight.double().mT + start.bias.double()[:, None]
    expected = forms[0] * forms[1]
    for j in range(30):
        pair = torch.stack([ours[:, j], expected[:, j]])
        assert torch.corrcoef(pair)[0, 1] > 0.999


def test_they_are_small_on_their_class(vectors):
    start = made(vectors, keep=4)
    h = torch.cat([values for values, _ in vectors.store.chunks()])[..., 0]
    standard = (h - h.mean(0)) / h.std(0, unbiased=False)
    forms = standard @ start.weight.mT + start.bias[:, None]
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
    options = {"placement": "products", "components": 6, "keep": 1, "progress": None}
    ideal = build(vectors, start="ideal", ideal=IDEAL, **options)[0].head
    plain = build(vectors, **options)[0].head
    ours, theirs = (head.forms.weight.unflatten(0, (2, 512)) for head in (ideal, plain))
    assert torch.equal(ours[:, 10:], theirs[:, 10:])
    assert not torch.equal(ours[:, :10], theirs[:, :10])


def test_generators_of_two_factors_are_no_start_of_three(vectors):
    with pytest.raises(ValueError, match="2 with start='ideal'"):
        build(vectors, placement="products", start="ideal", factors=3, progress=None)
