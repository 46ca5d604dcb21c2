"""What images show: the most probable classes of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from vinets.core.device import call, evaluating, logits_of, resolve_device
from vinets.core.progress import Progress, Silent
from vinets.runs.opening import Opened, require_weights


@dataclass(frozen=True)
class Guess:
    """A class and its probability."""

    name: str
    probability: float


@dataclass(frozen=True)
class Prediction:
    """The classes of one image, the most probable first."""

    path: str
    classes: tuple[Guess, ...]


def predict_images(
    opened: Opened,
    files: Sequence[str | Path],
    *,
    top: int = 3,
    batch_size: int = 64,
    device: torch.device | str = "auto",
    progress: Progress | None = None,
) -> list[Prediction]:
    """Classify image files, resized and normalised as the network knows it from its training.

    Parameters
    ----------
    opened : Opened
        A trained network, see :func:`vinets.runs.opening.open_network`; it moves to ``device``.
    files : sequence of str or Path
        The images; :func:`vinets.data.folders.image_files` lists those of a folder.
    top : int, default=3
        Classes to tell of every image.
    batch_size : int, default=64
        Images at once.
    device : device or str, default="auto"
        Where the network runs.
    progress : Progress or None, default=None
        Told after every batch.
    """
    require_weights(opened)
    if opened.preprocessing is None:
        raise ValueError(
            f"{opened.name} has no preprocessing on record, so that it is not known how an image "
            "becomes its input. Train or build it on images."
        )
    where = resolve_device("predict_images", device)
    network, watch = opened.network.to(where), progress or Silent()
    watch.start("predicting", len(files))
    found: list[Prediction] = []
    for start in range(0, len(files), batch_size):
        some = files[start : start + batch_size]
        inputs = torch.cat([opened.preprocessing.read(file) for file in some]).to(where)
        # in float32: of logits in half precision, probabilities would not sum to one
        with evaluating(network):
            shares = logits_of(call(network, inputs)).float().softmax(1)
        names = opened.classes or tuple(str(k) for k in range(shares.shape[1]))
        if len(names) < shares.shape[1]:
            raise ValueError(
                f"{opened.name} must name a class for each of its {shares.shape[1]} outputs. It "
                f"has {len(names)} names. Save it again with all of them, or with none."
            )
        values, order = shares.topk(min(top, shares.shape[1]), dim=1)
        for file, row, those in zip(some, order.tolist(), values.tolist(), strict=True):
            guesses = zip(row, those, strict=True)
            found.append(Prediction(str(file), tuple(Guess(names[k], p) for k, p in guesses)))
        watch.advance(len(some))
    return found
