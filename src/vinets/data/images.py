"""Read images from files, keep them as bytes, augment and normalise them by the batch."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from joblib import Parallel, cpu_count, delayed
from numpy.typing import NDArray
from torch import Tensor

from vinets.core.checks import MAX_INPUT_VALUES, one_of, parameter_error, reason_of
from vinets.core.plain import as_plain, from_plain
from vinets.data.mapped import ROWS_AT_ONCE, MappedImages, Pixels, take
from vinets.data.source import (
    Batches,
    CheckedSource,
    DataSplit,
    Device,
    Indices,
    Source,
    positive_int,
)

T = TypeVar("T")

MAX_PIXELS = 2**26  # 192 MiB as RGB; a small file may claim to be far larger
MODES = {1: "L", 3: "RGB"}
BICUBIC = 3  # as Pillow numbers its filters
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")  # no other decoder of Pillow is asked
VALUES_AT_ONCE = 2**22  # pixels of images that run through a network together on a CPU
MIN_AT_ONCE = 16  # images, however large
CROP_DETAIL = 1.6  # sides of images that resized crops are taken from, as a multiple of the size
CROP_ATTEMPTS = 10  # areas and proportions that are drawn until a crop fits into the image
BITS, PHOTOMETRIC = 258, 262  # numbers of tags in TIFF
MAX_NAMED = 50  # unreadable files in a message
FILES_AT_ONCE = 1024  # files that are read before the next ones are begun
MOST_THREADS = 8  # beyond it, threads wait for the interpreter, and processes are faster


def share_cut(resize: Any) -> float:
    """Return the share of the largest sides that fit which is cut out of images; 0 for squash."""
    known = {"squash": 0.0, "crop": 1.0}
    if resize in known:
        return known[resize]
    way, _, share = str(resize).partition(":")
    with suppress(ValueError):
        if way == "crop" and 0 < float(share) <= 1:
            return float(share)
    accepted = "squash, crop, or crop:SHARE with a share in (0, 1], such as crop:0.875"
    raise parameter_error("Preprocessing", "resize", accepted, resize)


@dataclass(frozen=True)
class Preprocessing:
    r"""Normalisation of pixels: :math:`(x / 255 - \mu_c) / \sigma_c` in channel c."""

    channels: int  # 1 for grey, 3 for red, green and blue
    size: tuple[int, int]  # height and width that read() gives
    mean: tuple[float, ...]  # one number a channel, for pixels in [0, 1]
    std: tuple[float, ...]
    resize: str = "squash"  # how a file of another shape gets the size, see read_image

    def __post_init__(self) -> None:
        positive_int("Preprocessing", "channels", self.channels)
        share_cut(self.resize)
        if not isinstance(self.size, tuple) or len(self.size) != 2:
            raise parameter_error("Preprocessing", "size", "a pair (height, width)", self.size)
        sides = [positive_int("Preprocessing", "size", side) for side in self.size]
        if self.channels * math.prod(sides) > MAX_INPUT_VALUES:
            accepted = f"at most {MAX_INPUT_VALUES:,} values an image"
            raise parameter_error("Preprocessing", "size", accepted, self.size)
        accepted = f"a tuple of {self.channels} finite floats, one per channel"
        for name, values, least in (("mean", self.mean, -math.inf), ("std", self.std, 0)):
            sound = isinstance(values, tuple) and len(values) == self.channels
            if not sound or not all(isinstance(v, Real) and least < v < math.inf for v in values):
                positive = ", all positive" if name == "std" else ""
                raise parameter_error("Preprocessing", name, accepted + positive, values)

    @classmethod
    def from_images(cls, images: Pixels, resize: str = "squash") -> Preprocessing:
        """Take the statistics of uint8 images (N, C, H, W); a constant channel is not scaled."""
        levels = torch.arange(256, dtype=torch.float64) / 255
        mean, std = [], []
        # By counting the 256 levels: exact, and without a copy of all pixels as floats.
        counted = torch.zeros(images.shape[1], 256, dtype=torch.int64)
        for part in images.split(ROWS_AT_ONCE):
            for counts, channel in zip(counted, part.unbind(1), strict=True):
                counts += torch.bincount(channel.flatten(), minlength=256).cpu()
        for counts in counted.double():
            shares = counts / counts.sum()
            mean.append(float(shares @ levels))
            deviation = math.sqrt(float(shares @ (levels - mean[-1]) ** 2))
            # Below this, far less than one level in 255, the deviation is rounding.
            std.append(deviation if deviation > 1e-6 else 1.0)
        height, width = images.shape[2:]
        return cls(len(mean), (height, width), tuple(mean), tuple(std), resize)

    def __call__(self, images: Tensor) -> Tensor:
        """Normalise images (..., C, H, W) to float32: uint8, or floats in [0, 1]."""
        if images.ndim < 3 or images.shape[-3] != self.channels:
            accepted, got = f"images (..., {self.channels}, H, W)", f"shape {tuple(images.shape)}"
            raise parameter_error("Preprocessing", "images", accepted, got)
        if images.dtype != torch.uint8 and not images.is_floating_point():
            raise parameter_error("Preprocessing", "images", "uint8 or floating", images.dtype)
        return _normalized(images, self._mean_and_std(images.dtype, images.device))

    def _mean_and_std(self, dtype: torch.dtype, device: Device) -> Tensor:
        """Return mean and deviation (2, C, 1, 1) of pixels of that type."""
        scale = 255 if dtype == torch.uint8 else 1
        scaled = [[scale * v for v in values] for values in (self.mean, self.std)]
        return torch.tensor(scaled, dtype=torch.float32, device=device)[..., None, None]

    def read(self, path: str | Path) -> Tensor:
        """Read a file as a normalised batch (1, C, H, W), resized where the size differs."""
        pixels = read_image(path, self.channels, self.size, self.resize)
        return self(torch.from_numpy(pixels)[None])

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON writes them."""
        return dict(as_plain(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        """Read back what :meth:`to_dict` gave; anything else is refused in one sentence."""
        return from_plain(cls, values, "preprocessing")


@dataclass(frozen=True)
class Augmentation:
    """Random crops of the padded image, and horizontal flips."""

    padding: int = 4  # pixels added on every side before a crop of the old size is drawn
    flip: bool = True  # mirror half of the images, drawn anew every time
    mode: str = "reflect"  # the padding is the image mirrored at its edge pixels; or "zero", black

    def __post_init__(self) -> None:
        if self.padding != 0:
            positive_int("Augmentation", "padding", self.padding)
        one_of("Augmentation", "mode", self.mode, ("reflect", "zero"))

    @classmethod
    def for_size(cls, size: tuple[int, int]) -> Augmentation:
        """Shift crops by up to an eighth of the shorter side, without flips.

        These would change what letters, digits or traffic signs mean.
        """
        return cls(padding=min(size) // 8, flip=False)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw the corner of each crop in the padded image, and its flip: (count, 3)."""
        _check_generator(generator)
        corners = torch.randint(2 * self.padding + 1, (count, 2), generator=generator)
        # Flips are always drawn, so that the corners of the next pass do not depend on the option.
        flipped = torch.randint(2, (count, 1), generator=generator) * int(self.flip)
        return torch.cat([corners, flipped], dim=1)

    def apply(self, images: Tensor, draws: Tensor) -> Tensor:
        """Crop and flip images (N, C, H, W) of any dtype as ``draws`` (N, 3) says."""
        n, channels, height, width = images.shape
        if self.mode == "reflect" and self.padding >= min(height, width):
            accepted = f"below the sides of the images ({height}, {width}) to reflect"
            raise parameter_error("Augmentation", "padding", accepted, self.padding)
        top, left, flipped = draws.to(images.device).unbind(1)
        across = torch.arange(width, device=images.device).expand(n, width)
        across = torch.where(flipped[:, None] == 1, across.flip(1), across)
        rows = torch.arange(height, device=images.device) + top[:, None] - self.padding
        columns = across + left[:, None] - self.padding
        # One gather with flat indices: no padded copy, and the memory layout stays as it is.
        flat = _mirror(rows, height)[:, :, None] * width + _mirror(columns, width)[:, None, :]
        index = flat.view(n, 1, -1).expand(n, channels, -1)
        result = images.flatten(2).gather(2, index).view_as(images)
        if self.mode == "zero":
            # The tensor is changed in place, because the gather made it.
            in_rows = (rows >= 0) & (rows < height)
            in_columns = (columns >= 0) & (columns < width)
            result.masked_fill_(~(in_rows[:, None, :, None] & in_columns[:, None, None, :]), 0)
        return result

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment a batch (N, C, H, W) on its device, with draws from ``generator``."""
        return self.apply(images, self.draw(len(images), generator))


def _check_generator(generator: Any) -> None:
    if not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
        accepted, remedy = "a torch.Generator on the CPU", "Make one by torch.Generator()."
        raise parameter_error("Augmentation", "generator", accepted, generator, remedy)


@dataclass(frozen=True)
class ResizedCrops:
    """Crops of random area and proportions, scaled to one size, and horizontal flips.

    They are drawn as by torchvision's RandomResizedCrop, and scaled bilinearly with antialiasing.
    """

    size: tuple[int, int]  # height and width of what comes out
    scale: tuple[float, float] = (0.35, 1.0)  # smallest and largest share of the image's area
    flip: bool = True  # mirror half of the images
    ratio: tuple[float, float] = (3 / 4, 4 / 3)  # smallest and largest width over height

    def __post_init__(self) -> None:
        accepted = "two shares in (0, 1], the smaller first"
        if len(self.scale) != 2 or not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise parameter_error("ResizedCrops", "scale", accepted, self.scale)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw areas and proportions of several attempts, place and flip: (count, 2 a + 3)."""
        _check_generator(generator)
        return torch.rand(count, 2 * CROP_ATTEMPTS + 3, generator=generator)

    def boxes(self, draws: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Return the first row and column of every crop, and its height and width: twice (N, 2)."""
        whole = draws.new_tensor([height, width])
        areas, proportions = draws[:, :-3].chunk(2, dim=1)
        low, high = self.scale
        areas = (low + (high - low) * areas) * height * width
        low, high = map(math.log, self.ratio)
        proportions = (low + (high - low) * proportions).exp()
        tried = torch.stack([areas / proportions, areas * proportions], dim=2).sqrt().round()
        fits = ((tried >= 1) & (tried <= whole)).all(2)
        # Where no attempt fits, it is the largest part of allowed proportions in the middle.
        most = min(height, width / self.ratio[0]), min(width, height * self.ratio[1])
        first = tried[torch.arange(len(tried)), fits.int().argmax(1)]
        some = fits.any(1, keepdim=True)
        sides = torch.where(some, first, draws.new_tensor(most).round())
        places = torch.where(some, draws[:, -3:-1], 0.5)
        return (places * (whole - sides + 1)).floor(), sides

    def apply(self, images: Tensor, draws: Tensor) -> Tensor:
        """Crop, scale and flip images (N, C, H, W) as ``draws`` says; pixels become floats."""
        draws, wholes = draws.to(images.device), images.shape[2:]
        starts, sides = self.boxes(draws, *wholes)
        columns = zip(starts.unbind(1), sides.unbind(1), wholes, self.size, strict=True)
        down, across = (_resampling(*each) for each in columns)
        mirrored = (draws[:, -1, None, None] < 0.5) & self.flip
        across = torch.where(mirrored, across.flip(1), across)
        return down[:, None] @ images.float() @ across[:, None].mT

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Augment a batch (N, C, H, W) on its device, with draws from ``generator``."""
        return self.apply(images, self.draw(len(images), generator))


def _resampling(start: Tensor, length: Tensor, whole: int, out: int) -> Tensor:
    """Return matrices (N, out, whole) that scale the pixels of an interval to ``out`` pixels.

    Weights fall linearly from the centre of a pixel to those of its neighbours, in the coarser of
    both grids, as in Pillow and torch with antialiasing; pixels outside of the interval have none.
    """
    step = (length / out)[:, None]
    centres = start[:, None] + (torch.arange(out, device=start.device) + 0.5) * step
    pixels = torch.arange(whole, device=start.device) + 0.5
    weights = 1 - (pixels - centres[..., None]).abs() / step.clamp(min=1)[..., None]
    inside = (pixels > start[:, None]) & (pixels < (start + length)[:, None])
    weights = weights.clamp_(min=0) * inside[:, None]
    return weights / weights.sum(-1, keepdim=True)


class ImageSource(CheckedSource):
    """Images as bytes, in memory or in a file; batches are augmented, then normalised to float32.

    All draws of a pass are made at its start, so an image is augmented alike whatever the batch
    size. Images are uint8 (N, C, H, W) on any device, labels integers 0..K-1 (N,). Without names,
    the classes are numbered. The ``large`` images are the same with more pixels, from which resized
    crops are taken.
    """

    def __init__(
        self,
        images: Pixels,
        labels: Any,
        classes: Sequence[str] | None,
        preprocessing: Preprocessing,
        augmentation: Augmentation | ResizedCrops | None = None,
        large: Pixels | None = None,
    ) -> None:
        are_bytes = isinstance(images, Tensor | MappedImages) and images.dtype == torch.uint8
        if not are_bytes or len(images.shape) != 4:
            got = f"{images.dtype} {tuple(images.shape)}" if isinstance(images, Tensor) else images
            raise parameter_error("ImageSource", "images", "uint8 images (N, C, H, W)", got)
        if images.shape[1] != preprocessing.channels:
            accepted = f"images of {preprocessing.channels} channels, as the preprocessing has"
            raise parameter_error("ImageSource", "images", accepted, f"{images.shape[1]} channels")
        self.images = images
        self._label(labels, len(images), classes)
        self.preprocessing = preprocessing
        self.augmentation = augmentation
        self.large = large

    def to(self, device: torch.device | str) -> ImageSource:
        """Return the source with its images on ``device``; labels stay on the CPU."""
        large = None if self.large is None else self.large.to(device)
        return self.changed(images=self.images.to(device), large=large)

    def changed(self, **parts: Any) -> ImageSource:
        """Return a source with other images, labels, preprocessing or augmentation."""
        return ImageSource(**(vars(self) | parts))

    def _subset(self, index: Tensor) -> ImageSource:
        large = None if self.large is None else take(self.large, index)
        return self.changed(images=take(self.images, index), large=large, labels=self.labels[index])

    def _batches(self, chunks: Indices, augment: torch.Generator | None, device: Device) -> Batches:
        if not chunks:
            return iter(())
        # Positions, labels and draws travel once a pass, not once a batch.
        order, size = torch.cat(chunks), len(chunks[0])
        labels = self.labels[order].to(device).split(size)
        mean_and_std = self.preprocessing._mean_and_std(self.images.dtype, device)
        change, pixels = None if augment is None else self.augmentation, self.images
        if change is not None and augment is not None:
            draws = change.draw(len(order), augment).to(device).split(size)
            if isinstance(change, ResizedCrops) and self.large is not None:
                pixels = self.large

        def batch(i: int, chunk: Tensor) -> tuple[Tensor, Tensor]:
            images = pixels[chunk].to(device)
            if change is not None:
                images = change.apply(images, draws[i])
            return _normalized(images, mean_and_std), labels[i]

        # Everything above is done now, and not when the first batch is asked for.
        return itertools.starmap(batch, enumerate(order.to(pixels.device).split(size)))


def at_once(source: Source, most: int, device: Device = "cpu") -> int:
    """Return how many examples run through a network together where nothing is trained.

    On a CPU, ``most`` large images would need gigabytes for their activations, and be no quicker.
    """
    if not isinstance(source, ImageSource) or torch.device(device).type != "cpu":
        return most
    return max(MIN_AT_ONCE, min(most, VALUES_AT_ONCE // math.prod(source.images.shape[1:])))


def image_split(
    name: str,
    train: tuple[Pixels, Tensor],
    test: tuple[Pixels, Tensor],
    *,
    classes: Sequence[str] | None = None,
    augmentation: Augmentation | None = None,
    preprocessing: Preprocessing | None = None,
) -> DataSplit:
    """Make a data set of two pairs (images, labels); only the training part is augmented.

    Statistics of the training part normalise the images unless a preprocessing is given.
    """
    preprocessing = preprocessing or Preprocessing.from_images(train[0])
    augmentation = augmentation or Augmentation.for_size(preprocessing.size)
    training = ImageSource(*train, classes, preprocessing, augmentation)
    return DataSplit(name, training, ImageSource(*test, training.classes, preprocessing))


def normalise_by(
    data: DataSplit, mean: tuple[float, ...] | None = None, std: tuple[float, ...] | None = None
) -> DataSplit:
    """Normalise images by another mean or deviation; one number is for all channels."""
    if mean is None and std is None:
        return data
    own = _image_source(data, "mean (--mean) and std (--std)").preprocessing
    both = (mean or own.mean, std or own.std)
    mean, std = (one * own.channels if len(one) == 1 else one for one in both)
    changed = with_preprocessing(data, replace(own, mean=mean, std=std))
    return replace(changed, reading=f"{data.reading}{mean} {std} ")


def with_preprocessing(data: DataSplit, preprocessing: Preprocessing) -> DataSplit:
    """Return the same data; images in it are normalised in this way."""
    train, test = (
        part.changed(preprocessing=preprocessing) if isinstance(part, ImageSource) else part
        for part in (data.train, data.test)
    )
    return replace(data, train=train, test=test)


def augment_by(
    data: DataSplit,
    flip: bool | None = None,
    crop: float | None = None,
    scale: tuple[float, float] | None = None,
) -> DataSplit:
    """Mirror images or not, and shift crops by a share of the shorter side, unless None.

    With ``scale``, crops of random area, between these shares of the image's, are resized instead.
    """
    if flip is None and crop is None and scale is None:
        return data
    train = _image_source(data, "flip (--flip), crop (--crop) and scale (--scale)")
    own = train.augmentation or Augmentation(padding=0, flip=False)
    chosen, sides = replace(own, flip=own.flip if flip is None else flip), train.images.shape[2:]
    if scale is not None:
        if crop is not None:
            raise ValueError("scale (--scale) and crop (--crop) exclude each other: pass one.")
        chosen = ResizedCrops((sides[0], sides[1]), (scale[0], scale[1]), chosen.flip)
    elif crop is not None:
        if not 0 <= crop < 1:
            raise parameter_error("augment_by", "crop", "a share in [0, 1)", crop)
        mode = getattr(own, "mode", Augmentation.mode)
        chosen = Augmentation(round(crop * min(sides)), chosen.flip, mode)
    changed = train.changed(augmentation=chosen)
    return replace(data, train=changed, reading=f"{data.reading}{chosen} ")


def _image_source(data: DataSplit, options: str) -> ImageSource:
    if not isinstance(data.train, ImageSource):
        raise ValueError(f"{options} are for images, and {data.name} has none. Leave them out.")
    return data.train


def _normalized(images: Tensor, mean_and_std: Tensor) -> Tensor:
    # Dividing by tensors rounds alike on all devices; CUDA takes reciprocals of numbers.
    mean, std = mean_and_std
    return (images.float() - mean).div_(std)


def _mirror(positions: Tensor, length: int) -> Tensor:
    """Reflect positions just outside of 0..length-1 back into it, at the edge pixels."""
    # Padding by zeros may reach further than one reflection; those pixels are blanked afterwards.
    return ((length - 1) - ((length - 1) - positions.abs()).abs()).clamp_(0, length - 1)


class UnreadableImage(ValueError):
    """A file that cannot be read as an image; ``reason`` says why in a few words."""

    def __init__(self, path: str | Path, reason: str) -> None:
        self.path, self.reason = printable(path), reason
        super().__init__(
            f"{self.path} must be a readable image ({', '.join(FORMATS)}). Got: {reason}. Remove "
            "the file, or save the image anew."
        )


def read_image(
    path: str | Path, channels: int, size: tuple[int, int] | None = None, resize: str = "squash"
) -> NDArray[np.uint8]:
    """Read the pixels (C, H, W) of a file, resized bicubically where the size (H, W) differs.

    The image is turned upright as EXIF says, and its first frame counts. Of 16 bits the upper 8
    are kept, what is transparent lies on white, and colours are converted to 1 channel (grey) or 3
    (red, green, blue). To resize, ``"squash"`` scales the sides apart; ``"crop"`` cuts out the
    largest part of these proportions around the centre, and ``"crop:0.875"`` this share of its
    sides, as networks for ImageNet are usually tested.
    """
    if channels not in MODES:
        raise parameter_error("read_image", "channels", "1 (grey) or 3 (RGB)", channels)
    pil = import_pillow()
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file.")
    try:
        with pil.Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise pil.Image.DecompressionBombError
            return _pixels(pil, image, channels, size, share_cut(resize))
    except (pil.Image.DecompressionBombError, pil.Image.DecompressionBombWarning):
        raise UnreadableImage(path, f"more than {MAX_PIXELS:,} pixels") from None
    except pil.UnidentifiedImageError:
        raise UnreadableImage(path, "damaged from the start, or of another format") from None
    except Exception as error:  # Pillow's decoders raise all sorts for damaged files
        reason = reason_of(error)
        raise UnreadableImage(path, "truncated" if "runcated" in reason else reason) from None


def _pixels(
    pil: Any, image: Any, channels: int, size: tuple[int, int] | None, share: float
) -> NDArray[np.uint8]:
    image.load()  # this turns TIFF upright, and PNG may have its EXIF behind the pixels
    with suppress(Exception):  # broken EXIF does no harm to the pixels
        pil.ImageOps.exif_transpose(image, in_place=True)
    if image.mode.startswith("I;16") or (image.mode, image.format) == ("I", "PNG"):
        tags = getattr(image, "tag_v2", {})  # TIFF also has 12 bits, or white as 0
        levels = (np.asarray(image) >> (tags.get(BITS, (16,))[0] - 8)).astype(np.uint8)
        image = pil.Image.fromarray(255 - levels if tags.get(PHOTOMETRIC) == 0 else levels)
    elif image.mode in ("I", "F"):
        raise ValueError("32 bits per pixel, of unknown range, where 8 or 16 are read")
    if image.mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = pil.Image.new("RGBA", image.size, "white")
        image = pil.Image.alpha_composite(white, image)
    image = image.convert(MODES[channels])
    if size is not None and ((image.height, image.width) != size or 0 < share < 1):
        box, (height, width) = None, size
        if share:
            scale = share * min(image.width / width, image.height / height)
            x = max(0.0, (image.width - scale * width) / 2)
            y = max(0.0, (image.height - scale * height) / 2)
            box = (x, y, image.width - x, image.height - y)
        image = image.resize((width, height), BICUBIC, box=box)
    pixels = np.array(image, dtype=np.uint8)
    return np.ascontiguousarray(pixels.reshape(*pixels.shape[:2], channels).transpose(2, 0, 1))


def first_size(paths: Iterable[Path]) -> tuple[int, ...]:
    """Return height and width of the first image that can be read."""
    for path in paths:
        with suppress(UnreadableImage):
            return read_image(path, channels=1).shape[1:]
    return 1, 1  # all of them are refused when they are read


def read_together(read: Callable[[Path], T], paths: Sequence[Path]) -> Iterator[T]:
    """Read files side by side: in threads, because Pillow decodes without the interpreter.

    Where there are many cores and files, processes are worth their start.
    """
    many = len(paths) > FILES_AT_ONCE and cpu_count() > MOST_THREADS
    prefer = "processes" if many else "threads"
    every = Parallel(n_jobs=-1, prefer=prefer, return_as="generator")
    # The threads do not wait for whoever uses the images, and could fill the memory.
    for start in range(0, len(paths), FILES_AT_ONCE):
        yield from every(delayed(read)(path) for path in paths[start : start + FILES_AT_ONCE])


def read_images(
    paths: Sequence[Path], reading: Preprocessing, skip_unreadable: bool
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Give positions and pixels of the files that can be read; then name all others in an error."""

    def attempt(path: Path) -> NDArray[np.uint8] | UnreadableImage:
        try:
            return read_image(path, reading.channels, reading.size, reading.resize)
        except UnreadableImage as error:
            return error

    unreadable = []
    for i, pixels in enumerate(read_together(attempt, paths)):
        if isinstance(pixels, UnreadableImage):
            unreadable.append(pixels)
        else:
            yield i, pixels
    if skip_unreadable or not unreadable:
        return
    if len(paths) == 1:
        raise unreadable[0]
    named = [f"{one.path} ({one.reason})" for one in unreadable]
    more = f" and {len(named) - MAX_NAMED:,} more" if len(named) > MAX_NAMED else ""
    raise ValueError(
        f"{len(named):,} of {len(paths):,} files cannot be read: {', '.join(named[:MAX_NAMED])}"
        f"{more}. Remove them, or pass skip_unreadable=True (--skip-unreadable)."
    )


def printable(path: str | Path) -> str:
    """Return a path as it can be printed, also where its name is no UTF-8."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def import_pillow() -> Any:
    """Return Pillow, or say how to install it."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError:
        message = 'Reading image files needs Pillow: pip install "vinets[images]".'
        raise ImportError(message) from None
    return PIL
