from __future__ import annotations

import importlib
import json
import os
import socket

import pytest
import torch
from torch import nn

from vinets.models import (
    LIBRARIES,
    Library,
    channel_options,
    create_model,
    load_weights,
    normalisation_of,
    rebuild,
    save_weights,
    spec_of,
)
from vinets.models import source_of as record_of
from vinets.models.libraries.timm import import_timm
from vinets.models.libraries.torchvision import import_torchvision
from vinets.models.libraries.transformers import import_transformers
from vinets.models.records import bytes_of, sketch

SHAPE = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
IMAGES = {"image_size": 16, "patch_size": 8, "num_channels": 1}
VIT = {**SHAPE, **IMAGES, "num_hidden_layers": 2}
BERT = {**SHAPE, "num_hidden_layers": 1, "vocab_size": 30, "max_position_embeddings": 8}

# Configs that name another network, which may be an address.
HUB = {"architecture": "hf-hub:x/y"}
GEMMA = {"model_type": "gemma3n_vision", **HUB}
WRAPPER = {"model_type": "timm_wrapper"}
NONE = ["pipeline", "Trainer", "PreTrainedModel", "AutoModel", "utils.import_utils"]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("asked for the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def fixture_of(load):
    def library():
        try:
            return load()
        except ModuleNotFoundError as error:
            pytest.skip(str(error))

    return pytest.fixture(library)


timm, torchvision, transformers = map(
    fixture_of, (import_timm, import_torchvision, import_transformers)
)


def made_again(model: nn.Module) -> nn.Module:
    """A twin from the record after JSON, and a check that it has the names, shapes and text."""
    again = rebuild(json.loads(json.dumps(record_of(model))))
    assert type(again) is type(model)
    mine, other = model.state_dict(), again.state_dict()
    assert [(k, v.shape) for k, v in other.items()] == [(k, v.shape) for k, v in mine.items()]
    return again


def assert_made_again(model, inputs, path):
    """Also with its weights from a file, for the same outputs."""
    again = made_again(model)
    save_weights(model, path / "w.safetensors")
    load_weights(again, path / "w.safetensors")
    with torch.no_grad():
        a, b = model.eval()(inputs), again.eval()(inputs)
    torch.testing.assert_close(getattr(b, "logits", b), getattr(a, "logits", a))


@pytest.mark.parametrize(
    ("spec", "missing", "message"),
    [
        ("hf:BertModel", "transformers", r'transformers need transformers.*"vinets\[hf\]"'),
        ("timm:resnet18", "timm", r'^Networks of timm need timm, .*"vinets\[vision\]"'),
        ("timm:resnet18", "torchvision", r'^Networks of timm need torchvision, .*vision\]"'),
    ],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, spec, missing, message):
    load = importlib.import_module

    def without(name, *args, **more):
        if name == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return load(name, *args, **more)

    if spec.startswith("timm"):
        monkeypatch.setattr(importlib.util, "find_spec", lambda n: n != missing or None)
    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ModuleNotFoundError, match=message):
        create_model(spec)


@pytest.fixture
def linears(monkeypatch):
    """A library of another distribution, with networks of one layer."""
    monkeypatch.setattr(LIBRARIES, "_entries", dict(LIBRARIES))

    class Layer(nn.Linear):
        pass

    class Linears(Library):
        name = "linears"
        prefix = "lin"
        written = "lin:WIDTH"

        def names(self):
            return ["w4", "w8"]

        def build(self, name, options):
            return Layer(int(name[1:]), options.get("num_classes", 2))

        def candidates(self, model):
            if type(model) is Layer:
                yield f"w{model.in_features}", {"num_classes": model.out_features}

    return Layer


def test_a_library_from_outside_makes_and_remakes_its_networks(linears):
    model = create_model("lin:w8", 3)
    assert model.weight.shape == (3, 8)
    record = record_of(linears(4, 5))
    assert record == {"library": "linears", "name": "w4", "options": {"num_classes": 5}}
    assert made_again(linears(4, 5)).weight.shape == (5, 4)
    assert spec_of(record) == "lin:w4" and channel_options("lin:w4", 1) == {}
    with pytest.raises(ValueError, match=r"one of .*, lin:WIDTH, timm:NAME"):
        create_model("line:w8")
    with pytest.raises(ValueError, match=r"whose library is one of vinets, .*, linears, timm"):
        rebuild({"library": "os", "name": "system", "options": {}})
    with pytest.raises(ValueError, match="fetch weights or code"):
        rebuild({"library": "linears", "name": "w4", "options": {"weights": "x"}})


TIMM = [
    ("vit_tiny_patch16_224", {"img_size": 32, "in_chans": 1}),
    ("vit_tiny_patch16_224", {"img_size": [32, 48], "global_pool": "avg"}),
    ("convnext_atto", {}),
    ("mobilenetv3_small_050", {"in_chans": 2}),
]


@pytest.mark.parametrize(("name", "options"), TIMM)
def test_timm_networks_are_made_again(timm, tmp_path, name, options):
    inputs = torch.randn(1, options.get("in_chans", 3), 32, 48 if "global_pool" in options else 32)
    for model in (
        create_model(f"timm:{name}", 7, **options),
        timm.create_model(name, num_classes=7, **options),
    ):
        assert_made_again(model, inputs, tmp_path)


def test_a_timm_network_with_a_new_head_is_followed(timm):
    model = create_model("timm:mobilenetv3_small_050", 7)
    model.reset_classifier(3)
    assert record_of(model)["options"]["num_classes"] == 3
    model.conv_stem = nn.Conv2d(3, 8, 3)
    assert record_of(model) is None


def test_torchvision_networks_are_made_again(torchvision, tmp_path):
    assert import_torchvision() is torchvision  # once more
    model = create_model("torchvision:mobilenet_v3_small", 4)
    assert_made_again(model, torch.randn(1, 3, 32, 32), tmp_path)
    for name in ("squeezenet1_1", "regnet_x_400mf"):  # without a record
        plain = torchvision.models.get_model(name, num_classes=6)
        own = {"library": "torchvision", "name": name, "options": {"num_classes": 6}}
        assert record_of(plain) == own


def test_libraries_tell_what_weights_were_normalised_by(timm, torchvision):
    imagenet = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    for spec, pair in (
        ("torchvision:squeezenet1_1", imagenet),
        ("timm:mobilenetv3_small_050", imagenet),
        ("timm:vit_tiny_patch16_224", ((0.5,) * 3, (0.5,) * 3)),
        ("digits_cnn", None),
    ):
        assert normalisation_of(spec, create_model(spec, 2)) == pair


def test_transformers_networks_are_made_again(transformers, tmp_path):
    vit = create_model("hf:ViTForImageClassification", 5, config=VIT)
    images = torch.randn(2, 1, 16, 16)
    assert vit(images).logits.shape == (2, 5)
    assert_made_again(vit, images, tmp_path)

    words = torch.randint(0, 30, (2, 6))
    for name in ("BertForSequenceClassification", "BertForMaskedLM"):  # the second ties weights
        bert = getattr(transformers, name)(transformers.BertConfig(**BERT))
        assert_made_again(bert, words, tmp_path)


def test_how_attention_is_computed_is_no_part_of_the_record(transformers):
    config = {**BERT, "attn_implementation": "eager"}
    model = create_model("hf:BertModel", config=config)
    assert model.config._attn_implementation == "eager"
    assert "attn_implementation" not in json.dumps(record_of(model))
    made_again(model)


def test_a_subclass_of_a_transformers_class_is_custom(transformers):
    class BertModel(transformers.BertModel):
        pass

    BertModel.__module__ = transformers.BertModel.__module__
    assert record_of(BertModel(transformers.BertConfig(**BERT))) is None


@pytest.mark.parametrize(
    ("library", "name", "options", "message"),
    [
        ("timm", "vit_tiny_patch16_22", {}, "Did you mean 'vit_tiny_patch16_224'"),
        ("timm", "os.system", {}, "timm has no network of that name"),
        ("timm", "convnext_atto", {"no_such": 1}, "that timm is known to shape networks by"),
        ("timm", "convnext_atto", {"act_layer": "local-dir:/x"}, "made of numbers and words"),
        ("timm", "convnext_atto", {"model_cls": "x"}, "that timm is known to shape networks by"),
        ("timm", "convnext_atto", {"depths": [1, 1, 1, 10**8]}, "of at most 10000"),
        ("timm", "vit_tiny_patch16_224", {"depth": 2**30}, "of at most 10000"),
        ("torchvision", "squeezenet1_1", {"version": "x"}, "that torchvision is known to shape"),
        ("torchvision", "fasterrcnn_resnet50_fpn", {}, "torchvision has no network of that name"),
        ("torchvision", "_api", {}, "torchvision has no network of that name"),
        *(("transformers", name, {}, "transformers has no network of that name") for name in NONE),
        ("transformers", "BertModel", {"config": 3}, "config, which is a dict"),
        ("transformers", "BertModel", {"config": {"hidden_size": "x"}}, "could not be built"),
        ("transformers", "DetrForObjectDetection", {"config": {}}, "another network"),
        ("transformers", "LlavaModel", {"config": {}}, "another network"),
        ("transformers", "BertModel", {"config": {"model_type": "timm_wrapper"}}, "use timm:NAME"),
        ("transformers", "BertModel", {"config": {"model_type": "gemma3n_vision"}}, "not 'bert'"),
        ("transformers", "CLIPModel", {"config": {"vision_config": "x"}}, "is no object"),
        ("transformers", "CLIPModel", {"config": {"vision_config": GEMMA}}, "not 'clip_vision"),
        ("transformers", "LlavaModel", {"config": {"vision_config": GEMMA}}, "another network"),
        ("transformers", "TimmWrapperModel", {"config": HUB}, "use timm:NAME"),
        ("transformers", "LlavaModel", {"config": {"vision_config": WRAPPER}}, "use timm:NAME"),
    ],
)
def test_records_reach_registries_only(request, library, name, options, message):
    request.getfixturevalue(library)
    with pytest.raises(ValueError, match=message) as caught:
        sketch({"library": library, "name": name, "options": options}, 1 << 20)
    assert "asked for" not in str(caught.value)


def test_a_config_cannot_rename_what_is_refused(transformers):
    hostile = {**BERT, "attribute_map": {"zz": "_attn_implementation"}, "zz": "owner/kernel"}
    options = {"config": hostile}
    model = rebuild({"library": "transformers", "name": "BertModel", "options": options})
    assert "zz" not in model.config.to_dict() and model.config.attribute_map == {}
    assert model.config._attn_implementation in ("sdpa", "eager")


def test_nothing_is_fetched_while_a_record_is_built(transformers, monkeypatch):
    from huggingface_hub import constants

    seen = []

    class Watched(nn.Module):
        def __init__(self):
            super().__init__()
            seen.append((os.environ.get("HF_HUB_OFFLINE"), constants.HF_HUB_OFFLINE))

    monkeypatch.setattr("vinets.models.records._build", lambda record: Watched())
    monkeypatch.setenv("TRANSFORMERS_OFFLINE", "0")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    before = constants.HF_HUB_OFFLINE
    rebuild({"library": "vinets", "name": "digits_cnn", "options": {}})
    assert seen == [("1", True)]
    assert "HF_HUB_OFFLINE" not in os.environ and os.environ["TRANSFORMERS_OFFLINE"] == "0"
    assert constants.HF_HUB_OFFLINE is before


SKETCHED = [
    ("vinets", "resnet18", {}),
    ("vinets", "vit", {}),
    ("timm", "vit_tiny_patch16_224", {"img_size": 32}),
    ("timm", "mobilenetv3_small_050", {}),
    ("timm", "swin_tiny_patch4_window7_224", {}),  # computes with large tensors
    ("torchvision", "squeezenet1_1", {}),
    ("transformers", "BertForMaskedLM", {"config": BERT}),
    ("transformers", "ViTForImageClassification", {"config": VIT}),
]


@pytest.mark.parametrize(("library", "name", "options"), SKETCHED)
def test_a_sketch_has_the_shapes_and_no_numbers(request, library, name, options):
    if library != "vinets":
        request.getfixturevalue(library)
    source = {"library": library, "name": name, "options": options}
    torch.manual_seed(0)
    drawn = sketch(source, 1 << 30)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(0)))
    real = rebuild(source)
    assert bytes_of(drawn) == bytes_of(real)
    shapes = {k: t.shape for k, t in real.state_dict().items()}
    assert {k: t.shape for k, t in drawn.state_dict().items()} == shapes


def test_a_record_cannot_take_more_than_its_room():
    wide = {"blocks": [2, 2, 2, 2], "num_classes": 5, "channels": 1024, "maxpool": True}
    source = {"library": "vinets", "name": "resnet", "options": wide}
    assert bytes_of(sketch(source, 0)) > 1 << 30
    with pytest.raises(ValueError, match="takes far more memory"):
        rebuild(source, room=1 << 20)
    with pytest.raises(ValueError, match="num_classes below"):
        rebuild(source | {"options": wide | {"num_classes": 2**21}})


def test_a_record_cannot_ask_for_layers_without_end(transformers):
    deep = {"config": {**BERT, "num_hidden_layers": 10_000}}
    with pytest.raises(ValueError, match="more than 20,000 tensors"):
        sketch({"library": "transformers", "name": "BertModel", "options": deep}, 1 << 40)
