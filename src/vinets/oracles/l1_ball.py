"""The l1 ball: Euclidean projection, many points at once."""

from __future__ import annotations

import torch
from torch import Tensor


def project(c: Tensor, radius: float, mask: Tensor | None = None) -> Tensor:
    r"""Nearest point of the ball :math:`\{x : \|x\|_1 \le r,\ x = 0 \text{ off the mask}\}`.

    Inside the ball a point stays as it is; outside, every entry is shrunk towards zero by the
    same threshold,

    .. math:: x_i = \operatorname{sign}(c_i)\, \max(|c_i| - \theta, 0), \qquad \|x\|_1 = r.

    ``c`` are the points, shape (N, o), and ``mask``, bool or 0/1 numbers of that shape, tells the
    entries that may be non-zero; None means all. The result may be ``c`` itself.

    References
    ----------
    Duchi, Shalev-Shwartz, Singer, Chandra: Efficient projections onto the l1-ball for learning in
    high dimensions. ICML 2008.
    """
    if mask is not None:
        c = c * mask.to(c.dtype)
    outside = c.abs().sum(1) > radius
    if c.is_cuda:  # shrinking all rows is cheaper than waiting for the device
        return torch.where(outside[:, None], _shrink(c, radius), c)
    # on a CPU sorting is what costs: only where it is needed
    rows = outside.nonzero()[:, 0]
    return c.index_copy(0, rows, _shrink(c[rows], radius)) if rows.numel() else c


def _shrink(c: Tensor, radius: float) -> Tensor:
    """Project rows known to lie outside the ball, by sorting their magnitudes."""
    size = c.abs()
    ordered = size.sort(dim=1, descending=True).values
    excess = ordered.cumsum(1) - radius
    count = torch.arange(1, c.shape[1] + 1, device=c.device, dtype=c.dtype)
    # at least one entry stays, whatever rounding says
    kept = (ordered * count > excess).sum(1, keepdim=True).clamp(min=1)  # (N, 1)
    threshold = excess.gather(1, kept - 1) / kept
    # a threshold far above the radius leaves an error of its own size
    return scale_into(torch.sign(c) * (size - threshold).clamp(min=0.0), radius)


def scale_into(c: Tensor, radius: float) -> Tensor:
    """Divide rows that rounding has pushed out of the ball by their excess norm."""
    norm = c.abs().sum(1, keepdim=True)
    return c * (radius / norm.clamp(min=radius))
