from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from vinets import pretrained
from vinets.data import digits
from vinets.networks.files import read_uncut, write_uncut
from vinets.networks.open import open_network


@pytest.fixture
def pictures(tmp_path):
    """Ten digits as files, which the names tell."""
    image = pytest.importorskip("PIL.Image")
    test = digits().test
    folder = tmp_path / "pictures"
    for k in range(10):
        (folder / str(k)).mkdir(parents=True)
        image.fromarray(test.images[k, 0].numpy()).save(folder / str(k) / "digit.png")
    return folder


def test_predictions_are_those_of_the_network(call, base, pictures):
    result = call("predict", base, pictures, "--top", 4, "--batch-size", 3, "--json").json()
    test = digits().test
    with torch.no_grad():
        shares = open_network(str(base)).network(test.preprocessing(test.images[:10])).softmax(1)
    assert [p["path"] for p in result["predictions"]] == [
        str(pictures / str(k) / "digit.png") for k in range(10)
    ]
    for entry, row in zip(result["predictions"], shares, strict=True):
        order = row.argsort(descending=True)[:4].tolist()
        assert [c["name"] for c in entry["classes"]] == [str(k) for k in order]
        told = [c["probability"] for c in entry["classes"]]
        np.testing.assert_allclose(told, row[order].numpy(), rtol=1e-4)


def test_one_image_is_a_table(call, vinet, pictures):
    done = call("predict", vinet, pictures / "3" / "digit.png", "--top", 2)
    assert done.code == 0
    assert done.out.count("%") == 2


def test_bad_input_to_predict_is_refused(refused, base, pictures, tmp_path):
    assert "does not exist" in refused("predict", base, tmp_path / "nothing.png")
    (tmp_path / "empty").mkdir()
    assert "holds no images" in refused("predict", base, tmp_path / "empty")
    (tmp_path / "bad.png").write_bytes(b"no image")
    message = refused("predict", base, tmp_path / "bad.png", "--quiet")
    assert "readable 8-bit image" in message
    assert "random weights" in refused("predict", "digits_cnn", pictures)
    blind = tmp_path / "blind"
    write_uncut(blind, replace(read_uncut(base), preprocessing=None))
    assert "no preprocessing on record" in refused("predict", blind, pictures)


def test_a_network_of_the_package_is_used_by_its_name(call, pictures):
    """From nothing: a picture comes along, and others are taken."""
    own = call("predict", "vinets/digits-cnn-products", "--top", 1, "--json").json()
    assert [c["name"] for c in own["predictions"][0]["classes"]] == [
        str(int(digits().test.labels[0]))
    ]
    assert call("predict", "vinets/digits-cnn-products", pictures / "3" / "digit.png").code == 0
    assert "vinets/digits-cnn-products" in call("predict", "--help").out


CIFAR = [name for name in pretrained.names() if "cifar" in name]


@pytest.mark.parametrize("name", CIFAR)
def test_a_picture_of_any_size_is_told_by_the_networks_of_cifar(call, tmp_path, name):
    image = pytest.importorskip("PIL.Image")
    height, width = np.mgrid[0:45, 0:60]
    pixels = np.stack([4 * width, 5 * height, 255 - 4 * width], -1).astype(np.uint8)
    image.fromarray(pixels).save(tmp_path / "picture.png")
    small = image.fromarray(pixels).resize((32, 32), image.Resampling.BICUBIC)
    found = call("predict", name, tmp_path / "picture.png", "--json").json()["predictions"]
    opened = open_network(name)
    batch = torch.from_numpy(np.asarray(small).transpose(2, 0, 1).copy())[None]
    with torch.no_grad():
        shares = opened.network(opened.preprocessing(batch)).softmax(1)[0]
    order = shares.argsort(descending=True)[:3].tolist()
    assert [one["name"] for one in found[0]["classes"]] == [opened.classes[k] for k in order]
    told = [one["probability"] for one in found[0]["classes"]]
    np.testing.assert_allclose(told, shares[order].numpy(), rtol=1e-4)


def test_without_a_picture_one_is_asked_for(refused, base):
    assert "comes without a picture" in refused("predict", base)
    assert "comes without a picture" in refused("predict", "vinets/resnet18-cifar10-products")
