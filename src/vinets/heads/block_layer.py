r"""The polynomial layer before pruning: one block of coefficients per class.

A generator of class :math:`k` is a leading term of its own plus a combination of that class's
order ideal. Stored so, :math:`N` polynomials take :math:`\sum_k |G_k|\,|O_k|` numbers; a matrix
over all terms of all classes would take tens of times as many.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from vinets.algebra.common_terms import term_moments, union_of_terms
from vinets.algebra.polynomials import PolynomialSet
from vinets.algebra.terms import TermSet
from vinets.heads.polynomial_layer import MonomialLayer


class BlockPolynomialLayer(MonomialLayer):
    """Absolute values of per-class polynomials: (..., n) to (..., N), class by class.

    In memory the blocks are padded to one size, so that one batched product evaluates them all;
    padding stays zero in training. Files hold the blocks themselves.

    ``columns[k]`` has the positions in ``terms``, which are without the constant, of the order
    ideal of class ``k``; ``leading`` (N,) those of the leading terms. Class ``k`` has ``counts[k]``
    generators.
    """

    activation = "abs"
    counts: tuple[int, ...]
    leading: Tensor
    columns: Tensor
    places: Tensor

    def __init__(
        self, terms: TermSet, columns: Sequence[Tensor], leading: Tensor, counts: Sequence[int]
    ) -> None:
        super().__init__(terms)
        self.counts = tuple(int(c) for c in counts)
        self.sizes = tuple(len(column) for column in columns)
        self.register_buffer("leading", leading)
        for k, column in enumerate(columns):
            self.register_buffer(f"columns_{k}", column)
        # Padding reads column S, which values() fills with zeros: its weights get no gradients.
        padded = pad_sequence([*columns], batch_first=True, padding_value=len(terms))
        self.register_buffer("columns", padded, persistent=False)
        rows = torch.arange(max(self.counts)) < torch.tensor(self.counts)[:, None]
        places = rows.flatten().nonzero()[:, 0].to(leading.device)
        self.register_buffer("places", places, persistent=False)
        self.weight = nn.Parameter(torch.zeros(*rows.shape, padded.shape[1]))
        self.lead = nn.Parameter(torch.zeros(len(places)))
        self.bias = nn.Parameter(torch.zeros(len(places)))
        self.register_state_dict_post_hook(_unpad)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_pad)  # type: ignore[no-untyped-call]

    @property
    def blocks(self) -> tuple[Tensor, ...]:
        """Return views of the coefficients over the order ideal of each class, (|G_k|, |O_k|)."""
        shapes = zip(self.counts, self.sizes, strict=True)
        return tuple(self.weight[k, :count, :size] for k, (count, size) in enumerate(shapes))

    @classmethod
    @torch.no_grad()
    def from_polynomials(cls, sets: Sequence[PolynomialSet], points: Tensor) -> Self:
        """Start from the generators of every class; ``points`` (m, n) give the statistics."""
        sets = [polynomials.compact() for polynomials in sets]
        terms, places = union_of_terms([t for p in sets for t in (p.terms, p.leading)])
        offset = len(terms.blocks[0])  # the constant is row 0, where there is one
        columns = [torch.from_numpy(at[at >= offset] - offset) for at in places[0::2]]
        leading = torch.from_numpy(np.concatenate(places[1::2]) - offset)
        terms = terms.select(np.arange(offset, len(terms)))
        layer = cls(terms, columns, leading, [len(p) for p in sets])
        mean, std = (m.cpu() for m in term_moments(terms, points))
        layer.set_moments(mean, std)
        for p, at, (rows, column, block) in zip(sets, places[0::2], layer._classes(), strict=True):
            tail, lead = p.tail.double().cpu(), p.lead.double().cpu()
            constant = tail[:, torch.from_numpy(at < offset)].sum(1)
            tail, own = tail[:, torch.from_numpy(at >= offset)], leading[rows]
            bias = constant + tail @ mean[column] + lead * mean[own]
            tail, lead = tail * std[column], lead * std[own]
            norm = (tail.square().sum(1) + lead.square()).sqrt().clamp_min(1e-30)
            block.copy_(tail / norm[:, None])  # into the padded weights, of which it is a view
            layer.lead[rows] = (lead / norm).to(layer.lead)
            layer.bias[rows] = (bias / norm).to(layer.bias)
        return layer

    def _classes(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Give rows among all polynomials, columns among the terms, and block of each class."""
        start = 0
        for k, block in enumerate(self.blocks):
            yield slice(start, start + len(block)), self.get_buffer(f"columns_{k}"), block
            start += len(block)

    @torch.no_grad()
    def draw(self, generator: torch.Generator) -> None:
        """Draw rows of unit norm in place of polynomials."""
        lead = torch.randn(self.lead.shape, generator=generator)
        for rows, _, block in self._classes():
            tail = torch.randn(block.shape, generator=generator)
            norm = (tail.square().sum(1) + lead[rows].square()).sqrt()
            block.copy_(tail / norm[:, None])
            lead[rows] /= norm
        self.lead.copy_(lead)

    def values(self, z: Tensor) -> Tensor:
        m = self.scaled(z)
        own = F.pad(m, (0, 1))[..., self.columns]  # (..., K, width)
        padded = torch.einsum("...ko,kgo->...kg", own, self.weight).flatten(-2)
        tails = padded.index_select(-1, self.places)
        return tails + self.lead * m.index_select(-1, self.leading) + self.bias

    def leading_coefficients(self) -> Tensor:
        return self.folded().lead.double()

    @torch.no_grad()
    def folded(self) -> Self:
        plain, (shift, scale) = copy.deepcopy(self), self.moments()
        plain.set_moments(torch.zeros_like(shift), torch.ones_like(scale))
        lead = self.lead.double() / scale[self.leading]
        bias = self.bias.double() - lead * shift[self.leading]
        for (rows, column, block), target in zip(self._classes(), plain.blocks, strict=True):
            weight = block.double() / scale[column]
            bias[rows] -= weight @ shift[column]
            target.copy_(weight)
        plain.lead.copy_(lead)
        plain.bias.copy_(bias)
        return plain

    @property
    @torch.no_grad()
    def coefficients(self) -> Tensor:
        """The coefficients as one matrix (N, S) over all terms, mostly zeros."""
        matrix = self.lead.new_zeros(len(self.lead), len(self.monomials.terms))
        for rows, column, block in self._classes():
            matrix[rows, column] = block
        matrix[torch.arange(len(matrix), device=matrix.device), self.leading] += self.lead
        return matrix

    def config(self) -> dict[str, object]:
        facts = {"kind": "blocks", "n_variables": self.monomials.terms.n_variables}
        return facts | {"counts": list(self.counts), "sizes": list(self.sizes)}


def _unpad(layer: BlockPolynomialLayer, state: dict[str, Tensor], prefix: str, _: Any) -> None:
    """Write the blocks in place of the padded weights."""
    state.pop(f"{prefix}weight")
    for k, block in enumerate(layer.blocks):
        state[f"{prefix}blocks.{k}"] = block.detach().contiguous()


def _pad(layer: BlockPolynomialLayer, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Read the padded weights from the blocks."""
    weight = torch.zeros_like(layer.weight)
    for k, shape in enumerate(zip(layer.counts, layer.sizes, strict=True)):
        block = state.pop(f"{prefix}blocks.{k}", None)
        if block is None or block.shape != shape:
            return  # loading then names what is missing
        weight[k, : shape[0], : shape[1]] = block
    state[f"{prefix}weight"] = weight
