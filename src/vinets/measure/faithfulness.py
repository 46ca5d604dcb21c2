"""How faithful a map of importance is: what happens as pixels go, or come, in its order.

*Deletion* takes pixels away from the image, the most important first: the probability of the answer
should fall early. *Insertion* puts them into an image of nothing: it should rise early (Petsiuk,
Das and Saenko, 2018). Each is the area under that curve, in [0, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vinets.checks import parameter_error

STEPS = 16


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """Probabilities (B, steps + 1) of the answers as 0, 1/steps, ..., all of the pixels change."""

    deletion: Tensor
    insertion: Tensor

    @property
    def deleted(self) -> Tensor:
        """Area under the curve of deletion of every image, (B,); less is better."""
        return _area(self.deletion)

    @property
    def inserted(self) -> Tensor:
        """Area under the curve of insertion of every image, (B,); more is better."""
        return _area(self.insertion)


@torch.no_grad()
def faithfulness(
    network: Callable[[Tensor], Tensor],
    images: Tensor,
    maps: Tensor,
    answers: Tensor,
    *,
    nothing: Tensor | float = 0.0,
    steps: int = STEPS,
) -> Faithfulness:
    """Take pixels away, and put them in, in the order of maps.

    Parameters
    ----------
    network : callable
        From images to logits (B, K).
    images, maps : Tensor of shape (B, C, H, W), of shape (B, H, W)
        Inputs, and how important their pixels are for the answers.
    answers : Tensor of shape (B,)
        The classes whose probabilities are watched.
    nothing : Tensor like images, or float, default=0.0
        What stands where a pixel is taken away; 0 is the mean pixel of normalised images.
    steps : int, default=16
        Steps from the whole image to nothing.

    Examples
    --------
    >>> logits = lambda x: torch.stack([x.flatten(1)[:, 0], x.new_zeros(len(x))], 1)
    >>> image, here = torch.full((1, 1, 2, 2), 9.0), torch.tensor([[[1.0, 0], [0, 0]]])
    >>> found = faithfulness(logits, image, here, torch.tensor([0]), steps=4)
    >>> [round(p, 2) for p in found.deletion[0].tolist()]
    [1.0, 0.5, 0.5, 0.5, 0.5]
    """
    if maps.shape != (len(images), *images.shape[2:]):
        accepted = f"of shape {(len(images), *images.shape[2:])}, a value a pixel"
        raise parameter_error("faithfulness", "maps", accepted, tuple(maps.shape))
    order = maps.flatten(1).argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1]).to(order)[None].expand_as(order)
    )
    place = rank.view(len(images), 1, *images.shape[2:])
    blank = torch.zeros_like(images) + nothing
    curves: list[list[Tensor]] = [[], []]
    for step in range(steps + 1):
        changed = place < round(order.shape[1] * step / steps)
        for curve, ones in ((0, (blank, images)), (1, (images, blank))):
            shares = network(torch.where(changed, *ones)).double().softmax(1)
            curves[curve].append(shares.gather(1, answers[:, None])[:, 0])
    return Faithfulness(torch.stack(curves[0], 1), torch.stack(curves[1], 1))


def _area(curve: Tensor) -> Tensor:
    return (curve[:, 1:] + curve[:, :-1]).mean(1) / 2
