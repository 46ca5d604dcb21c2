"""Many least-squares problems over one l1 ball, which share a few Gram matrices, and the ball."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from vinets.core.checks import parameter_error


@dataclass(frozen=True)
class LeastSquaresBatch:
    r"""N problems of minimising a convex quadratic over an l1 ball.

    Row ``n`` asks for

    .. math:: \min_{\|c\|_1 \le r,\; c_i = 0 \text{ for } i \ge p_n}
              f_n(c) = c^\top G_{k(n)} c + 2 b_n^\top c + \beta_n .

    With :math:`G = M^\top M`, :math:`b = M^\top u`, :math:`\beta = u^\top u` this is
    :math:`\|Mc + u\|^2`: the mean squared value of a polynomial with leading coefficient 1 when
    the columns of ``M`` and ``u`` are monomials on m points divided by :math:`\sqrt{m}`.

    ``gram`` (K, o, o) holds symmetric positive semidefinite matrices ``G``, ``linear`` (N, o) the
    vectors ``b``, whose entries beyond the prefix are ignored, ``constant`` (N,) the numbers
    ``beta``. ``prefix`` (N,) tells how many leading entries of ``c`` may be non-zero, int64 in
    [0, o], and ``owner`` (N,) which Gram matrix a row uses, int64 in [0, K). The ``radius`` of the
    ball is positive.

    Values come from the Gram matrix and carry the error that :meth:`rounding` estimates: that of
    an exactly vanishing polynomial may be slightly negative.
    """

    gram: Tensor
    linear: Tensor
    constant: Tensor
    prefix: Tensor
    owner: Tensor
    radius: float

    def __post_init__(self) -> None:
        _check(self)

    def __len__(self) -> int:
        return self.linear.shape[0]

    @property
    def width(self) -> int:
        """Length ``o`` of a coefficient vector."""
        return self.linear.shape[1]

    @cached_property
    def mask(self) -> Tensor:
        """Entries that may be non-zero, bool, shape (N, o)."""
        return torch.arange(self.width, device=self.linear.device) < self.prefix[:, None]

    @cached_property
    def is_full(self) -> bool:
        """Whether every entry of every row may be non-zero."""
        return bool((self.prefix == self.width).all())

    @cached_property
    def indicator(self) -> Tensor:
        """The mask as numbers 0 and 1, shape (N, o): multiplying is far faster than selecting."""
        return self.mask.to(self.linear.dtype)

    @cached_property
    def _stacked(self) -> Tensor:
        """The rows of all Gram matrices under each other, contiguous, shape (K * o, o)."""
        return self.gram.reshape(-1, self.width).contiguous()

    @cached_property
    def _row_offset(self) -> Tensor:
        """Where a row's Gram matrix begins among them, shape (N,)."""
        return self.owner * self.width

    @cached_property
    def _slots(self) -> tuple[Tensor, int]:
        """Place of every row in the (K, g, o) layout, flattened to K * g, and ``g``."""
        counts = torch.bincount(self.owner, minlength=self.gram.shape[0])  # (K,)
        tallest = int(counts.max())
        # place within the group: position among the sorted rows, less where the group begins
        order = torch.argsort(self.owner, stable=True)
        sorted_owner = self.owner[order]
        first = torch.cumsum(counts, 0) - counts
        rank = torch.arange(len(self), device=order.device) - first[sorted_owner]
        slots = torch.empty_like(order)
        slots[order] = sorted_owner * tallest + rank
        return slots, tallest

    def group(self, rows: Tensor) -> Tensor:
        """Lay rows (N, o) out by owner, padded with zeros to the largest group: (K, g, o)."""
        if self.gram.shape[0] == 1:  # a view: what changes the result in place changes the rows
            return rows[None]
        slots, tallest = self._slots
        groups = self.gram.shape[0]
        padded = rows.new_zeros(groups * tallest, self.width).index_copy_(0, slots, rows)
        return padded.view(groups, tallest, self.width)

    def ungroup(self, groups: Tensor) -> Tensor:
        """Undo :meth:`group`: (K, g, o) back to (N, o)."""
        if self.gram.shape[0] == 1:
            return groups[0]
        return groups.reshape(-1, self.width).index_select(0, self._slots[0])

    def product(self, c: Tensor) -> Tensor:
        """Compute ``G c`` of every row, shape (N, o)."""
        return self.ungroup(self.group(c) @ self.gram)

    def gram_rows(self, index: Tensor) -> Tensor:
        """Return row ``index[n]`` of the Gram matrix of row ``n``, shape (N, o)."""
        return self._stacked.index_select(0, self._row_offset + index.view(-1))

    def gram_entries(self, i: Tensor, j: Tensor) -> Tensor:
        """Return entry ``G[i[n], j[n]]`` of the Gram matrix of row ``n``, in the shape of ``i``."""
        flat = (self._row_offset + i.view(-1)) * self.width + j.view(-1)
        return self._stacked.view(-1).index_select(0, flat).view(i.shape)

    def gram_blocks(self, rows: Tensor, index: Tensor) -> Tensor:
        """Return blocks (n, q, q) of the Gram matrices of ``rows`` (n,) at ``index`` (n, q)."""
        first = (self._row_offset[rows, None] + index) * self.width
        return self._stacked.view(-1)[first[:, :, None] + index[:, None, :]]

    def value(self, c: Tensor) -> Tensor:
        """Compute ``f(c)`` of every row, shape (N,)."""
        return self.value_and_gradient(c)[0]

    def gradient(self, c: Tensor) -> Tensor:
        """Compute ``2 (G c + b)``, zero beyond the prefix, shape (N, o)."""
        return self.value_and_gradient(c)[1]

    def value_and_gradient(self, c: Tensor) -> tuple[Tensor, Tensor]:
        """Compute values (N,) and masked gradients (N, o) by one product with the Gram matrices."""
        slope = self.product(c) + self.linear
        value = (c * (slope + self.linear)).sum(1) + self.constant
        return value, slope.mul_(self.indicator).mul_(2.0)  # slope is ours: product made it

    def dual_gap(self, c: Tensor, gradient: Tensor) -> Tensor:
        r"""Compute the Frank-Wolfe gap, an upper bound on ``f(c) - min f`` in the ball, shape (N,).

        .. math:: \max_{\|v\|_1 \le r} \langle \nabla f(c), c - v \rangle
                  = \langle \nabla f(c), c \rangle + r \|\nabla f(c)\|_\infty .
        """
        gap: Tensor = (gradient * c).sum(1) + self.radius * gradient.abs().amax(1)
        return gap.clamp(min=0.0)  # at the optimum rounding may leave a negative number

    def rounding(self, c: Tensor) -> Tensor:
        r"""Estimate the rounding error in ``value(c)``, shape (N,).

        :math:`\epsilon (\sqrt{\beta} + \|c\|_1 \max_i \sqrt{G_{ii}})^2`, since no term of the
        sum is larger than that.
        """
        largest = self.gram.diagonal(dim1=1, dim2=2).amax(1).clamp(min=0.0)[self.owner]
        reach = c.abs().sum(1) * largest.sqrt()
        return torch.finfo(c.dtype).eps * (self.constant.abs().sqrt() + reach).square()

    def to(self, dtype: torch.dtype) -> LeastSquaresBatch:
        """Return the same problems in another precision."""
        gram, linear, constant = (x.to(dtype) for x in (self.gram, self.linear, self.constant))
        return LeastSquaresBatch(gram, linear, constant, self.prefix, self.owner, self.radius)

    def select(self, rows: Tensor) -> LeastSquaresBatch:
        """Return the sub-batch of the rows listed in ``rows``, with the Gram matrices they use."""
        owner, gram = self.owner[rows], self.gram
        # products pad to the largest group of every Gram matrix: unused ones would cost theirs
        if gram.shape[0] > 1 and rows.numel():
            present, owner = torch.unique(owner, return_inverse=True)
            gram = gram[present]
        return LeastSquaresBatch(
            gram, self.linear[rows], self.constant[rows], self.prefix[rows], owner, self.radius
        )


def _check(problem: LeastSquaresBatch) -> None:
    """Raise ValueError unless the tensors fit together and their entries are in range."""
    gram, linear = problem.gram, problem.linear
    refusal = partial(parameter_error, "LeastSquaresBatch")
    if gram.ndim != 3 or gram.shape[1] != gram.shape[2] or 0 in gram.shape:
        raise refusal("gram", "of shape (K, o, o) with K, o >= 1", tuple(gram.shape))
    if linear.ndim != 2 or linear.shape[1] != gram.shape[1]:
        raise refusal("linear", f"of shape (N, {gram.shape[1]}) to fit gram", tuple(linear.shape))
    if not gram.is_floating_point():
        raise refusal("gram", "a tensor of floating-point numbers", gram.dtype)
    dtypes = {"linear": gram.dtype, "constant": gram.dtype}
    for name, dtype in (dtypes | dict.fromkeys(("prefix", "owner"), torch.int64)).items():
        entries: Tensor = getattr(problem, name)
        if name != "linear" and entries.shape != linear.shape[:1]:
            raise refusal(name, f"of shape ({len(linear)},) to fit linear", tuple(entries.shape))
        if entries.dtype != dtype:
            raise refusal(name, f"of dtype {dtype}", entries.dtype)
        if entries.device != gram.device:
            raise refusal(name, f"on device {gram.device}, as gram is", entries.device)
    if not 0.0 < problem.radius < float("inf"):
        raise refusal("radius", "a finite number > 0", problem.radius)
    if len(problem) == 0:
        return
    for name, high in (("prefix", problem.width), ("owner", len(gram) - 1)):
        # both ends in one transfer: this is where the device is waited for
        least, most = torch.stack(torch.aminmax(getattr(problem, name))).tolist()
        if least < 0 or most > high:
            raise refusal(name, f"within [0, {high}]", f"values from {least} to {most}")


def project_to_ball(c: Tensor, radius: float, mask: Tensor | None = None) -> Tensor:
    r"""Find the nearest points of :math:`\{x : \|x\|_1 \le r,\ x = 0 \text{ off the mask}\}`.

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
    return scale_into_ball(torch.sign(c) * (size - threshold).clamp(min=0.0), radius)


def scale_into_ball(c: Tensor, radius: float) -> Tensor:
    """Divide rows that rounding has pushed out of the ball by their excess norm."""
    norm = c.abs().sum(1, keepdim=True)
    return c * (radius / norm.clamp(min=radius))
