from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch

from vinets.data import Augmentation, ImageSource, Preprocessing, digits
from vinets.data.images import augment_by, image_size, normalise_by, read_image

GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randint(256, (23, 3, 10, 12), dtype=torch.uint8, generator=GENERATOR)
LABELS = torch.randint(4, (23,), generator=GENERATOR)
PREPROCESSING = Preprocessing(3, (10, 12), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def cropped(image, padding, mode, top, left, flipped):
    """One image, by numpy's own padding and slicing."""
    mode = {"reflect": "reflect", "zero": "constant"}[mode]
    padded = np.pad(image, [(0, 0), (padding, padding), (padding, padding)], mode=mode)
    crop = padded[:, top : top + image.shape[1], left : left + image.shape[2]]
    return crop[:, :, ::-1] if flipped else crop


@pytest.mark.parametrize("mode", ["reflect", "zero"])
@pytest.mark.parametrize("padding", [0, 1, 4, 9])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_augmentation_equals_a_loop_of_padded_crops(mode, padding, dtype):
    augmentation = Augmentation(padding, True, mode)
    images = IMAGES.to(dtype)
    draws = augmentation.draw(len(images), seeded())
    expected = [
        cropped(image.numpy(), padding, mode, *draw)
        for image, draw in zip(images, draws.tolist(), strict=True)
    ]
    result = augmentation(images, seeded())
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.numpy(), np.stack(expected))


def test_draws_reach_every_corner_and_flip_half():
    draws = Augmentation(padding=2).draw(4000, seeded())
    top, left, flipped = draws.unbind(1)
    assert len((top * 5 + left).unique()) == 25 and int(draws.min()) == 0
    assert 0.45 < flipped.double().mean() < 0.55
    assert not Augmentation(padding=2, flip=False).draw(100, seeded())[:, 2].any()


@pytest.mark.parametrize("batch_size", [1, 5, 23, 100])
def test_a_pass_does_not_depend_on_the_batch_size(batch_size):
    source = ImageSource(IMAGES, LABELS, None, PREPROCESSING, Augmentation(3))
    order = torch.randperm(23, generator=seeded(1))
    generator, other = seeded(), seeded()
    batches = list(source.batches(batch_size, order=order, augment=generator))
    ((images, labels),) = source.batches(23, order=order, augment=other)
    assert torch.equal(torch.cat([x for x, _ in batches]), images)
    assert torch.equal(torch.cat([y for _, y in batches]), labels)
    assert source.subset(order).augmentation == source.augmentation
    assert torch.equal(generator.get_state(), other.get_state())
    expected = PREPROCESSING(Augmentation(3)(IMAGES[order], seeded()))
    assert torch.equal(images, expected) and images.dtype == torch.float32
    ((second, _),) = source.batches(23, order=order, augment=generator)
    assert not torch.equal(second, images)


def test_without_augmentation_images_are_only_normalised():
    plain = (IMAGES.double() / 255 - torch.tensor(PREPROCESSING.mean)[:, None, None]) / (
        torch.tensor(PREPROCESSING.std)[:, None, None]
    )
    source = ImageSource(IMAGES, LABELS, None, PREPROCESSING)
    ((images, _),) = source.batches(23, augment=seeded())
    torch.testing.assert_close(images.double(), plain.double(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(PREPROCESSING(IMAGES / 255), images)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_batches_are_the_same_wherever_the_images_lie():
    source = ImageSource(IMAGES, LABELS, None, PREPROCESSING, Augmentation(3))
    resident = source.to("cuda")
    assert resident.images.is_cuda and not resident.labels.is_cuda
    for some, device in ((source, "cuda"), (resident, "cuda"), (resident, "cpu")):
        pairs = zip(
            source.batches(7, augment=seeded()),
            some.batches(7, augment=seeded(), device=device),
            strict=True,
        )
        for (x, y), (images, labels) in pairs:
            assert images.device.type == labels.device.type == device
            assert torch.equal(images.cpu(), x) and torch.equal(labels.cpu(), y)


def test_statistics_are_those_of_numpy():
    pixels = IMAGES.numpy() / 255
    fitted = Preprocessing.from_images(IMAGES)
    np.testing.assert_allclose(fitted.mean, pixels.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(fitted.std, pixels.std(axis=(0, 2, 3)))
    assert Preprocessing.from_images(torch.zeros(2, 1, 3, 3, dtype=torch.uint8)).std == (1.0,)


def test_preprocessing_survives_json_and_nothing_else_does():
    text = json.dumps(PREPROCESSING.to_dict())
    assert Preprocessing.from_dict(json.loads(text)) == PREPROCESSING
    good = json.loads(text)
    bad = [None, [], {}, {**good, "extra": 1}, {k: v for k, v in good.items() if k != "std"}]
    changes = {
        **{"channels": [0, "3"], "size": [[3], [3, -1], 4], "std": [[0.1, 0.2, 0.0]]},
        **{"mean": [[0.1, 0.2], ["a", "b", "c"], [0.1, 0.2, float("nan")]]},
    }
    for values in bad + [{**good, name: one} for name, some in changes.items() for one in some]:
        with pytest.raises(ValueError, match=r"(?i)preprocessing.*(must be|is missing|not known)"):
            Preprocessing.from_dict(values)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PREPROCESSING(IMAGES[:, :1]), r"images \(..., 3, H, W\)"),
        (lambda: PREPROCESSING(IMAGES.long()), "uint8 or floating"),
        (lambda: Augmentation(padding=-1), "positive integer"),
        (lambda: Augmentation(mode="wrap"), "'reflect', 'zero'"),
        (lambda: Augmentation(padding=10)(IMAGES, seeded()), "below the sides"),
        (lambda: Augmentation().draw(3, 0), "torch.Generator on the CPU"),
        (lambda: ImageSource(IMAGES / 255, LABELS, None, PREPROCESSING), "uint8 images"),
        (lambda: ImageSource(IMAGES[:, :1], LABELS, None, PREPROCESSING), "3 channels"),
        (lambda: ImageSource(IMAGES, LABELS[1:], None, PREPROCESSING), "as many as"),
    ],
)
def test_bad_images_are_refused_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_images_are_normalised_and_augmented_by_choice():
    data = digits()
    same = normalise_by(augment_by(data), None)
    assert same is data
    changed = augment_by(normalise_by(data, (0.5,), (0.25,)), flip=True, crop=0.25)
    batch, _ = next(changed.test.batches(4))
    expected = (changed.test.images[:4].float() / 255 - 0.5) / 0.25
    torch.testing.assert_close(batch, expected)
    assert (changed.train.augmentation.padding, changed.train.augmentation.flip) == (2, True)
    assert changed.test.augmentation is None and data.train.augmentation.flip is False
    # what is read otherwise is told apart, and what is read alike is not
    assert len({data.reading, changed.reading, augment_by(data, flip=True).reading}) == 3
    assert normalise_by(data, (0.5,)).reading == normalise_by(data, (0.5,)).reading


# --- files ------------------------------------------------------------------------------------

PICTURE = np.random.default_rng(0).integers(256, size=(6, 5, 3), dtype=np.uint8)
READING = Preprocessing(3, (6, 5), (0.5,) * 3, (0.25,) * 3)


@pytest.fixture
def pillow():
    return pytest.importorskip("PIL.Image")


def test_lossless_files_give_their_pixels(tmp_path, pillow):
    for name in ("a.png", "a.bmp"):
        pillow.fromarray(PICTURE).save(tmp_path / name)
        np.testing.assert_array_equal(read_image(tmp_path / name, 3), PICTURE.transpose(2, 0, 1))
        assert image_size(tmp_path / name) == (6, 5)
    batch = READING.read(tmp_path / "a.png")
    assert batch.shape == (1, 3, 6, 5)
    expected = (PICTURE.transpose(2, 0, 1) / 255 - 0.5) / 0.25
    torch.testing.assert_close(batch[0].double(), torch.from_numpy(expected), rtol=0, atol=1e-6)


def test_other_sizes_and_modes_are_converted(tmp_path, pillow):
    image = pillow.fromarray(PICTURE)
    image.resize((10, 12)).save(tmp_path / "large.png")
    assert READING.read(tmp_path / "large.png").shape == (1, 3, 6, 5)
    expected = np.asarray(pillow.open(tmp_path / "large.png").resize((5, 6), pillow.BICUBIC))
    found = read_image(tmp_path / "large.png", 3, (6, 5))
    np.testing.assert_array_equal(found, expected.transpose(2, 0, 1))
    for mode in ("L", "P", "RGBA", "1", "CMYK"):
        path = tmp_path / f"{mode}.{'tiff' if mode == 'CMYK' else 'png'}"
        image.convert(mode).save(path)
        assert read_image(path, 3).shape == (3, 6, 5) and read_image(path, 1).shape == (1, 6, 5)
    grey = np.asarray(image.convert("L"))
    np.testing.assert_array_equal(read_image(tmp_path / "L.png", 1)[0], grey)


def test_unreadable_files_are_named_in_one_sentence(tmp_path, pillow):
    pillow.fromarray(PICTURE).resize((200, 200)).save(tmp_path / "whole.png")
    content = (tmp_path / "whole.png").read_bytes()
    for name, damaged in (("cut.png", content[:900]), ("text.png", b"hello"), ("empty.png", b"")):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"{name} must be a readable 8-bit image"):
            READING.read(tmp_path / name)
    pillow.fromarray(np.zeros((4, 4), dtype=np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(ValueError, match=r"deep.png must be a readable 8-bit image"):
        READING.read(tmp_path / "deep.png")
    with pytest.raises(FileNotFoundError, match=r"none.png does not exist"):
        READING.read(tmp_path / "none.png")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [9_000, 10_000, 20_000])
def test_small_files_with_huge_pictures_are_refused_undecoded(tmp_path, pillow, side):
    pillow.new("1", (side, side)).save(tmp_path / "bomb.png")
    with pytest.raises(ValueError, match=r"bomb.png must have at most 67,108,864 pixels"):
        READING.read(tmp_path / "bomb.png")


def test_without_pillow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"vinets\[images\]"):
        READING.read(tmp_path / "a.png")
