r"""The polynomial layer before pruning: one block of coefficients per class.

A generator of class :math:`k` is a leading term of its own plus a combination of that class's
order ideal. Stored so, :math:`N` polynomials take :math:`\sum_k |G_k|\,|O_k|` numbers; a matrix
over all terms of all classes would take tens of times as many.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.algebra.polynomials import PolynomialSet
from vinets.algebra.shared import term_moments, union_of_terms
from vinets.algebra.terms import TermSet
from vinets.nn.monomials import Monomials

__all__ = ["BlockPolynomialLayer"]


class BlockPolynomialLayer(nn.Module):
    """Absolute values of per-class polynomials: (..., n) to (..., N), class by class.

    Parameters
    ----------
    terms : TermSet
        All monomials, without the constant.
    columns : sequence of Tensor
        ``columns[k]``: positions in ``terms`` of the order ideal of class ``k``.
    leading : Tensor of shape (N,)
        Positions in ``terms`` of the leading terms; N minus those of a class with constant
        leading term, which no ideal has.
    counts : sequence of int
        Generators of each class.
    """

    activation = "abs"

    def __init__(
        self, terms: TermSet, columns: Sequence[Tensor], leading: Tensor, counts: Sequence[int]
    ) -> None:
        super().__init__()
        self.monomials = Monomials(terms)
        self.counts = tuple(int(c) for c in counts)
        total = sum(self.counts)
        self.leading: Tensor
        self.shift: Tensor
        self.scale: Tensor
        self.register_buffer("leading", leading)
        self.register_buffer("shift", torch.zeros(len(terms)))
        self.register_buffer("scale", torch.ones(len(terms)))
        for k, column in enumerate(columns):
            self.register_buffer(f"columns_{k}", column)
        self.blocks = nn.ParameterList(
            nn.Parameter(torch.zeros(count, len(column)))
            for count, column in zip(self.counts, columns, strict=True)
        )
        self.lead = nn.Parameter(torch.zeros(total))
        self.bias = nn.Parameter(torch.zeros(total))

    @classmethod
    def from_polynomials(
        cls, sets: Sequence[PolynomialSet], points: Tensor
    ) -> BlockPolynomialLayer:
        """Start from the generators of every class; ``points`` (m, n) give the statistics."""
        sets = [polynomials.compact() for polynomials in sets]
        terms, places = union_of_terms([t for p in sets for t in (p.terms, p.leading)])
        offset = len(terms.blocks[0])  # the constant is row 0, where there is one
        columns = [torch.from_numpy(at[at >= offset] - offset) for at in places[0::2]]
        leading = torch.from_numpy(np.concatenate(places[1::2]) - offset)
        terms = terms.select(np.arange(offset, len(terms)))
        layer = cls(terms, columns, leading, [len(p) for p in sets])
        mean, std = (m.cpu() for m in term_moments(terms, points))
        layer.shift.copy_(mean)
        layer.scale.copy_(std)
        layer._set(sets, places[0::2], offset, mean, std)
        return layer

    @torch.no_grad()
    def _set(
        self,
        sets: Sequence[PolynomialSet],
        places: Sequence[np.ndarray],
        offset: int,
        mean: Tensor,
        std: Tensor,
    ) -> None:
        start = 0
        for k, (polynomials, at) in enumerate(zip(sets, places, strict=True)):
            rows = slice(start, start + len(polynomials))
            tail, lead = polynomials.tail.double().cpu(), polynomials.lead.double().cpu()
            own = self.leading[rows].cpu()
            constant = tail[:, torch.from_numpy(at < offset)].sum(1)
            tail = tail[:, torch.from_numpy(at >= offset)]
            column = self.get_buffer(f"columns_{k}").cpu()
            bias = constant + tail @ mean[column] + lead * mean[own]
            tail, lead = tail * std[column], lead * std[own]
            norm = (tail.square().sum(1) + lead.square()).sqrt().clamp_min(1e-30)
            self.blocks[k].copy_(tail / norm[:, None])
            self.lead[rows] = (lead / norm).to(self.lead)
            self.bias[rows] = (bias / norm).to(self.bias)
            start += len(polynomials)

    def values(self, z: Tensor) -> Tensor:
        """The polynomials without the absolute value, (..., N)."""
        if z.dtype in (torch.float16, torch.bfloat16):
            z = z.float()
        m = (self.monomials(z) - self.shift) / self.scale
        parts = [
            F.linear(m.index_select(-1, self.get_buffer(f"columns_{k}")), block)
            for k, block in enumerate(self.blocks)
        ]
        return torch.cat(parts, -1) + self.lead * m.index_select(-1, self.leading) + self.bias

    def forward(self, z: Tensor) -> Tensor:
        return self.values(z).abs()

    @torch.no_grad()
    def folded(self) -> BlockPolynomialLayer:
        """The same outputs with plain coefficients: shift 0 and scale 1."""
        columns = [self.get_buffer(f"columns_{k}") for k in range(len(self.counts))]
        plain = BlockPolynomialLayer(self.monomials.terms, columns, self.leading, self.counts)
        plain.to(self.lead.device, self.lead.dtype)
        shift, scale = self.shift.double(), self.scale.double()
        lead = self.lead.double() / scale[self.leading]
        bias = self.bias.double() - lead * shift[self.leading]
        start = 0
        for column, block, target in zip(columns, self.blocks, plain.blocks, strict=True):
            weight = block.double() / scale[column]
            bias[start : start + len(block)] -= weight @ shift[column]
            target.copy_(weight)
            start += len(block)
        plain.lead.copy_(lead)
        plain.bias.copy_(bias)
        return plain.train(self.training)

    @torch.no_grad()
    def dense(self) -> Tensor:
        """The coefficients as one matrix (N, S) over all terms, mostly zeros."""
        matrix = self.lead.new_zeros(len(self.lead), len(self.shift))
        start = 0
        for k, block in enumerate(self.blocks):
            matrix[start : start + len(block), self.get_buffer(f"columns_{k}")] = block
            start += len(block)
        matrix[torch.arange(start, device=matrix.device), self.leading] += self.lead
        return matrix

    def parts(self) -> dict[str, int]:
        """Stored numbers: integer indices of monomials and blocks, and coefficients."""
        indices = sum(block.size for block in self.monomials.terms.blocks) + len(self.leading)
        indices += sum(block.shape[1] for block in self.blocks)
        count = sum(p.numel() for p in self.parameters()) + 2 * len(self.shift)
        return {"monomials": indices, "coefficients": count}

    def config(self) -> dict[str, object]:
        """What :meth:`from_config` needs besides the state."""
        return {
            "kind": "blocks",
            "n_variables": self.monomials.terms.n_variables,
            "counts": list(self.counts),
            "sizes": [block.shape[1] for block in self.blocks],
        }
