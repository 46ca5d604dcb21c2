r"""Monomials, and the polynomial layer :math:`|C\,m(z)|` on them.

While training, monomials are standardised and the rows of the coefficient matrix start at unit
norm. Both are linear, so they fold into plain coefficients and a bias when training is over.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.algebra.common_terms import SharedPolynomials
from vinets.algebra.evaluation import EvaluationPlan
from vinets.algebra.polynomial import Polynomial
from vinets.algebra.terms import TermSet
from vinets.core.checks import one_of

ACTIVATIONS = ("abs", "relu")


class Monomials(nn.Module):
    """Evaluate a set of terms by gathering: (..., n) to (..., S).

    A term is its parent times one variable; see :mod:`vinets.algebra.evaluation`. The layer
    compiles without graph breaks and exports to plain gathers and products. Half precision becomes
    float32. The constant term is not allowed: it belongs into a bias.

    Examples
    --------
    >>> layer = Monomials(TermSet.from_exponents([[1, 0], [2, 1]]))
    >>> layer(torch.tensor([[2.0, 3.0]]))
    tensor([[ 2., 12.]])
    """

    def __init__(self, terms: TermSet) -> None:
        super().__init__()
        if len(terms) == 0 or len(terms.blocks[0]):
            raise ValueError("Monomials takes terms of degree 1 and more; use a bias for 1.")
        self.terms = terms
        plan = EvaluationPlan.of(terms)
        self.depth = len(plan.steps)
        self.multiplications = sum(len(parent) for parent, _ in plan.steps[1:])
        for degree, block in enumerate(terms.blocks[1:], 1):  # what is saved
            self.register_buffer(f"terms_{degree}", torch.from_numpy(block))
        for degree, (parent, variable) in enumerate(plan.steps, 1):  # what is computed with
            self.register_buffer(f"parent_{degree}", torch.from_numpy(parent), persistent=False)
            self.register_buffer(f"variable_{degree}", torch.from_numpy(variable), persistent=False)
        # Row 0 of the plan is the constant, which is not evaluated here.
        rows = np.arange(sum(len(parent) for parent, _ in plan.steps))
        outputs = rows if plan.outputs is None else plan.outputs - 1
        wanted = np.array_equal(outputs, rows)
        # All variables in their order are their own monomials.
        every = np.arange(terms.n_variables)[:, None]
        self.variables_only = len(terms.blocks) == 2 and np.array_equal(terms.blocks[1], every)
        self.outputs: Tensor | None
        kept = None if wanted else torch.from_numpy(outputs)
        self.register_buffer("outputs", kept, persistent=False)

    def forward(self, z: Tensor) -> Tensor:
        if z.dtype in (torch.float16, torch.bfloat16):
            z = z.float()  # products of rounded numbers would be rounded at every degree
        if self.variables_only:
            return z
        columns = z.reshape(-1, z.shape[-1]).mT.contiguous()  # (n, m): gathers copy whole rows
        levels = [columns.index_select(0, self.get_buffer("variable_1"))]
        for degree in range(2, self.depth + 1):
            parent = levels[-1].index_select(0, self.get_buffer(f"parent_{degree}"))
            factor = columns.index_select(0, self.get_buffer(f"variable_{degree}"))
            levels.append(parent * factor)
        values = torch.cat(levels) if len(levels) > 1 else levels[0]
        if self.outputs is not None:
            values = values.index_select(0, self.outputs)
        return values.mT.reshape(*z.shape[:-1], len(self.terms))

    @staticmethod
    def terms_of(state: Mapping[str, Tensor], prefix: str, n_variables: int) -> TermSet:
        """Read the terms that a state dict holds under ``prefix``, and check them."""
        blocks = {"t.0": torch.zeros(0, 0, dtype=torch.int64)}
        while (block := state.get(f"{prefix}terms_{len(blocks)}")) is not None:
            blocks[f"t.{len(blocks)}"] = block.cpu()
        if len(blocks) == 1:
            raise ValueError(f"the saved network has no terms under {prefix!r}.")
        return TermSet.from_tensors(n_variables, "t", blocks)


class SizeWatch:
    """Base of modules that tell training how large their polynomials are on a batch."""

    watched = False  # whether training asks
    seen: list[Tensor]  # sizes (B, N) in the last forward pass, in parts
    owners: Any  # the class (N,) that each polynomial is to vanish on

    def vanishing_loss(self, labels: Tensor) -> Tensor:
        """Return the mean size of polynomials on their class, as a share of that on the others.

        The sizes are those of the last forward pass in training, which are forgotten. The result is
        a mean over the polynomials whose class is among the ``labels`` (B,).
        """
        sizes, self.seen = torch.cat(self.seen).float(), []
        own = (labels[:, None] == self.owners).to(sizes)  # (B, N)
        inside = (sizes * own).sum(0) / own.sum(0).clamp_min(1)
        outside = (sizes * (1 - own)).sum(0) / (1 - own).sum(0).clamp_min(1)
        met = own.any(0)
        return ((inside / (outside + 1e-6)) * met).sum() / met.sum().clamp_min(1)


class MonomialLayer(SizeWatch, nn.Module, ABC):
    """Base of polynomial layers: monomials (m - mean) / std, standardised in training.

    Monomials of different degree differ in size by orders of magnitude. A folded layer may do
    without the two statistics, which are then None.
    """

    weight: nn.Parameter
    bias: nn.Parameter
    activation: str  # what is applied to the values, one of ACTIVATIONS
    shift: Tensor | None
    scale: Tensor | None
    counts: tuple[int, ...] | None  # polynomials of every class, which stand class by class
    leading: Tensor | None  # positions (N,) of the leading terms; -1 where a term was dropped

    def __init__(self, terms: TermSet, *, standardized: bool = True) -> None:
        super().__init__()
        self.monomials = Monomials(terms)
        self.seen = []
        self.register_buffer("shift", torch.zeros(len(terms)) if standardized else None)
        self.register_buffer("scale", torch.ones(len(terms)) if standardized else None)

    def set_moments(self, mean: Tensor, std: Tensor) -> None:
        """Standardise the monomials with these statistics from now on."""
        assert self.shift is not None and self.scale is not None  # the layer is not folded
        self.shift.copy_(mean)
        self.scale.copy_(std)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation in float64, to fold; 0 and 1 where there are none."""
        if self.shift is None or self.scale is None:
            ones = self.bias.new_ones(len(self.monomials.terms), dtype=torch.float64)
            return torch.zeros_like(ones), ones
        return self.shift.double(), self.scale.double()

    @abstractmethod
    def values(self, z: Tensor) -> Tensor:
        """Return the polynomials without the absolute value, (..., N)."""

    def activated(self, y: Tensor) -> Tensor:
        """Return absolute values, or positive parts."""
        if self.activation == "abs":
            # These are the same values, and the gradient takes one pass instead of two.
            return F.leaky_relu(y, -1.0) if self.training else y.abs()
        return y.relu()

    def forward(self, z: Tensor) -> Tensor:
        return self.watch(self.activated(self.values(z)))

    def scaled(self, z: Tensor) -> Tensor:
        """Return the standardised monomials of points (..., n), as (..., S)."""
        m: Tensor = self.monomials(z)
        if self.shift is not None and self.scale is not None:
            m = (m - self.shift).div_(self.scale)
        return m.to(self.bias.dtype)  # which may be half, outside of autocast

    @property
    def owners(self) -> Tensor | None:
        """The class (N,) whose ideal each polynomial is a generator of; None without ideals."""
        if self.counts is None:
            return None
        return torch.repeat_interleave(torch.tensor(self.counts)).to(self.bias.device)

    @torch.no_grad()
    def polynomials(self, label: int) -> list[Polynomial]:
        """Return the generators of a class as they are now, with leading coefficient 1.

        Where the leading term was dropped, a polynomial is returned as it is evaluated.
        """
        owners, lead = self.owners, self.leading_coefficients()
        if owners is None or lead is None:
            raise ValueError("these polynomials are not known as generators of classes.")
        plain, terms = self.folded(), self.monomials.terms
        table, constants = plain.coefficients.double(), plain.bias.double()
        rows = [tuple(row.tolist()) for block in terms.blocks for row in block]
        names, generators = tuple(f"x{i}" for i in range(terms.n_variables)), []
        for j in (owners == label).nonzero()[:, 0].tolist():
            factor = 1 / float(lead[j]) if lead[j] else 1.0
            values = [factor * c for c in table[j].tolist()]
            used = [i for i in reversed(range(len(rows))) if values[i]]
            first = int(self.leading[j]) if self.leading is not None else -1
            used.sort(key=lambda i: i != first)  # the leading term comes first
            coefficients = (*(values[i] for i in used), factor * float(constants[j]))
            generators.append(Polynomial((*(rows[i] for i in used), ()), coefficients, names))
        return generators

    def leading_coefficients(self) -> Tensor | None:
        """Return those (N,) of the leading terms in float64, if known; 0 where one was dropped."""
        if self.leading is None:
            return None
        table = self.folded().coefficients.double()
        values = table.gather(1, self.leading.clamp_min(0)[:, None])[:, 0]
        return values * (self.leading >= 0)

    @property
    @abstractmethod
    def coefficients(self) -> Tensor:
        """The coefficients that are used, (N, S), of terms that may be standardised."""

    @abstractmethod
    def folded(self) -> Self:
        """Return a layer of plain coefficients and a bias with the same outputs."""

    def parts(self) -> dict[str, int]:
        """Count parameters, and apart from them the indices of monomials, as files hold them."""
        state = {k: t for k, t in self.state_dict().items() if "num_batches" not in k}
        indices = sum(t.numel() for t in state.values() if t.dtype == torch.int64)
        numbers = sum(t.numel() for t in state.values() if t.is_floating_point())
        return {"monomials": indices, "coefficients": numbers}

    @abstractmethod
    def config(self) -> dict[str, object]:
        """Return the arguments that make the layer again, apart from its state."""

    def watch(self, y: Tensor) -> Tensor:
        """Keep the mean squares over positions of values (B, ..., N) where training asks."""
        if self.watched and self.training:
            self.seen.append(y.float().square().reshape(len(y), -1, y.shape[-1]).mean(1))
        return y


class PolynomialLayer(MonomialLayer):
    r"""Absolute values of polynomials of the last dimension: (..., n) to (..., N).

    .. math:: y_j = \Bigl| b_j + \sum_s A_{js}\, \frac{m_s(z) - \mu_s}{\sigma_s} \Bigr|

    Of ``terms``, without the constant, there are ``S``, and ``count`` is ``N``. It holds
    :math:`\mu` and :math:`\sigma` if ``standardized``, which a folded layer is not; a mask of the
    coefficients that may be non-zero if ``masked``; and batch normalisation before the absolute
    value if ``normalized``. Another ``activation`` is ``"relu"``, the control without vanishing
    semantics. Of generators, ``counts`` tells how many there are of each class, and ``leading`` is
    to hold the positions of their leading terms.

    Examples
    --------
    >>> terms = TermSet.from_exponents([[1, 0], [0, 1], [2, 0]])
    >>> layer = PolynomialLayer(terms, 4)
    >>> layer(torch.zeros(5, 2)).shape
    torch.Size([5, 4])
    """

    def __init__(
        self,
        terms: TermSet,
        count: int,
        *,
        standardized: bool = True,
        masked: bool = False,
        normalized: bool = False,
        activation: str = "abs",
        counts: Sequence[int] | None = None,
        leading: bool = False,
    ) -> None:
        super().__init__(terms, standardized=standardized)
        self.counts = None if counts is None else tuple(map(int, counts))
        self.register_buffer("leading", torch.zeros(count, dtype=torch.int64) if leading else None)
        self.activation = one_of("PolynomialLayer", "activation", activation, ACTIVATIONS)
        size = len(terms)
        self.weight = nn.Parameter(torch.randn(count, size) / size**0.5)
        self.bias = nn.Parameter(torch.zeros(count))
        self.mask: Tensor | None
        self.register_buffer("mask", torch.ones(count, size, dtype=torch.bool) if masked else None)
        self.norm = nn.BatchNorm1d(count) if normalized else None

    @classmethod
    def from_polynomials(
        cls,
        polynomials: SharedPolynomials,
        moments: tuple[Tensor, Tensor],
        *,
        classes: int | None = None,
        sparse: bool = False,
        **options: Any,
    ) -> PolynomialLayer:
        """Start from polynomials, up to a positive factor each.

        ``moments`` are mean and standard deviation of every term, each (S,); see
        :func:`vinets.algebra.common_terms.term_moments`. Where they are generators of that many
        ``classes``, the layer remembers which is of which. Where ``sparse``, coefficients that are
        zero now stay zero. The other ``options`` are those of the class.
        """
        if classes is not None:
            options["counts"] = torch.bincount(polynomials.owners, minlength=classes).tolist()
        layer = cls(polynomials.terms, len(polynomials), masked=sparse, **options)
        if polynomials.leading is not None:
            layer.register_buffer("leading", polynomials.leading.cpu().clone())
        mean, std = (m.double().cpu() for m in moments)
        plain = polynomials.coefficients.double().cpu()
        weight = plain * std
        bias = polynomials.constants.double().cpu() + plain @ mean
        norm = weight.norm(dim=1).clamp_min(1e-30)
        with torch.no_grad():
            layer.weight.copy_(weight / norm[:, None])
            layer.bias.copy_(bias / norm)
        layer.set_moments(mean, std)
        if layer.mask is not None:
            layer.mask.copy_(plain != 0)
        return layer

    @torch.no_grad()
    def draw(self, generator: torch.Generator) -> None:
        """Draw rows of unit norm in place of polynomials."""
        weight = torch.randn(self.weight.shape, generator=generator)
        self.weight.copy_(weight / weight.norm(dim=1, keepdim=True))

    @torch.no_grad()
    def behind_channels(self, channels: int, seed: int) -> PolynomialLayer:
        """Return the same polynomials behind ``channels`` new variables, plus forms in these.

        The linear forms start at random rows of unit norm; the new variables are standardised.
        """
        old = self.monomials.terms
        first = np.concatenate([np.arange(channels)[:, None], old.blocks[1] + channels])
        blocks = [old.blocks[0], first, *(block + channels for block in old.blocks[2:])]
        options: Any = self.config()
        del options["kind"], options["n_variables"]
        wide = PolynomialLayer(TermSet(old.n_variables + channels, tuple(blocks)), **options)
        if wide.leading is not None and self.leading is not None:
            wide.leading.copy_(torch.where(self.leading < 0, -1, self.leading + channels))
        wide.draw(torch.Generator().manual_seed(seed))
        linear = wide.weight[:, :channels]
        linear /= linear.norm(dim=1, keepdim=True)  # a view, so that this changes the layer
        wide.weight[:, channels:] = self.weight
        wide.bias.copy_(self.bias)
        if self.mask is not None and wide.mask is not None:
            wide.mask[:, channels:] = self.mask
        mean, std = self.moments()
        zeros = torch.zeros(channels)
        wide.set_moments(torch.cat([zeros, mean]), torch.cat([zeros + 1, std]))
        return wide

    @property
    def coefficients(self) -> Tensor:
        return self.weight if self.mask is None else self.weight * self.mask

    def affine(self, m: Tensor) -> tuple[Tensor, Tensor] | None:
        r"""Return weight (N, S) and bias (N,) from a batch ``m`` of monomials to normalised values.

        Mean and variance of :math:`a^\top m` are :math:`a^\top\mu` and :math:`a^\top\Sigma\,a`.
        On a CPU, moments of a few monomials cost less than reading all values again to normalise
        them. None where that is to be done.
        """
        norm, weight = self.norm, self.coefficients
        if norm is None:
            return weight, self.bias
        if not (self.training and m.is_cpu and 2 * weight.shape[1] <= weight.shape[0]):
            return None
        with torch.autocast("cpu", enabled=False):
            rows = m.flatten(0, -2)
            mean, covariance = batch_moments(rows)
            centre = weight @ mean + self.bias
            variance = ((weight @ covariance) * weight).sum(1).clamp_min(0)
            assert norm.running_mean is not None and norm.running_var is not None
            assert norm.num_batches_tracked is not None and norm.momentum is not None
            with torch.no_grad():  # statistics move as batch normalisation moves them
                norm.num_batches_tracked += 1
                norm.running_mean.lerp_(centre, norm.momentum)
                unbiased = variance * (len(rows) / max(1, len(rows) - 1))
                norm.running_var.lerp_(unbiased, norm.momentum)
            gain = norm.weight * (variance + norm.eps).rsqrt()
            return gain[:, None] * weight, gain * (self.bias - centre) + norm.bias

    def values_on(self, m: Tensor) -> Tensor:
        """Return the polynomials of standardised monomials (..., S), without the absolute value."""
        affine = self.affine(m)
        if affine is not None:
            return F.linear(m, *affine)
        assert self.norm is not None
        y = F.linear(m, self.coefficients, self.bias)
        return self.norm(y.flatten(0, -2)).view_as(y)

    def values(self, z: Tensor) -> Tensor:
        return self.values_on(self.scaled(z))

    @torch.no_grad()
    def folded(self) -> Self:
        mean, std = self.moments()
        weight = self.coefficients.double() / std
        bias = self.bias.double() - weight @ mean
        if self.norm is not None:
            gain, offset = affine_of(self.norm)
            weight, bias = gain[:, None] * weight, gain * bias + offset
        plain = copy.deepcopy(self)
        plain.weight.copy_(weight)
        plain.bias.copy_(bias)
        plain.shift = plain.scale = plain.mask = plain.norm = None
        return plain

    def config(self) -> dict[str, object]:
        return {
            "kind": "shared",
            "n_variables": self.monomials.terms.n_variables,
            "count": len(self.weight),
            "standardized": self.shift is not None,
            "masked": self.mask is not None,
            "normalized": self.norm is not None,
            "activation": self.activation,
            **({} if self.counts is None else {"counts": list(self.counts)}),
            **({} if self.leading is None else {"leading": True}),
        }


def batch_moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean (n,) and the covariance (n, n) of the rows (m, n) of a batch."""
    mean = rows.mean(0)
    centred = rows - mean  # a difference of two sums would lose digits
    return mean, centred.mT @ centred / len(rows)


def affine_of(norm: nn.BatchNorm1d) -> tuple[Tensor, Tensor]:
    """Return gain and offset of batch normalisation in eval mode, in float64."""
    if norm.running_mean is None or norm.running_var is None:
        raise ValueError("batch normalisation without running statistics cannot be folded.")
    gain = 1 / (norm.running_var.double() + norm.eps).sqrt()
    if not norm.affine:
        return gain, -gain * norm.running_mean.double()
    gain = norm.weight.double() * gain
    return gain, norm.bias.double() - gain * norm.running_mean.double()
