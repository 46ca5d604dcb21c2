from __future__ import annotations

import json
from functools import reduce

import pytest
import torch
from torch import nn

from vinets.models import (
    ResNet,
    TextTransformer,
    VisionTransformer,
    create_model,
    digits_cnn,
    rebuild,
    resnet18,
    resnet34,
    source_of,
)


def record(library="vinets", name="digits_cnn", **options):
    return {"library": library, "name": name, "options": options}


def shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in model.state_dict().items()}


@pytest.mark.parametrize(
    "make",
    [
        lambda: resnet18(7),
        lambda: resnet34(3, maxpool=False),
        lambda: ResNet((1, 2, 1, 1), 4, False),
        lambda: resnet34(3, width=0.1),
        lambda: ResNet((1, 2, 1), 4, False, 8),
        lambda: create_model("resnet20", 4),
        lambda: create_model("resnet18", 4, width=0.25),
        lambda: digits_cnn(4, channels=3),
        lambda: create_model("resnet18", 6, maxpool=False),
        lambda: create_model("digits_cnn"),
        lambda: VisionTransformer(4, 1, 8, 2, width=12, depth=3, heads=2),
        lambda: TextTransformer(4, 30, 7, width=12, depth=3, heads=2),
    ],
)
def test_a_network_is_made_again_from_its_record_after_json(make):
    model, state = make(), torch.get_rng_state()
    record = source_of(model)
    assert torch.equal(torch.get_rng_state(), state)
    again = rebuild(json.loads(json.dumps(record)))
    assert type(again) is type(model) and str(again) == str(model)
    assert shapes(again) == shapes(model)
    assert source_of(again) == record


def test_the_record_is_kept_without_touching_the_network():
    model = create_model("resnet18", num_classes=5, maxpool=False)
    assert model.vinets_source == record(name="resnet18", num_classes=5, maxpool=False)
    assert shapes(model) == shapes(resnet18(5, maxpool=False))
    source_of(model)["options"]["num_classes"] = 99  # a copy
    assert source_of(model)["options"]["num_classes"] == 5


def test_a_new_last_layer_is_seen_and_other_changes_make_a_custom_network():
    model = create_model("resnet18", 10)
    model.fc = nn.Linear(512, 3)
    assert shapes(rebuild(source_of(model))) == shapes(model)
    model.conv1 = nn.Conv2d(1, 64, 3)
    assert source_of(model) is None


def test_custom_classes_have_no_record():
    class Custom(ResNet):
        """May compute something else."""

    assert source_of(nn.Sequential(nn.Linear(2, 2))) is None
    assert source_of(Custom((1, 1, 1, 1), 10, True)) is None


def test_a_foreign_attribute_of_the_same_name_is_no_record():
    for stray in (3, {"library": "os", "name": "system", "options": {}}, "resnet18"):
        model = digits_cnn()
        model.vinets_source = stray
        assert source_of(model)["name"] == "digits_cnn"


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("resnet81", {}, r"'spec' parameter.*one of resnet18.*Did you mean 'resnet18'"),
        ("onnx:thing", {}, r"hf:CLASS, timm:NAME, torchvision:NAME"),
        ("timm:", {}, r"'spec' parameter"),
        (None, {}, r"'spec' parameter"),
        ("resnet18", {"num_classes": 0}, r"'num_classes'.*positive integer"),
        ("resnet18", {"depth": 3}, r"could not be built with the options depth, num_classes:"),
        ("resnet", {"blocks": [10**9] * 4, "maxpool": True}, r"three or four .* from 1 to 100"),
        ("resnet", {"blocks": [1] * 5, "maxpool": True}, r"three or four integers"),
        ("resnet", {"blocks": [1] * 4, "maxpool": True, "channels": 10**6}, r"'channels'.* 1024"),
        ("resnet18", {"width": 0}, r"'width' parameter of ResNet must be a number in"),
        ("resnet18", {"width": "half"}, r"'width' parameter"),
        ("hf:BertModel", {"config": "tiny"}, "takes the option config, which is a dict"),
    ],
)
def test_bad_requests_get_one_sentence(spec, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        create_model(spec, **{"num_classes": 10, **options})
    assert "\n" not in str(caught.value)


def bert(**config):
    return record("transformers", "BertModel", config=config)


INCOMPLETE = [None, [], {"library": "vinets", "name": "resnet18"}, {**record(), "code": "1"}]
NESTED = reduce(lambda inner, _: [inner], range(1000), [])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        *((source, "keys library, name and options") for source in INCOMPLETE),
        (record("os", "system"), "library is one of vinets"),
        (record(["vinets"]), "library is one of vinets"),
        (record(name="../resnet18"), "letters, digits"),
        (record(name=18), "letters, digits"),
        (record("timm", "hf-hub:someone/resnet18"), "letters, digits"),
        (record("timm", "local-dir:/tmp/x"), "letters, digits"),
        (record(name="__import__"), "name must be one of resnet18"),
        (record(name="Record"), "name must be one of resnet18"),
        ({**record(), "options": [1]}, "dict of plain JSON"),
        (record(num_classes={1, 2}), "dict of plain JSON"),
        (record(num_classes=NESTED), "dict of plain JSON"),
        (record(num_classes="many"), "could not be built"),
        (record(num_classes=-1), "could not be built"),
        (record(colour="red"), "could not be built"),
        (record("timm", "resnet18", pretrained=True), "fetch weights or code"),
        (record("timm", "resnet18", checkpoint_path="x.pt"), "fetch weights or code"),
        (record("timm", "resnet18", pretrained_cfg={"url": "x"}), "fetch weights or code"),
        (record("torchvision", "resnet18", weights="DEFAULT"), "fetch weights or code"),
        (bert(attn_implementation="someone/kernel"), "fetch weights or code"),
        (bert(a=[{"auto_map": {"b": "c.py"}}]), "fetch weights or code"),
    ],
)
def test_records_that_nobody_vouches_for_are_refused(source, message):
    with pytest.raises(ValueError, match=message) as caught:
        rebuild(source)
    assert len(str(caught.value)) < 1000
