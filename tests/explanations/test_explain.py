"""An explanation adds up, and what it says of examples is so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vinets import build, fine_tune
from vinets.data import digits
from vinets.explanations.explain import explain
from vinets.explanations.page import explain_page
from vinets.heads.pieces import integrated_gradients
from vinets.models import digits_cnn
from vinets.networks.network import CutNetwork
from vinets.report.numbers import number

DATA = digits()
IMAGE = DATA.test.example()
KINDS = {
    "products": {"head": "products"},
    "local": {"head": "local", "components": 4, "linear_path": 3},
    "global": {"components": 6, "keep": 4, "monomials": 24, "linear_path": 2},
}


@pytest.fixture(scope="module")
def nets():
    torch.manual_seed(0)
    model, networks = digits_cnn(), {}
    for kind, options in KINDS.items():
        net, _ = build(model, DATA.train, "pool", per_class=30, progress=None, **options)
        fine_tune(net, DATA.train, epochs=1, progress=None)
        networks[kind] = net.folded()
    return networks


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_and_the_middle_are_the_margin_and_so_is_the_map(nets, kind):
    net = nets[kind]
    found = explain(net, IMAGE, DATA, per_class=20, top=5)
    with torch.no_grad():
        logits = net(IMAGE)[0]
    best, second = logits.topk(2).values.tolist()
    assert found.margin == pytest.approx(best - second, abs=1e-4)
    parts = [one.contribution for one in found.generators]
    assert len(parts) == 5 and found.count > 5
    total = found.middle + sum(parts) + found.others + found.path
    assert total == pytest.approx(found.margin, abs=1e-9)
    assert [abs(c) for c in parts] == sorted((abs(c) for c in parts), reverse=True)
    assert (found.path != 0) == (kind != "products")
    for one in found.generators:
        change = one.weight * (one.value - one.middle)
        assert one.contribution == pytest.approx(change, abs=1e-9)
    alone = explain(net, IMAGE[0], DATA, per_class=20, top=10_000)  # an image without a batch
    assert alone.margin == found.margin and len(alone.generators) == alone.count
    assert alone.others == pytest.approx(0, abs=1e-9)
    if kind == "global":  # it sees all positions at once
        assert found.map is None and all(one.map is None for one in found.generators)
        return
    assert np.array(found.map).shape == (4, 4)
    assert np.sum(found.map) == pytest.approx(found.margin - found.middle, abs=1e-9)
    assert found.outside == 0
    assert found.sees == (6, 6)  # two convolutions of 3 by 3, and a pool of 2 by 2
    for one in found.generators:
        assert np.sum(one.map) == pytest.approx(one.contribution, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_margin_at_the_head_of_the_page_is_what_its_table_adds_up_to(nets, kind):
    found = explain(nets[kind], IMAGE, DATA, per_class=20, top=3)
    page = explain_page(found, "Why", "vinets explain")
    (heading,) = (value for name, value, _ in page.lead[0].facts if name == "margin")
    (what,) = (section for section in page.sections if section.title.startswith("What decided"))
    _, total, polynomials, _ = what.blocks
    *parts, last = (row.values["logits"] for row in total.rows)
    assert sum(parts) == pytest.approx(last, abs=1e-9)
    assert heading == number(last, total.columns[1].format)
    below = sum(row.values["contribution"] for row in polynomials.rows)
    assert parts[1] == pytest.approx(below, abs=1e-9) and len(polynomials.rows) == 3


def test_a_position_of_the_map_is_where_it_is_drawn(nets):
    """The map of an image that differs in one corner of the latents differs there alone."""
    net = nets["products"]

    def change(backbone, inputs, output):
        if len(output) > 1:  # examples in batches
            return output
        corner = torch.zeros_like(output)
        corner[:, :, 0, 3] = 1.0
        return output + corner

    before = explain(net, IMAGE, DATA, per_class=20)
    with net.backbone.register_forward_hook(change):
        after = explain(net, IMAGE, DATA, per_class=20, against=before.next)
    assert after.answer == before.answer
    moved = np.abs(np.array(after.map) - np.array(before.map)) > 1e-6
    assert np.argwhere(moved).tolist() == [[0, 3]]


def test_the_middle_is_the_mean_margin_of_both_classes(nets):
    net = nets["products"]
    found = explain(net, IMAGE, DATA, per_class=None)
    answer, rival = (DATA.train.classes.index(name) for name in (found.answer, found.next))
    inputs, labels = next(DATA.train.batches(2000))
    with torch.no_grad():
        logits = net(inputs)
    margins = logits[:, answer] - logits[:, rival]
    middle = sum(float(margins[labels == k].mean()) for k in (answer, rival)) / 2
    assert found.middle == pytest.approx(middle, abs=1e-4)
    assert found.examples == len(DATA.train)


def test_a_training_image_is_its_own_nearest_example_and_stands_in_its_distribution(nets):
    net, index = nets["products"], 5
    image = DATA.train.subset(torch.tensor([index])).example()
    found = explain(net, image, DATA, per_class=None, neighbours=3)
    first = found.neighbours[0]
    assert (first.index, first.distance) == (index, pytest.approx(0, abs=1e-4))
    assert first.label == DATA.train.classes[int(DATA.train.labels[index])]
    np.testing.assert_allclose(first.picture, found.picture, atol=1e-5)
    distances = [one.distance for one in found.neighbours]
    assert distances == sorted(distances)
    for one in found.generators:
        assert sum(s.examples for s in one.spreads.values()) == len(DATA.train)
        for spread in one.spreads.values():
            low, *_, high = spread.quantiles
            assert spread.quantiles == tuple(sorted(spread.quantiles))
            if low <= one.value <= high:
                assert 0.04 < spread.below < 0.96


def test_components_are_those_in_the_polynomials(nets):
    found = explain(nets["global"], IMAGE, DATA, per_class=20, top=3)
    text = " ".join(one.polynomial for one in found.generators)
    names = [one.name for one in found.components]
    assert names and all(name in text for name in names)
    assert len(set(names)) == len(names)
    with torch.no_grad():
        z = nets["global"].head.variables(nets["global"].latents(IMAGE))[0]
    for one in found.components:
        assert one.value == pytest.approx(float(z[int(one.name[1:])]), abs=1e-4)


def test_another_class_can_be_compared_with(nets):
    net = nets["products"]
    first = explain(net, IMAGE, DATA, per_class=10)
    other = next(k for k in DATA.train.classes if k not in (first.answer, first.next))
    second = explain(net, IMAGE, DATA, per_class=10, against=other)
    assert (second.answer, second.next) == (first.answer, other)
    assert second.margin >= first.margin
    assert other in second.probabilities
    with pytest.raises(ValueError, match="knows no class 'x'"):
        explain(net, IMAGE, DATA, against="x")
    with pytest.raises(ValueError, match="itself"):
        explain(net, IMAGE, DATA, against=first.answer)


def test_what_cannot_be_explained_is_refused(nets):
    net = nets["products"]
    with pytest.raises(ValueError, match="takes one image"):
        explain(net, DATA.test.example(2), DATA)
    lone = DATA.train.subset((DATA.train.labels == 0).nonzero()[:, 0])
    with pytest.raises(ValueError, match="no example of class"):
        explain(net, IMAGE, lone)
    blind = CutNetwork(net.backbone, net.reader, net.head, replace(net.record, preprocessing=None))
    with pytest.raises(ValueError, match="no preprocessing on record"):
        explain(blind, "digit.png", DATA)


@pytest.mark.parametrize("kind", KINDS)
def test_integrated_gradients_sum_to_what_the_image_adds_to_the_margin(nets, kind):
    net = nets[kind]
    with torch.no_grad():
        logits = torch.cat([net(IMAGE), net(torch.zeros_like(IMAGE))])
    answer, rival = logits[0].topk(2).indices[:, None]
    margins = (logits[:, answer] - logits[:, rival])[:, 0]
    found = integrated_gradients(net, IMAGE, answer, rival, steps=500)
    assert float(found.sum()) == pytest.approx(float(margins[0] - margins[1]), rel=0.02, abs=0.01)
    few = explain(net, IMAGE, DATA, per_class=5).pixels
    np.testing.assert_allclose(few, found[0], atol=0.2 * float(found.abs().max()))
