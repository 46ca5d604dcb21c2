from __future__ import annotations

import pytest
import torch

from vinets import build
from vinets.data import DataSplit, Preprocessing, TensorSource
from vinets.scores.detect import compare_scores, layers_of, ood_images


def test_layers_lie_in_the_network_and_leave_the_logits_out(model, train):
    example = train.example()
    names = layers_of(model, example)
    modules = list(dict(model.named_modules()))
    assert len(names) == 5 and set(names) <= set(modules) and modules[-1] not in names
    net, _ = build(model, train, "pool", head="closed", progress=None)
    assert all(name.startswith("backbone.") for name in layers_of(net, example))


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
