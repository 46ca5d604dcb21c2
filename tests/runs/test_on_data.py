from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from vinets.data import digits
from vinets.models import digits_cnn
from vinets.networks.open import NamedNetwork
from vinets.runs.on_data import predict_images

TEST = digits().test


@pytest.fixture
def opened():
    torch.manual_seed(0)
    return NamedNetwork(
        "net", digits_cnn().eval(), classes=TEST.classes, preprocessing=TEST.preprocessing
    )


@pytest.fixture
def files(tmp_path):
    image = pytest.importorskip("PIL.Image")
    paths = [tmp_path / f"{k}.png" for k in range(5)]
    for path, pixels in zip(paths, TEST.images, strict=False):
        image.fromarray(pixels[0].numpy()).save(path)
    return paths


def test_batches_do_not_change_what_is_predicted(opened, files):
    found = predict_images(opened, files, top=4, batch_size=2, device="cpu")
    assert [one.path for one in found] == [str(path) for path in files]
    with torch.no_grad():
        shares = opened.network(TEST.preprocessing(TEST.images[:5])).softmax(1)
    for one, row in zip(found, shares, strict=True):
        values, order = row.topk(4)
        assert [guess.name for guess in one.classes] == [TEST.classes[k] for k in order.tolist()]
        told = torch.tensor([guess.probability for guess in one.classes])
        torch.testing.assert_close(told, values, rtol=1e-4, atol=0)


def test_unreadable_files_are_named_together_or_left_out(opened, files):
    for k in (1, 2):
        files[k].write_bytes(files[k].read_bytes()[: 60 * (k - 1)])

    def named(files, **options):
        found = predict_images(opened, files, device="cpu", **options)
        return [(one.path, [guess.name for guess in one.classes]) for one in found]

    for size in (1, 2, 9):
        with pytest.raises(ValueError, match=r"2 of 5 files.*1.png \(damaged.*2.png \(trunc"):
            predict_images(opened, files, batch_size=size, device="cpu")
        left = named(files, batch_size=size, skip_unreadable=True)
        assert left == named([files[k] for k in (0, 3, 4)])
    with pytest.raises(ValueError, match=r"1.png must be a readable image"):
        predict_images(opened, files[1:2], device="cpu")


def test_classes_without_names_are_numbered_and_there_are_no_more_than_all(opened, files):
    found = predict_images(replace(opened, classes=()), files[:1], top=99, device="cpu")
    assert sorted(guess.name for guess in found[0].classes) == sorted(map(str, range(10)))


def test_a_network_that_cannot_tell_is_refused(opened, files):
    with pytest.raises(ValueError, match="random weights"):
        predict_images(replace(opened, trained=False), files)
    with pytest.raises(ValueError, match="does not tell how an image becomes its input"):
        predict_images(replace(opened, preprocessing=None), files)
    with pytest.raises(ValueError, match=r"for each of its 10 outputs\. It has 3 names"):
        predict_images(replace(opened, classes=("a", "b", "c")), files, top=10, device="cpu")
