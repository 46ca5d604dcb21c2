"""Networks of timm and transformers, from the cut to the saved VI-Net."""

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

CLASSES = 3
LABELS = torch.arange(48) % CLASSES
IMAGES = torch.randn(48, 3, 32, 32, generator=torch.Generator().manual_seed(0))
IMAGES += LABELS[:, None, None, None]  # something to learn
SMALL = {"components": 8, "keep": 4, "monomials": 32, "per_class": 12, "progress": None}
VIT = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "image_size": 32,
    "patch_size": 8,
}
HF_VIT = "hf:ViTForImageClassification"
# network, options, cut, how latents are read, head, shape of the latents
CASES = {
    "vit mean": ("timm:vit_tiny_patch16_224", "blocks.2", "auto", "vanishing", (192, 1)),
    "vit class": ("timm:vit_tiny_patch16_224", "blocks.2", "class_token", "vanishing", (192, 1)),
    "vit map": ("timm:vit_tiny_patch16_224", "blocks.2", "map", "local", (192, 17)),
    "convnext": ("timm:convnext_atto", "stages.1", "auto", "local", (80, 16)),
    "convnext pooled": ("timm:convnext_atto", "stages.1", "pool", "vanishing", (80, 4)),
    "mobilenet": ("timm:mobilenetv3_small_050", "blocks.2", "auto", "vanishing", (24, 4)),
    "hf class": (
        HF_VIT,
        "vit.layers.1",
        "class_token",
        "vanishing",
        (16, 1),
    ),
    "hf map": (HF_VIT, "vit.layers.1", "map", "local", (16, 17)),
}
OPTIONS = {
    "timm:vit_tiny_patch16_224": {"img_size": 32, "patch_size": 8},
    HF_VIT: {"config": VIT},
}


def model_of(spec: str) -> torch.nn.Module:
    try:
        import_timm() if spec.startswith("timm") else import_transformers()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    torch.manual_seed(0)
    return create_model(spec, CLASSES, **OPTIONS.get(spec, {})).eval()


def hooked(model: torch.nn.Module, name: str) -> torch.Tensor:
    """What the module ``name`` returns inside the whole model."""
    seen = {}
    handle = model.get_submodule(name).register_forward_hook(lambda m, a, out: seen.update(out=out))
    with torch.no_grad():
        model(IMAGES[:5])
    handle.remove()
    return seen["out"] if isinstance(seen["out"], torch.Tensor) else seen["out"][0]


@pytest.mark.parametrize("case", CASES)
def test_from_the_cut_to_the_saved_network(case, tmp_path):
    spec, cut, read, kind, shape = CASES[case]
    model = model_of(spec)
    options = {"read": read, "head": kind, "pool": 2 if read == "pool" else None}
    net, report = build(model, (IMAGES, LABELS), cut, **options, **SMALL)
    assert report.latent_shape == shape
    fine_tune(net, (IMAGES, LABELS), epochs=1, batch_size=40, progress=None)
    net.save_pretrained(tmp_path)
    again = VINet.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(again(IMAGES[:5]), net(IMAGES[:5]))
    whole = sum(p.numel() for p in model.parameters())
    assert net.parts()["backbone"] == sum(p.numel() for p in again.backbone.parameters())
    assert net.parts()["backbone"] < 0.9 * whole  # what lies behind the cut is gone


@pytest.mark.parametrize("case", ["vit mean", "vit class", "vit map", "convnext", "hf class"])
def test_latents_are_what_the_whole_network_has_at_the_cut(case):
    spec, cut, read, kind, _ = CASES[case]
    model = model_of(spec)
    net, _ = build(model, (IMAGES, LABELS), cut, read=read, head=kind, **SMALL)
    values = hooked(model, cut)
    if read == "class_token":
        expected = values[:, 0, :, None]
    elif read == "map":
        expected = values.transpose(1, 2)
    else:
        expected = values.mean(1)[:, :, None] if values.ndim == 3 else values.flatten(2)
    with torch.no_grad():
        torch.testing.assert_close(net.latents(IMAGES[:5]), expected, atol=1e-5, rtol=1e-5)


def test_a_hook_drops_what_runs_behind_it():
    model = model_of(HF_VIT)
    net, _ = build(model, (IMAGES, LABELS), "vit.layers.1", **SMALL)
    layer = sum(p.numel() for p in model.vit.layers[2].parameters())
    whole = sum(p.numel() for p in model.parameters())
    assert layer > 0 and net.parts()["backbone"] <= whole - layer
    assert not any("layers.2" in name or "classifier" in name for name in net.state_dict())


def test_a_network_in_training_mode_is_cut_in_eval_mode():
    """timm's batch norm is no layer of torch, so tracing goes through it."""
    model = model_of("timm:mobilenetv3_small_050").train()
    state = {k: t.clone() for k, t in model.state_dict().items()}
    net, _ = build(model, (IMAGES, LABELS), "blocks.2", **SMALL)
    assert all(torch.equal(t, state[k]) for k, t in model.state_dict().items())
    with torch.no_grad():
        alone = torch.cat([net(image[None]) for image in IMAGES[:3]])
        torch.testing.assert_close(net(IMAGES[:3]), alone, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("case", ["hf class", "vit mean"])
def test_transformers_are_exported(case, tmp_path):
    spec, cut, read, kind, _ = CASES[case]
    options = {"read": read, "head": kind}
    net, _ = build(model_of(spec), (IMAGES, LABELS), cut, **options, **SMALL)
    assert export_network(net, tmp_path / "net.pt2").largest_difference < 1e-5
