r"""How far a point is from every class: the Christoffel functions of the classes, as a module.

With :math:`v(x)` the monomials of a point, and mean :math:`\mu_c` and covariance :math:`S_c` of
them on class :math:`c`,

.. math:: K_c(x) = 1 + (v(x) - \mu_c)^\top (S_c + \varepsilon I)^{-1} (v(x) - \mu_c)
                 = 1 + \sum_i \frac{p_i(x)^2}{\lambda_i + \varepsilon},

where :math:`p_i` are the eigenvectors of :math:`S_c` as polynomials and :math:`\lambda_i` their
mean squares on the class. Those with a small one, which nearly vanish, weigh most. With
:math:`\varepsilon = 0` this is the Christoffel function of the class; degree 1 is Mahalanobis's
distance. Any square root of the inverse gives the same sum, so that a triangular one is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vinets.algebra.terms import TermSet
from vinets.heads.polynomial_layer import Monomials


class ClassDistances(nn.Module):
    """Features (B, D) to the values K of every class (B, classes), each 1 or more.

    Parameters
    ----------
    features : int
        Width D of what it sees: latents, averaged over positions.
    terms : TermSet
        Monomials in tanh of the components.
    classes : int
        Number of classes.
    shared : bool, default=False
        Whether all classes have one matrix.

    Notes
    -----
    A new one has zeros; :func:`vinets.scores.fit_distances` fills them in.
    """

    def __init__(
        self, features: int, terms: TermSet, classes: int, *, shared: bool = False
    ) -> None:
        super().__init__()
        self.classes = classes
        self.monomials = Monomials(terms)
        size = len(terms)
        self.weight: Tensor
        self.bias: Tensor
        self.forms: Tensor
        self.offsets: Tensor
        self.register_buffer("weight", torch.zeros(terms.n_variables, features))
        self.register_buffer("bias", torch.zeros(terms.n_variables))
        self.register_buffer("forms", torch.zeros(1 if shared else classes, size, size))
        self.register_buffer("offsets", torch.zeros(classes, size))

    def variables(self, features: Tensor) -> Tensor:
        """The components in [-1, 1] that the monomials are of, (B, n)."""
        return torch.tanh(F.linear(features, self.weight, self.bias))

    def values(self, features: Tensor) -> Tensor:
        """Monomials (B, S)."""
        z = self.variables(features)
        # products of rounded numbers would round again at every degree
        wide = z.float() if z.dtype in (torch.float16, torch.bfloat16) else z
        values: Tensor = self.monomials(wide)
        return values.to(self.forms.dtype)

    def forward(self, features: Tensor) -> Tensor:
        return lengths(self.values(features), self.forms, self.offsets)

    def parts(self) -> dict[str, int]:
        """How many parameters each part stores."""
        return {
            "projection": self.weight.numel() + self.bias.numel(),
            "monomials": sum(block.size for block in self.monomials.terms.blocks),
            "coefficients": self.forms.numel() + self.offsets.numel(),
        }

    def config(self) -> dict[str, Any]:
        """Plain JSON values; the terms are among the tensors."""
        variables, features = self.weight.shape
        facts = {"features": features, "variables": variables, "classes": self.classes}
        return facts | {"shared": len(self.forms) < self.classes}

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], state: Mapping[str, Tensor], prefix: str = ""
    ) -> ClassDistances:
        """One of the shapes that ``config`` and the terms in ``state`` tell."""
        terms = Monomials.terms_of(state, f"{prefix}monomials.", int(config["variables"]))
        shared = bool(config["shared"])
        return cls(int(config["features"]), terms, int(config["classes"]), shared=shared)


def lengths(values: Tensor, forms: Tensor, offsets: Tensor) -> Tensor:
    """1 + |F_c v + b_c|^2 for values v (B, S) and every class, (B, classes).

    The matrices are (classes, S, S), or (1, S, S) where all classes have the same.
    """
    flat = F.linear(values, forms.flatten(0, 1)).unflatten(1, forms.shape[:2])
    if len(forms) == len(offsets):
        return 1 + (flat + offsets).square().sum(-1)
    # the square written out, for (B, classes, S) numbers may be many
    one = flat[:, 0]
    squares = one.square().sum(1, keepdim=True) + offsets.square().sum(1)
    return 1 + (squares + 2 * F.linear(one, offsets)).clamp_min(0)


def products_of(variables: int, products: int, degree: int) -> TermSet:
    """All variables, and all products up to ``degree`` of the first ``products`` of them.

    Examples
    --------
    >>> products_of(3, 2, 2).names()
    ['x0', 'x1', 'x2', 'x0^2', 'x0*x1', 'x1^2']
    """
    blocks = [np.zeros((0, 0), np.int64), np.arange(variables, dtype=np.int64)[:, None]]
    rows = np.arange(products, dtype=np.int64)[:, None]
    for _ in range(2, degree + 1):
        tails = [np.arange(row[-1], products, dtype=np.int64) for row in rows]
        repeated = np.repeat(rows, [len(tail) for tail in tails], axis=0)
        rows = np.concatenate([repeated, np.concatenate(tails)[:, None]], axis=1)
        blocks.append(rows)
    return TermSet.of_blocks(variables, blocks)
