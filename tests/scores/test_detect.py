from __future__ import annotations

import pytest
import torch

from vinets import build
from vinets.data import DataSplit, Preprocessing, TensorSource
from vinets.scores import Activations, fit_layer_score, rates
from vinets.scores.detect import choose_layers, compare_scores, distance_margin, ood_images


def test_layers_lie_in_the_network_and_leave_the_logits_out(model, train):
    example = train.example()
    names = choose_layers(model, example)
    modules = list(dict(model.named_modules()))
    assert len(names) == 5 and set(names) <= set(modules) and modules[-1] not in names
    net, _ = build(model, train, "pool", head="closed", progress=None)
    assert all(name.startswith("backbone.") for name in choose_layers(net, example))


@pytest.mark.parametrize("spec", ["noise", "textures", "digits"])
def test_images_come_as_the_network_takes_them(spec):
    images = ood_images(spec, Preprocessing(3, (12, 10), (0.5,) * 3, (0.5,) * 3), 6, seed=1)
    assert images.shape == (6, 3, 12, 10) and images.dtype == torch.float32
    assert -1 <= images.min() < images.max() <= 1


def test_too_few_test_examples_are_refused(model, train):
    data = DataSplit("few", train, train.subset(torch.arange(7)))
    with pytest.raises(ValueError, match="7 test examples are too few"):
        compare_scores(model, data, {})


def test_networks_of_several_inputs_are_refused(model):
    source = TensorSource({"a": torch.zeros(8, 2), "b": torch.zeros(8, 2)}, [0, 1] * 4)
    with pytest.raises(ValueError, match="whose input is one tensor"):
        compare_scores(model, DataSplit("two", source, source), {})


def test_the_margin_is_zero_between_classes_and_negative_near_one():
    distances = torch.tensor([[2.0, 2.0, 2.0, 2.0], [1.0, 8.0, 8.0, 8.0]])
    found = distance_margin(torch.nn.Identity(), distances)
    assert found[0] == 0 and found[1] < -1.5


def test_distances_tell_points_between_and_beyond(cloud):
    def seen(points: torch.Tensor, labels: torch.Tensor | None = None) -> Activations:
        logits = 4 * points[:, :3]
        return Activations(points, logits, labels, {"a": points, "b": points[:, :4]})

    train, labels = cloud(600, 0)
    ours, _ = cloud(300, 1)
    score = fit_layer_score(seen(train, labels), seen(*cloud(300, 2)))
    usual = score(seen(ours))
    between = train[labels == 0][:150] / 2 + train[labels == 1][:150] / 2
    assert rates(usual, score(seen(between)))[0] > 0.85
    assert rates(usual, score(seen(-3 * ours)))[0] > 0.99
    with pytest.raises(ValueError, match="must have labels"):
        fit_layer_score(seen(train), seen(ours))
