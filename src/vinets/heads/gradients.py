r"""Integrated gradients: what every pixel adds to a margin, for any network.

.. math:: x_i \int_0^1 \frac{\partial\,(\ell_a - \ell_r)}{\partial x_i}(t x)\,dt

On the way from 0, the mean pixel of normalised images, to the image, they sum to the difference of
the margins at both ends, up to the error of the sum that stands for the integral (Sundararajan,
Taly and Yan, 2017).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

STEPS = 32


def margin_gradient(
    network: Callable[[Tensor], Tensor], images: Tensor, answers: Tensor, nexts: Tensor
) -> Tensor:
    """Gradient of the logit of the answer less that of the next class, like the images."""
    with torch.enable_grad():
        images = images.detach().requires_grad_()
        logits = network(images)
        margins = logits.gather(1, answers[:, None]) - logits.gather(1, nexts[:, None])
        (gradient,) = torch.autograd.grad(margins.sum(), images)
    return gradient


def integrated_gradients(
    network: Callable[[Tensor], Tensor],
    images: Tensor,
    answers: Tensor,
    nexts: Tensor,
    steps: int = STEPS,
) -> Tensor:
    """What pixels add to the margins of images (B, C, H, W), over all channels: (B, H, W).

    ``answers`` and ``nexts`` are classes (B,).

    Examples
    --------
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
    >>> x, a, b = torch.ones(1, 1, 2, 2), torch.tensor([0]), torch.tensor([1])
    >>> found = integrated_gradients(network, x, a, b)
    >>> weight = network[1].weight
    >>> torch.allclose(found.flatten(), weight[0] - weight[1])
    True
    """
    total = torch.zeros_like(images)
    for i in range(steps):
        total += margin_gradient(network, images * ((i + 0.5) / steps), answers, nexts)
    return (total / steps * images).sum(1).detach()
