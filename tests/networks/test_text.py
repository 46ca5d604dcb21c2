from __future__ import annotations

import pytest
import torch

from vinets import build
from vinets.export import export_network
from vinets.models import create_model
from vinets.models.libraries.transformers import import_transformers
from vinets.networks import VINet
from vinets.training import fine_tune

BERT = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 16,
}
CUT = "bert.encoder.layer.1"
LABELS = torch.arange(60) % 2
GENERATOR = torch.Generator().manual_seed(0)
LENGTHS = torch.randint(3, 11, (60, 1), generator=GENERATOR)
TEXTS = {
    "input_ids": torch.randint(1, 20, (60, 10), generator=GENERATOR) + 20 * LABELS[:, None],
    "attention_mask": (torch.arange(10) < LENGTHS).long(),
}
SMALL = {"components": 8, "keep": 4, "monomials": 32, "per_class": 20, "progress": None}


@pytest.fixture(scope="module")
def model():
    try:
        import_transformers()
    except ModuleNotFoundError as error:
        pytest.skip(str(error))
    torch.manual_seed(0)
    return create_model("hf:BertForSequenceClassification", 2, config=BERT).eval()


@pytest.mark.parametrize(("read", "positions"), [("class_token", 1), ("auto", 1), ("map", 10)])
def test_from_the_cut_to_the_saved_network(model, tmp_path, read, positions):
    kind = "local" if read == "map" else "vanishing"
    net, report = build(model, (TEXTS, LABELS), CUT, read=read, head=kind, **SMALL)
    assert report.latent_shape == (16, positions)
    history = fine_tune(net, (TEXTS, LABELS), epochs=2, batch_size=27, progress=None)
    assert len(history.epochs) == 2
    net.save_pretrained(tmp_path)
    again = VINet.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(again(**TEXTS), net(**TEXTS))


def test_the_mask_reaches_the_backbone(model):
    net, _ = build(model, (TEXTS, LABELS), CUT, read="class_token", **SMALL)
    ids, mask = TEXTS["input_ids"][:4], torch.ones(4, 10, dtype=torch.int64)
    mask[:, 5:] = 0
    other = ids.clone()
    other[:, 5:] = 3
    with torch.no_grad():
        seen = [net.latents(input_ids=t, attention_mask=mask) for t in (ids, other)]
        torch.testing.assert_close(*seen)
        everything = torch.ones_like(mask)
        assert not torch.equal(net.latents(input_ids=ids, attention_mask=everything), seen[0])


def test_layers_behind_the_cut_are_gone(model):
    net, _ = build(model, (TEXTS, LABELS), CUT, read="class_token", **SMALL)
    names = [name for name, _ in net.backbone.named_parameters()]
    assert any("layer.1." in name for name in names)
    assert not any("layer.2." in name or "classifier" in name for name in names)
    assert len(model.bert.encoder.layer) == 3  # the model keeps them


@pytest.mark.parametrize("name", ["net.pt2", "net.onnx"])
def test_texts_are_exported_with_the_names_of_their_inputs(model, tmp_path, name):
    net, _ = build(model, (TEXTS, LABELS), CUT, read="class_token", **SMALL)
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
