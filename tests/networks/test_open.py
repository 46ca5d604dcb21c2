from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from vinets.core.device import logits_of
from vinets.data import load_data
from vinets.latent.collect import record_of
from vinets.models import digits_cnn, save_weights, source_of
from vinets.models.origin import Record
from vinets.networks import CutNetwork, VINet
from vinets.networks.build import build
from vinets.networks.open import make_network, open_network
from vinets.networks.storage import write_uncut
from vinets.runs.on_data import open_uncut, open_with_data
from vinets.runs.setup import Setup
from vinets.testing.sources import assert_same

DIGITS = load_data("digits")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The folder of an uncut network, as a training leaves it."""
    model, train = digits_cnn(), DIGITS.train
    folder = tmp_path_factory.mktemp("opening") / "base"
    training = {"data": Setup("", model, DIGITS, torch.device("cpu")).facts}
    write_uncut(folder, model, record_of(model, train, notes=training))
    return folder


@pytest.fixture(scope="module")
def vinet(base):
    """The folder of a VI-Net made of it."""
    small = {"components": 8, "keep": 4, "monomials": 32, "per_class": 40, "progress": None}
    net = build(open_network(base).network, DIGITS.train, "relu3", **small)[0]
    net.save_pretrained(base.parent / "vinet")
    return base.parent / "vinet"


def test_every_kind_of_argument_is_recognised(base, vinet, tmp_path):
    whole, cut = open_network(str(base)), open_network(str(vinet))
    assert not isinstance(whole.network, CutNetwork) and isinstance(cut.network, VINet)
    assert whole.architecture == cut.architecture == "digits_cnn"
    assert whole.preprocessing == cut.preprocessing == load_data("digits").train.preprocessing
    model = digits_cnn(4, channels=3)
    save_weights(model.half(), tmp_path / "w.safetensors")
    named = open_network("digits_cnn", tmp_path / "w.safetensors", 4, 3)
    assert named.trained
    assert_same(named.network.state_dict(), model.float().state_dict())
    assert not open_network("digits_cnn").trained


def test_a_cascade_of_0_2_is_refused_and_its_early_network_is_not(vinet, tmp_path):
    (tmp_path / "cascade.json").write_text('{"format": "vinets.cascade", "version": 1}')
    shutil.copytree(vinet, tmp_path / "early")
    with pytest.raises(ValueError, match=r"is a cascade of vinets 0\.2.*Pass its early network"):
        open_network(tmp_path)
    assert isinstance(open_network(tmp_path / "early").network, VINet)


def test_images_are_normalised_as_the_network_knows_it(base, tmp_path):
    source = load_data("digits").test
    np.save(tmp_path / "X.npy", source.images.numpy() // 2)  # darker, so other statistics
    np.save(tmp_path / "y.npy", source.labels.numpy())
    spec = f"{tmp_path / 'X.npy'},{tmp_path / 'y.npy'}"
    opened, split = open_with_data(str(base), spec)
    assert split.train.preprocessing == opened.preprocessing
    assert split.train.preprocessing != load_data(spec).train.preprocessing


def test_an_uncut_network_comes_with_an_example_of_its_inputs(base, vinet):
    shapes = [tuple(open_uncut(base, *told)[1].shape[1:]) for told in ((), ("digits",))]
    assert shapes == [(1, 8, 8), (1, 8, 8)]
    opened, example, split = open_uncut("digits_cnn", shape=(1, 6, 6))
    assert not opened.trained and example.shape == (1, 1, 6, 6) and split is None
    with pytest.raises(ValueError, match="Pass the shape of one input"):
        open_uncut("digits_cnn")
    with pytest.raises(ValueError, match="is cut already"):
        open_uncut(vinet)


def test_what_is_no_network_is_refused(base, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"neither network\.json"):
        open_network(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        open_network(str(tmp_path / "nothing"))
    for name, meant in (
        ("digits-cnn-products", "vinets/digits-cnn-products"),
        ("resnet81", "resnet18"),
    ):
        with pytest.raises(ValueError, match=f"must be a folder .* Did you mean '{meant}'"):
            open_network(name)
    with pytest.raises(ValueError, match=r"must be a folder .* Got 'my-network' instead\.$"):
        open_network("my-network")
    with pytest.raises(ValueError, match="has its own weights"):
        open_network(str(base), tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match="has its own weights and options"):
        open_network(str(base), options={"channels": 3})
    with pytest.raises(FileNotFoundError, match=r"w\.pt does not exist"):
        open_network("digits_cnn", tmp_path / "w.pt")


WIDE = ("resnet18", {"width": 1 / 64, "maxpool": False})
TIMM = ("timm:vit_tiny_patch16_224", {"img_size": 32, "embed_dim": 12, "depth": 1})
SIZES = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2, "image_size": 32}
HF = ("hf:ViTForImageClassification", {**SIZES, "num_hidden_layers": 1})
TORCHVISION = ("torchvision:mobilenet_v2", {"width_mult": 0.1})


def needs(name):
    """Skip the test of a network whose library is not installed."""
    try:
        make_network(name, None, None)
    except ModuleNotFoundError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(("name", "options"), [WIDE, TIMM, HF, TORCHVISION])
def test_options_of_a_constructor_stand_in_what_is_saved(tmp_path, name, options):
    needs(name)
    opened = open_network(name, None, 3, 3, options)
    usual = sum(p.numel() for p in make_network(name, 3, 3).network.parameters())
    assert 3 * sum(p.numel() for p in opened.network.parameters()) < usual
    images = torch.randn(2, 3, 32, 32)
    inputs = {"": {"shape": [3, 32, 32], "dtype": "float32"}}
    write_uncut(tmp_path, opened.network, Record("", inputs, source_of(opened.network)))
    again = open_network(tmp_path)
    kept = source_of(again.network)["options"]
    assert options.items() <= kept.get("config", kept).items()
    torch.testing.assert_close(logits_of(again.network(images)), logits_of(opened.network(images)))


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("resnet18", {"widht": 1}, r"'widht'. .* lists of these: num_classes, maxpool, width, in"),
        ("resnet18", {"spec": 1}, r"argument 'spec'"),
        ("resnet18", {"width": "../w"}, r"^resnet18 may not have the option width=\.\./w\. Its"),
        ("digits_cnn", {"pretrained": True}, r"may not have the option pretrained=True\. Its"),
        ("digits_cnn", {"num_classes": "x"}, "a positive integer"),
        (TIMM[0], {"imgsize": 64}, r"option imgsize=64\. .* of these: img_size, patch_size, "),
        ("timm:resnet18", {"img_size": 64}, r"'img_size'. .* these: layers, num_classes"),
        (TORCHVISION[0], {"width": 2}, r"option width=2\. .* these: num_classes, width_mult"),
        (HF[0], {"imagesize": 2}, r"no 'imagesize'. .* image_size, patch_size"),
    ],
)
def test_other_options_are_refused_with_those_that_there_are(name, options, told):
    needs(name)
    with pytest.raises(ValueError, match=told) as error:
        open_network(name, options=options)
    assert "transformer_version" not in str(error.value) and "width_per" not in str(error.value)


@pytest.fixture(scope="module")
def noise(tmp_path_factory):
    """A folder of images, sorted by class, that says nothing about the classes."""
    from PIL import Image

    root, draw = tmp_path_factory.mktemp("noise"), np.random.default_rng(0)
    for index in range(60):
        path = root / "photos" / "abc"[index % 3] / f"{index}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 256, (8, 8), dtype=np.uint8)).save(path)
    return root / "photos"


@pytest.mark.parametrize("moved", [False, True])
def test_images_of_the_training_are_no_test_whatever_the_folder_is_called(noise, tmp_path, moved):
    """Neither for what vinets train wrote nor for what vinets build made of it."""
    model, data = digits_cnn(3, channels=3), load_data(noise)
    facts = {"data": Setup("", model, data, torch.device("cpu")).facts}
    write_uncut(tmp_path / "base", model, record_of(model, data.train, notes=facts))
    small = {"components": 4, "keep": 2, "monomials": 16, "per_class": 8, "progress": None}
    opened = open_network(tmp_path / "base").network
    build(opened, data.train, "relu3", **small)[0].save_pretrained(tmp_path / "vinet")
    there = shutil.copytree(noise, tmp_path / "copied") if moved else noise
    for folder in (tmp_path / "base", tmp_path / "vinet"):
        open_with_data(folder, there)
        open_with_data(folder, there, size=9)
        with pytest.raises(ValueError, match="was trained on another split of"):
            open_with_data(folder, there, split_seed=1)
        with pytest.raises(ValueError, match="was trained on another split of"):
            open_with_data(folder, there, split_seed=1, size=9)  # other pixels, the same images


@pytest.mark.parametrize("marked", [False, True])
def test_what_an_earlier_release_knew_still_counts(base, tmp_path, marked):
    """0.2 kept marks of examples, which are not looked at, or none; there was one digest."""
    told = json.loads((base / "network.json").read_text())
    del told["training"]["data"]["examples"], told["training"]["data"]["training"], told["digest"]
    told["training"]["data"] |= {"seen": "bm8gbWFya3M="} if marked else {}
    folder = shutil.copytree(base, tmp_path / "earlier")
    (folder / "network.json").write_text(json.dumps(told | {"version": 1}))
    open_with_data(folder, "digits")
    with pytest.raises(ValueError, match="another split of digits"):
        open_with_data(folder, "digits", split_seed=1)
