"""Read an image file into an array, and refuse in one sentence what is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vinets.checks import parameter_error

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["image_size", "read_image"]

MOST_PIXELS = 2**26
MODES = {1: "L", 3: "RGB"}


def read_image(
    path: str | Path, channels: int, size: tuple[int, int] | None = None
) -> NDArray[np.uint8]:
    """The pixels (C, H, W) of an image file, resized bicubically where the size (H, W) differs.

    Any 8-bit format that Pillow reads; of several frames, the first. Images are converted to 1
    channel (grey) or 3 (red, green, blue). The sides are scaled apart, nothing is cropped.
    """
    if channels not in MODES:
        raise parameter_error("read_image", "channels", "1 (grey) or 3 (RGB)", channels)
    with _opened(path) as image:
        if "transparency" in image.info:  # a palette with alpha; Pillow warns otherwise
            image = image.convert("RGBA")
        image = image.convert(MODES[channels])
        if size is not None and (image.height, image.width) != size:
            image = image.resize((size[1], size[0]), _pillow().Resampling.BICUBIC)
        pixels = np.array(image, dtype=np.uint8)
    return np.ascontiguousarray(pixels.reshape(*pixels.shape[:2], channels).transpose(2, 0, 1))


def image_size(path: str | Path) -> tuple[int, int]:
    """Height and width of an image file, without decoding it."""
    with _opened(path) as image:
        return image.height, image.width


@contextmanager
def _opened(path: str | Path) -> Iterator[Image]:
    """An image that is safe to decode; what goes wrong up to the end becomes one sentence."""
    pillow = _pillow()
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file.")
    too_large = f"{path} must have at most {MOST_PIXELS:,} pixels. Scale it down first."
    try:
        with pillow.open(path) as image:
            if image.width * image.height > MOST_PIXELS:
                raise pillow.DecompressionBombError
            if image.mode.startswith(("I", "F")):
                raise ValueError(f"mode {image.mode} is not an 8-bit one")
            yield image
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning):
        raise ValueError(too_large) from None
    except Exception as error:  # Pillow's decoders raise all sorts for damaged files
        raise ValueError(f"{path} must be a readable 8-bit image. Got: {error}.") from None


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(
            'Reading image files needs Pillow: pip install "vinets[vision]".'
        ) from None
    return Image
