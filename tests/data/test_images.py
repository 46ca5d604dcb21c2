from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from vinets.data import Augmentation, ImageSource, Preprocessing, digits
from vinets.data.conversion import as_source
from vinets.data.images import ResizedCrops, at_once, augment_by, normalise_by, read_image

GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randint(256, (23, 3, 10, 12), dtype=torch.uint8, generator=GENERATOR)
LABELS = torch.randint(4, (23,), generator=GENERATOR)
PREPROCESSING = Preprocessing(3, (10, 12), (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("mode", ["reflect", "zero"])
@pytest.mark.parametrize("padding", [0, 1, 4, 9])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_augmentation_equals_a_loop_of_crops_from_images_that_numpy_padded(mode, padding, dtype):
    augmentation, images = Augmentation(padding, True, mode), IMAGES.to(dtype)
    sides, how = [(padding, padding)] * 2, {"reflect": "reflect", "zero": "constant"}[mode]
    padded = np.pad(images.numpy(), [(0, 0), (0, 0), *sides], mode=how)
    expected = []
    for image, draw in zip(padded, augmentation.draw(len(images), seeded()), strict=True):
        top, left, flipped = draw.tolist()
        crop = image[:, top : top + 10, left : left + 12]
        expected.append(crop[:, :, ::-1] if flipped else crop)
    result = augmentation(images, seeded())
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.numpy(), np.stack(expected))


@pytest.mark.parametrize("size", [(10, 12), (4, 4), (3, 17)])
def test_resized_crops_equal_a_loop_of_interpolations(size):
    crops = ResizedCrops(size, scale=(0.1, 1.0))
    draws = crops.draw(len(IMAGES), seeded())
    starts, sides = crops.boxes(draws, 10, 12)
    expected = []
    for image, start, side, flipped in zip(IMAGES, starts, sides, draws[:, -1] < 0.5, strict=True):
        (top, left), (height, width) = start.long(), side.long()
        part = image[None, :, top : top + height, left : left + width].float()
        part = F.interpolate(part, size, mode="bilinear", antialias=True)[0]
        expected.append(part.flip(2) if flipped else part)
    torch.testing.assert_close(crops(IMAGES, seeded()), torch.stack(expected), rtol=0, atol=1e-3)


@pytest.mark.parametrize("height, width", [(40, 50), (64, 64), (20, 90), (90, 20)])
def test_resized_crops_have_the_area_and_proportions_that_are_wanted(height, width):
    crops = ResizedCrops((8, 8), scale=(0.35, 1.0))
    draws = crops.draw(4000, seeded())
    starts, sides = crops.boxes(draws, height, width)
    whole = torch.tensor([height, width])
    assert (starts >= 0).all() and (sides >= 1).all() and (starts + sides <= whole).all()
    ratios, areas = sides[:, 1] / sides[:, 0], sides.prod(1) / (height * width)
    assert ratios.min() > 0.7 and ratios.max() < 1.4  # sides are whole pixels
    if 3 / 4 <= width / height <= 4 / 3:
        assert areas.min() > 0.33 and areas.max() > 0.95 and 0.55 < areas.mean() < 0.68
    else:  # none fits, and it is the largest square or nearly so in the middle
        assert len(sides.unique(dim=0)) == len(starts.unique(dim=0)) == 1
    assert 0.45 < (draws[:, -1] < 0.5).double().mean() < 0.55
    if height == width:
        still = ResizedCrops((height, width), (1.0, 1.0), flip=False, ratio=(1.0, 1.0))
        image = torch.rand(2, 3, height, width)
        torch.testing.assert_close(still(image, seeded()), image)


def test_resized_crops_are_taken_from_large_images_and_nothing_else_is():
    large = torch.randint(256, (23, 3, 20, 24), dtype=torch.uint8, generator=seeded(2))
    crops = ResizedCrops((10, 12), (0.5, 1.0))
    source = ImageSource(IMAGES, LABELS, None, PREPROCESSING, crops, large)
    plain = ImageSource(IMAGES, LABELS, None, PREPROCESSING)
    order = torch.randperm(23, generator=seeded(1))[:9]
    for some in (source, source.subset(order)):
        ((images, _),) = some.batches(23)
        ((expected, _),) = plain.batches(23, order=None if some is source else order)
        assert torch.equal(images, expected)
    views = torch.cat([x for x, _ in source.batches(4, order=order, augment=seeded())])
    same = torch.cat([x for x, _ in source.subset(order).batches(9, augment=seeded())])
    torch.testing.assert_close(views, same)
    expected = PREPROCESSING(crops(large[order], seeded()) / 255)
    torch.testing.assert_close(views, expected, rtol=1e-4, atol=1e-5)


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
    mean, std = (torch.tensor(v)[:, None, None] for v in (PREPROCESSING.mean, PREPROCESSING.std))
    source = ImageSource(IMAGES, LABELS, None, PREPROCESSING)
    ((images, _),) = source.batches(23, augment=seeded())
    plain = (IMAGES.double() / 255 - mean) / std
    torch.testing.assert_close(images.double(), plain.double(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(PREPROCESSING(IMAGES / 255), images)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_batches_are_the_same_wherever_the_images_lie():
    source = ImageSource(IMAGES, LABELS, None, PREPROCESSING, Augmentation(3))
    resident = source.to("cuda")
    assert resident.images.is_cuda and not resident.labels.is_cuda
    for some, device in ((source, "cuda"), (resident, "cuda"), (resident, "cpu")):
        batches = some.batches(7, augment=seeded(), device=device)
        expected = source.batches(7, augment=seeded())
        for (x, y), (images, labels) in zip(expected, batches, strict=True):
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
        (lambda: ResizedCrops((4, 4)).draw(3, 0), "torch.Generator on the CPU"),
        (lambda: ResizedCrops((4, 4), (0.5, 0.2)), r"two shares in \(0, 1\]"),
        (lambda: augment_by(digits(), crop=0.1, scale=(0.5, 1.0)), "exclude each other"),
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
    assert normalise_by(augment_by(data), None) is data
    changed = augment_by(normalise_by(data, (0.5,), (0.25,)), flip=True, crop=0.25)
    batch, _ = next(changed.test.batches(4))
    expected = (changed.test.images[:4].float() / 255 - 0.5) / 0.25
    torch.testing.assert_close(batch, expected)
    assert (changed.train.augmentation.padding, changed.train.augmentation.flip) == (2, True)
    assert changed.test.augmentation is None and data.train.augmentation.flip is False
    crops = augment_by(data, scale=(0.5, 1.0)).train.augmentation
    assert crops == ResizedCrops((8, 8), (0.5, 1.0), flip=False)
    # what is read otherwise is told apart, and what is read alike is not
    assert len({data.reading, changed.reading, augment_by(data, flip=True).reading}) == 3
    assert normalise_by(data, (0.5,)).reading == normalise_by(data, (0.5,)).reading


# --- files ------------------------------------------------------------------------------------

PICTURE = np.random.default_rng(0).integers(256, size=(6, 5, 3), dtype=np.uint8)
READING = Preprocessing(3, (6, 5), (0.5,) * 3, (0.25,) * 3)


@pytest.fixture
def pillow():
    return pytest.importorskip("PIL.Image")


def test_files_give_their_pixels_normalised_and_in_any_mode(tmp_path, pillow):
    image, path = pillow.fromarray(PICTURE), tmp_path / "a.png"
    # Broken EXIF does no harm.
    image.save(path, exif=b"Exif\0\0nothing of the kind")
    batch = READING.read(path)
    assert batch.shape == (1, 3, 6, 5)
    expected = (PICTURE.transpose(2, 0, 1) / 255 - 0.5) / 0.25
    torch.testing.assert_close(batch[0].double(), torch.from_numpy(expected), rtol=0, atol=1e-6)
    for mode in ("RGB", "L", "P", "1"):
        image.convert(mode).save(path)
        for channels, like in ((1, "L"), (3, "RGB")):
            expected = np.asarray(image.convert(mode).convert(like)).reshape(6, 5, channels)
            np.testing.assert_array_equal(read_image(path, channels), expected.transpose(2, 0, 1))


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_upright(tmp_path, pillow, suffix, orientation):
    # Stored as a camera does that is held in another way: its inverse turns it upright.
    upright = pillow.fromarray(PICTURE).resize((48, 32), pillow.BICUBIC)
    inverse = {6: 8, 8: 6}.get(orientation, orientation)
    turns = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}  # Pillow's, by the orientation in EXIF
    stored = upright.transpose(turns[inverse]) if inverse > 1 else upright
    exif = pillow.Exif()
    exif[0x0112] = orientation
    lossless = {"png": {}, "tif": {}, "webp": {"lossless": True}, "jpg": {"quality": 100}}[suffix]
    stored.save(tmp_path / f"a.{suffix}", exif=exif, **lossless)
    found, expected = read_image(tmp_path / f"a.{suffix}", 3), np.asarray(upright)
    assert found.shape == (3, 32, 48)
    difference = np.abs(found.transpose(1, 2, 0).astype(int) - expected)
    assert difference.mean() < 3 if suffix == "jpg" else difference.max() == 0
    batch = Preprocessing(3, (32, 48), (0.0,) * 3, (1.0,) * 3).read(tmp_path / f"a.{suffix}")
    np.testing.assert_array_equal((255 * batch[0]).round().numpy(), found)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_the_upper_half_of_sixteen_bits_counts(tmp_path, pillow, suffix):
    pillow.fromarray(PICTURE[..., 0].astype(np.uint16) * 256 + 77).save(tmp_path / f"a.{suffix}")
    found = read_image(tmp_path / f"a.{suffix}", 3)
    np.testing.assert_array_equal(found, np.stack([PICTURE[..., 0]] * 3))


@pytest.mark.parametrize(
    "mode, suffix",
    [*(("LA", s) for s in ("png", "tif", "webp")), ("P", "png"), ("P", "webp"), ("RGBA", "gif")],
)
def test_what_is_transparent_lies_on_white(tmp_path, pillow, mode, suffix):
    image = pillow.new("LA" if mode == "LA" else "RGBA", (4, 2), 0)  # black, and transparent
    image.paste((40, 255) if mode == "LA" else (40, 40, 40, 255), (0, 0, 2, 2))
    image = image.convert("P") if mode == "P" else image
    image.save(tmp_path / f"a.{suffix}", **({"lossless": True} if suffix == "webp" else {}))
    for channels in (1, 3):
        found = read_image(tmp_path / f"a.{suffix}", channels)
        assert (found[:, :, :2] == 40).all() and (found[:, :, 2:] == 255).all(), found


@pytest.mark.parametrize("suffix", ["jpg", "tif"])
def test_printers_colours_are_converted(tmp_path, pillow, suffix):
    ink = np.tile(np.array([0, 255, 255, 0], dtype=np.uint8), (16, 16, 1))  # red
    pillow.fromarray(ink, "CMYK").save(tmp_path / f"a.{suffix}")
    red = read_image(tmp_path / f"a.{suffix}", 3).reshape(3, -1).mean(1)
    np.testing.assert_allclose(red, [255, 0, 0], atol=3)


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tif"])
def test_the_first_frame_counts(tmp_path, pillow, suffix):
    red, blue = (pillow.new("RGB", (8, 8), colour) for colour in ("red", "blue"))
    lossless = {"lossless": 1} if suffix == "webp" else {}
    red.save(tmp_path / f"a.{suffix}", save_all=True, append_images=[blue], **lossless)
    found = read_image(tmp_path / f"a.{suffix}", 3)
    np.testing.assert_array_equal(found, np.asarray(red).transpose(2, 0, 1))


@pytest.mark.parametrize("size", [(4, 4), (2, 8), (8, 2)])
def test_images_are_squashed_or_cut_around_their_middle(tmp_path, pillow, size):
    image = pillow.fromarray(PICTURE).resize((24, 12), pillow.BICUBIC)
    image.save(tmp_path / "wide.png")
    height, width = size
    side = min(24 / width, 12 / height)
    left, top = (24 - side * width) / 2, (12 - side * height) / 2
    cut = (left, top, 24 - left, 12 - top)
    inner = (12 - 3 * side * width / 8, 6 - 3 * side * height / 8)
    inner = (*inner, 24 - inner[0], 12 - inner[1])
    for how, box in (("squash", None), ("crop", cut), ("crop:1", cut), ("crop:.75", inner)):
        expected = np.asarray(image.resize((width, height), pillow.BICUBIC, box=box))
        reading = Preprocessing(3, size, (0.0,) * 3, (1.0,) * 3, how)
        found = (255 * reading.read(tmp_path / "wide.png")[0]).round().permute(1, 2, 0)
        np.testing.assert_array_equal(found.numpy(), expected)
    same = read_image(tmp_path / "wide.png", 3, (12, 24), "crop:0.5")  # of the same size, too
    expected = image.resize((24, 12), pillow.BICUBIC, box=(6, 3, 18, 9))
    np.testing.assert_array_equal(same.transpose(1, 2, 0), np.asarray(expected))
    for wrong in ("stretch", "crop:", "crop:0", "crop:1.5", "crop:nan", "squash:1", "crop:a", 1):
        with pytest.raises(ValueError, match="'resize' parameter"):
            Preprocessing(3, size, (0.0,) * 3, (1.0,) * 3, wrong)


def test_no_other_decoder_is_asked(tmp_path, pillow):
    # Pillow would pass this on to Ghostscript, whatever the file is called.
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n%%EOF\n"
    (tmp_path / "a.png").write_bytes(postscript)
    assert pillow.open(tmp_path / "a.png").format == "EPS"
    with pytest.raises(ValueError, match=r"a.png must be a readable image.*of another format"):
        read_image(tmp_path / "a.png", 3)


def test_unreadable_files_are_named_in_one_sentence(tmp_path, pillow):
    pillow.fromarray(PICTURE).resize((200, 200)).save(tmp_path / "whole.png")
    content = (tmp_path / "whole.png").read_bytes()
    for name, damaged in (("cut.png", content[:900]), ("text.png", b"hello"), ("empty.png", b"")):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"{name} must be a readable image"):
            READING.read(tmp_path / name)
    pillow.fromarray(np.zeros((4, 4), dtype=np.float32)).save(tmp_path / "deep.tif")
    with pytest.raises(ValueError, match=r"deep.tif must be a readable image.*32 bits"):
        READING.read(tmp_path / "deep.tif")
    with pytest.raises(FileNotFoundError, match=r"none.png does not exist"):
        READING.read(tmp_path / "none.png")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [9_000, 10_000, 20_000])
def test_small_files_with_huge_pictures_are_refused_undecoded(tmp_path, pillow, side):
    pillow.new("1", (side, side)).save(tmp_path / "bomb.png")
    with pytest.raises(ValueError, match=r"bomb.png must be.*more than 67,108,864 pixels"):
        READING.read(tmp_path / "bomb.png")


def test_without_pillow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"vinets\[images\]"):
        READING.read(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("shape", "device", "count"),
    [
        ((3, 32, 32), "cpu", 512),
        ((3, 224, 224), "cpu", 27),
        ((3, 999, 999), "cpu", 16),
        ((3, 224, 224), "cuda", 512),
    ],
)
def test_few_large_images_run_through_a_network_together_on_a_cpu(shape, device, count):
    pixels = torch.zeros(1, dtype=torch.uint8).expand(2, *shape)
    reading = Preprocessing(shape[0], shape[1:], (0,) * 3, (1,) * 3)
    source = ImageSource(pixels, [0, 1], None, reading)
    assert at_once(source, 512, device) == count
    assert at_once(as_source((pixels.float(), torch.tensor([0, 1]))), 512, device) == 512
