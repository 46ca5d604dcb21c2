from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from vinets.data import Preprocessing
from vinets.data.images import image_size, read_image

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(0).integers(256, size=(6, 5, 3), dtype=np.uint8)
PREPROCESSING = Preprocessing(3, (6, 5), (0.5,) * 3, (0.25,) * 3)


def test_lossless_files_give_their_pixels(tmp_path):
    for name in ("a.png", "a.bmp"):
        Image.fromarray(PIXELS).save(tmp_path / name)
        np.testing.assert_array_equal(read_image(tmp_path / name, 3), PIXELS.transpose(2, 0, 1))
        assert image_size(tmp_path / name) == (6, 5)
    batch = PREPROCESSING.read(tmp_path / "a.png")
    assert batch.shape == (1, 3, 6, 5)
    expected = (PIXELS.transpose(2, 0, 1) / 255 - 0.5) / 0.25
    torch.testing.assert_close(batch[0].double(), torch.from_numpy(expected), rtol=0, atol=1e-6)


def test_other_sizes_and_modes_are_converted(tmp_path):
    image = Image.fromarray(PIXELS)
    image.resize((10, 12)).save(tmp_path / "large.png")
    assert PREPROCESSING.read(tmp_path / "large.png").shape == (1, 3, 6, 5)
    expected = np.asarray(Image.open(tmp_path / "large.png").resize((5, 6), Image.BICUBIC))
    found = read_image(tmp_path / "large.png", 3, (6, 5))
    np.testing.assert_array_equal(found, expected.transpose(2, 0, 1))
    for mode in ("L", "P", "RGBA", "1", "CMYK"):
        path = tmp_path / f"{mode}.{'tiff' if mode == 'CMYK' else 'png'}"
        image.convert(mode).save(path)
        assert read_image(path, 3).shape == (3, 6, 5) and read_image(path, 1).shape == (1, 6, 5)
    grey = np.asarray(image.convert("L"))
    np.testing.assert_array_equal(read_image(tmp_path / "L.png", 1)[0], grey)


def test_unreadable_files_are_named_in_one_sentence(tmp_path):
    Image.fromarray(PIXELS).resize((200, 200)).save(tmp_path / "whole.png")
    content = (tmp_path / "whole.png").read_bytes()
    for name, damaged in (("cut.png", content[:900]), ("text.png", b"hello"), ("empty.png", b"")):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(ValueError, match=rf"{name} must be a readable 8-bit image"):
            PREPROCESSING.read(tmp_path / name)
    Image.fromarray(np.zeros((4, 4), dtype=np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(ValueError, match=r"deep.png must be a readable 8-bit image"):
        PREPROCESSING.read(tmp_path / "deep.png")
    with pytest.raises(FileNotFoundError, match=r"none.png does not exist"):
        PREPROCESSING.read(tmp_path / "none.png")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [9_000, 10_000, 20_000])
def test_small_files_with_huge_pictures_are_refused_undecoded(tmp_path, side):
    Image.new("1", (side, side)).save(tmp_path / "bomb.png")
    with pytest.raises(ValueError, match=r"bomb.png must have at most 67,108,864 pixels"):
        PREPROCESSING.read(tmp_path / "bomb.png")


def test_without_pillow_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"vinets\[images\]"):
        PREPROCESSING.read(tmp_path / "a.png")
