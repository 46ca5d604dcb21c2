"""How images become inputs, as transforms of torchvision and timm say it, or in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vinets.core.checks import parameter_error
from vinets.data.images import Preprocessing

# Classes of torchvision and timm that change no pixel of a picture in colour.
NEUTRAL = {
    *("ToTensor", "PILToTensor", "ConvertImageDtype", "ToDtype", "ToImage", "ToRGB", "RGB"),
    *("MaybeToTensor", "MaybePILToTensor"),
}
ACCEPTED = (
    "a transform of torchvision or timm without random steps (Resize, CenterCrop, Normalize), a "
    "Preprocessing, or a dict with size and perhaps mean, std, resize and channels"
)


def preprocessing_of(way: Any) -> Preprocessing:
    """Return how image files become inputs of a network.

    Parameters
    ----------
    way : transform, dict or Preprocessing
        A composition of torchvision's or timm's ``Resize``, ``CenterCrop``, ``Normalize`` and
        conversions; or a dict with ``size``, a number or a pair (height, width), and perhaps
        ``mean`` and ``std`` of pixels in [0, 1], ``resize`` ("squash", "crop", "crop:0.875") and
        ``channels``.

    Examples
    --------
    >>> preprocessing_of({"size": 224, "mean": [0.5] * 3, "std": [0.25] * 3}).size
    (224, 224)
    """
    if isinstance(way, Preprocessing):
        return way
    facts = dict(way) if isinstance(way, Mapping) else _facts(way)
    mean, std = facts.pop("mean", None), facts.pop("std", None)
    size, resize = facts.pop("size", None), facts.pop("resize", "squash")
    channels = facts.pop("channels", None) or (len(mean) if isinstance(mean, Sequence) else 3)
    if facts or size is None:
        raise parameter_error("preprocessing_of", "way", ACCEPTED, way)
    numbers = []
    for value in (0.0 if mean is None else mean, 1.0 if std is None else std):
        several = value if isinstance(value, Sequence) else [value]
        numbers.append(tuple(map(float, several)) * (channels if len(several) == 1 else 1))
    return Preprocessing(channels, _pair(size), numbers[0], numbers[1], resize)


def _facts(way: Any) -> dict[str, Any]:
    """Return what a transform does, in the words of a dict."""
    facts: dict[str, Any] = {}
    shorter = None  # side to which Resize brings the shorter one
    for step in _steps(way):
        kind = type(step).__name__
        if kind == "Resize" and not facts.keys() & {"size", "resize"} and shorter is None:
            if isinstance(step.size, int) or len(step.size) == 1:
                shorter = step.size if isinstance(step.size, int) else step.size[0]
            else:
                facts |= {"size": tuple(step.size), "resize": "squash"}
        elif kind == "CenterCrop" and shorter is not None and "size" not in facts:
            facts["size"] = pair = _pair(step.size)
            facts["resize"] = "crop" if max(pair) == shorter else f"crop:{max(pair) / shorter:.4g}"
        elif kind == "Normalize" and "mean" not in facts:
            facts |= {"mean": [*map(float, step.mean)], "std": [*map(float, step.std)]}
        elif kind == "Grayscale":
            facts["channels"] = step.num_output_channels
        elif kind not in NEUTRAL:
            raise parameter_error("preprocessing_of", "way", ACCEPTED, way)
    return facts


def _steps(way: Any) -> Iterator[Any]:
    """Give the steps of nested compositions in their order."""
    if not hasattr(way, "transforms"):
        yield way
    for one in getattr(way, "transforms", ()):
        yield from _steps(one)


def _pair(size: Any) -> tuple[int, int]:
    sides = tuple(size) if isinstance(size, Sequence) else (size,)
    return sides[0], sides[-1]
