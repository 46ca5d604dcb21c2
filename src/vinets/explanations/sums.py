r"""A head of polynomials as the sum that its logits are.

.. math:: \ell_k = b_k + \sum_p \Bigl(\sum_j W_{kj}\, v_{jp} + S_{kp}\Bigr)

with :math:`v_{jp} = s_{jp}\,u_j(h_p)`, what polynomial :math:`j` gives at position :math:`p` times
the weight of that position, and :math:`S` the linear path, where there is one. A global head has
one position for all of its polynomials.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vinets.algebra.terms import term_name
from vinets.heads import Head, PolynomialHead, ProductsHead
from vinets.heads.local import LocalPolynomials

MAX_TERMS_SHOWN = 4  # terms of a polynomial that are written, the most influential ones


class HeadSum(ABC):
    """A folded head in float64, taken apart. See the module for the letters."""

    local: bool = True  # there are polynomials at every position
    names: tuple[str, ...]  # names of the n variables

    def __init__(self, head: Any) -> None:
        self.head = head.folded().double().eval()
        self.weight = self.head.linear.weight.detach()  # W (K, N)
        self.bias = self.head.linear.bias.detach()  # b (K,)

    @abstractmethod
    def variables(self, latents: Tensor) -> Tensor:
        """Return the points at which the polynomials are evaluated, (B, P, n)."""

    @abstractmethod
    def values(self, variables: Tensor) -> Tensor:
        """Evaluate every polynomial at every position, weighted: v (B, P, N)."""

    def path(self, latents: Tensor) -> Tensor:
        """Return logits of the linear path by position, S (B, P, K); (B, 1, K) zeros without."""
        return self.bias.new_zeros(len(latents), 1, len(self.bias))

    @abstractmethod
    def spread_of(self, variables: Tensor) -> Tensor:
        """Return values (..., T) whose deviations say how much a term matters."""

    @abstractmethod
    def write(self, index: int, mean: Tensor, spread: Tensor) -> str:
        """Write the most influential terms of a polynomial, and count those left out.

        ``mean`` (T,) and ``spread`` (T,) are those of the terms over examples.
        """


def head_sum(head: Head) -> HeadSum:
    """Take a head of polynomials apart; others are refused."""
    if isinstance(head, ProductsHead):
        return _Products(head)
    if isinstance(head, PolynomialHead):
        return _Polynomials(head)
    raise ValueError(
        f"A head of kind {head.kind!r} is no sum of polynomials. Pass a VI-Net, or a network with "
        "a product head."
    )


class _Products(HeadSum):
    """Products of forms: written as such, in standardised channels."""

    def __init__(self, head: ProductsHead) -> None:
        super().__init__(head)
        self.names = tuple(f"c{i}" for i in range(head.shape[0]))

    def variables(self, latents: Tensor) -> Tensor:
        return latents.double().mT

    def values(self, variables: Tensor) -> Tensor:
        head = self.head
        return head.units(head.forms(variables)) * head.spatial.matrix()

    def spread_of(self, variables: Tensor) -> Tensor:
        return variables

    def write(self, index: int, mean: Tensor, spread: Tensor) -> str:
        shape = (self.head.factors, self.head.count)
        rows = self.head.forms.weight.detach().unflatten(0, shape)[:, index]
        biases = self.head.forms.bias.detach().unflatten(0, shape)[:, index]
        forms = [
            written(row * spread, float(b + row @ mean), row * spread, self.names)
            for row, b in zip(rows, biases, strict=True)
        ]
        return forms[0] if len(forms) == 1 else " · ".join(f"({form})" for form in forms)


class _Polynomials(HeadSum):
    """Absolute values of polynomials over shared terms."""

    def __init__(self, head: PolynomialHead) -> None:
        super().__init__(head)
        self.local = head.local
        terms = self.head.polynomials.monomials.terms
        n, channels = terms.n_variables, 0
        if isinstance(head, LocalPolynomials) and head.channels:
            channels = n if head.projection is None else head.projection.weight.shape[1]
        kinds = {"c": channels, "z": n - channels}
        self.names = tuple(f"{letter}{i}" for letter, count in kinds.items() for i in range(count))
        self.terms = [term_name(row, self.names) for block in terms.blocks for row in block]

    def variables(self, latents: Tensor) -> Tensor:
        z = self.head.variables(latents.double())
        return z if self.local else z[:, None]

    def values(self, variables: Tensor) -> Tensor:
        values = self.head.polynomials(variables)
        spatial = getattr(self.head, "spatial", None)
        return values if spatial is None else values * spatial.weight

    def path(self, latents: Tensor) -> Tensor:
        if self.head.path is None:
            return super().path(latents)
        channels, positions, _, classes = self.head.path.shape
        matrix = self.head.path.matrix().detach().view(classes, channels, positions)
        return torch.einsum("kcp,bcp->bpk", matrix, latents.double())

    def spread_of(self, variables: Tensor) -> Tensor:
        return self.head.polynomials.monomials(variables)

    def write(self, index: int, mean: Tensor, spread: Tensor) -> str:
        layer = self.head.polynomials
        row = layer.coefficients[index].detach()
        # A block layer is folded to shift 0 and scale 1, a shared one to none.
        text = written(row, float(layer.bias[index].detach()), row * spread, self.terms)
        return {"abs": f"|{text}|", "relu": f"max(0, {text})"}.get(layer.activation, text)


def written(
    row: Tensor,
    constant: float,
    influence: Tensor,
    names: Sequence[str],
    most: int = MAX_TERMS_SHOWN,
) -> str:
    """Write a polynomial of given coefficients, its ``most`` influential terms first.

    Examples
    --------
    >>> row = torch.tensor([0.5, -2.0, 0.0, 0.01])
    >>> written(row, 1.0, row, ["x", "y", "z", "w"], most=2)
    '-2 y + 0.5 x + 1 + … 1 more'
    """
    order = np.argsort(-influence.abs().cpu().numpy(), kind="stable")[:most].tolist()
    kept = [i for i in order if row[i] != 0]
    parts = [(float(row[i]), f" {names[i]}") for i in kept]
    text = ""
    for coefficient, name in parts + [(constant, "")] * bool(constant):
        sign = "-" if coefficient < 0 else "+"
        text += f" {sign} " if text else sign * (coefficient < 0)
        text += f"{abs(coefficient):.2g}{name}"
    left = int((row != 0).sum()) - len(kept)
    return (text or "0") + (f" + … {left} more" if left else "")
