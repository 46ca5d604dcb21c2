"""Networks of timm and transformers, from the cut to the saved and the exported VI-Net."""

from __future__ import annotations

import pytest
import torch

from vinets import build
from vinets.export import export_network
from vinets.models import create_model
from vinets.models.libraries.timm import import_timm
from vinets.models.libraries.transformers import import_transformers
from vinets.networks import VINet
from vinets.training import fine_tune

GENERATOR = torch.Generator().manual_seed(0)
SMALL = {"components": 8, "keep": 4, "monomials": 32, "per_class": 12, "progress": None}
LABELS = torch.arange(48) % 3
IMAGES = torch.randn(48, 3, 32, 32, generator=GENERATOR)
IMAGES += LABELS[:, None, None, None]  # something to learn
LENGTHS = torch.randint(3, 11, (48, 1), generator=GENERATOR)
TEXTS = {
    "input_ids": torch.randint(1, 14, (48, 10), generator=GENERATOR) + 13 * LABELS[:, None],
    "attention_mask": (torch.arange(10) < LENGTHS).long(),
}
SHAPE = {
    **{"hidden_size": 16, "num_hidden_layers": 3},
    **{"num_attention_heads": 2, "intermediate_size": 24},
}
TIMM_VIT, VIT = "timm:vit_tiny_patch16_224", "hf:ViTForImageClassification"
BERT = "hf:BertForSequenceClassification"
OPTIONS = {
    TIMM_VIT: {"img_size": 32, "patch_size": 8},
    VIT: {"config": {**SHAPE, "image_size": 32, "patch_size": 8}},
    BERT: {"config": {**SHAPE, "vocab_size": 40, "max_position_embeddings": 16}},
}
LAYER = "bert.encoder.layer.1"
# network, cut, how latents are read, head, shape of the latents
CASES = {
    "vit mean": (TIMM_VIT, "blocks.2", "auto", "vanishing", (192, 1)),
    "vit class": (TIMM_VIT, "blocks.2", "class_token", "vanishing", (192, 1)),
    "vit map": (TIMM_VIT, "blocks.2", "map", "local", (192, 17)),
    "convnext": ("timm:convnext_atto", "stages.1", "auto", "local", (80, 16)),
    "convnext pooled": ("timm:convnext_atto", "stages.1", "pool", "vanishing", (80, 4)),
    "mobilenet": ("timm:mobilenetv3_small_050", "blocks.2", "auto", "vanishing", (24, 4)),
    "hf class": (VIT, "vit.layers.1", "class_token", "vanishing", (16, 1)),
    "hf map": (VIT, "vit.layers.1", "map", "local", (16, 17)),
    "text class": (BERT, LAYER, "class_token", "vanishing", (16, 1)),
    "text mean": (BERT, LAYER, "auto", "vanishing", (16, 1)),
    "text map": (BERT, LAYER, "map", "local", (16, 10)),
}


def model_of(spec: str) -> torch.nn.Module:
    try:
        import_timm() if spec.startswith("timm") else import_transformers()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    torch.manual_seed(0)
    return create_model(spec, 3, **OPTIONS.get(spec, {})).eval()


def built(case: str):
    """The model of a case, its data, and the network behind the cut with its facts."""
    spec, cut, read, kind, _ = CASES[case]
    model, data = model_of(spec), (TEXTS if spec == BERT else IMAGES, LABELS)
    options = {"read": read, "head": kind, "pool": 2 if read == "pool" else None}
    return model, data, *build(model, data, cut, **options, **SMALL)


@pytest.mark.parametrize("case", CASES)
def test_from_the_cut_to_the_saved_network(case, tmp_path):
    model, data, net, facts = built(case)
    assert facts.latent_shape == CASES[case][-1]
    fine_tune(net, data, epochs=1, batch_size=27, progress=None)
    net.save_pretrained(tmp_path)
    again = VINet.from_pretrained(tmp_path)
    inputs = data[0] if isinstance(data[0], dict) else {"x": data[0][:5]}
    with torch.no_grad():
        assert torch.equal(again(**inputs), net(**inputs))
    whole = sum(p.numel() for p in model.parameters())
    assert net.parts()["backbone"] == sum(p.numel() for p in again.backbone.parameters())
    assert net.parts()["backbone"] < 0.9 * whole  # what lies behind the cut is gone


def test_a_network_in_training_mode_is_cut_in_eval_mode():
    """timm's batch norm is no layer of torch, so tracing goes through it."""
    model = model_of("timm:mobilenetv3_small_050").train()
    state = {k: t.clone() for k, t in model.state_dict().items()}
    net, _ = build(model, (IMAGES, LABELS), "blocks.2", **SMALL)
    assert all(torch.equal(t, state[k]) for k, t in model.state_dict().items())
    with torch.no_grad():
        alone = torch.cat([net(image[None]) for image in IMAGES[:3]])
        torch.testing.assert_close(net(IMAGES[:3]), alone, atol=1e-5, rtol=1e-4)


def test_the_mask_reaches_the_backbone():
    net = built("text class")[2]
    ids, mask = TEXTS["input_ids"][:4], torch.ones(4, 10, dtype=torch.int64)
    mask[:, 5:] = 0
    other = ids.clone()
    other[:, 5:] = 3
    with torch.no_grad():
        seen = [net.latents(input_ids=t, attention_mask=mask) for t in (ids, other)]
        torch.testing.assert_close(*seen)
        everything = torch.ones_like(mask)
        assert not torch.equal(net.latents(input_ids=ids, attention_mask=everything), seen[0])


@pytest.mark.parametrize("case", ["hf class", "vit mean"])
def test_transformers_are_exported(case, tmp_path):
    net = built(case)[2]
    assert export_network(net, tmp_path / "net.pt2").largest_difference < 1e-5


@pytest.mark.parametrize("name", ["net.pt2", "net.onnx"])
def test_texts_are_exported_with_the_names_of_their_inputs(tmp_path, name):
    net = built("text class")[2]
    if name.endswith("pt2"):
        export_network(net, tmp_path / name)
        got = torch.export.load(tmp_path / name).module()(*TEXTS.values())
    else:
        for package in ("onnx", "onnxscript"):
            pytest.importorskip(package)
        runtime = pytest.importorskip("onnxruntime")
        export_network(net, tmp_path / name)
        session = runtime.InferenceSession(tmp_path / name)
        assert [given.name for given in session.get_inputs()] == list(TEXTS)
        (values,) = session.run(None, {k: t.numpy() for k, t in TEXTS.items()})
        got = torch.from_numpy(values)
    with torch.no_grad():
        torch.testing.assert_close(got, net(**TEXTS), atol=1e-4, rtol=1e-4)
