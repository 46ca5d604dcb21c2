r"""Spectral complexity of a network, layer by layer.

.. math::

    R = \Bigl(\prod_i \rho_i \|W_i\|_2\Bigr)
        \Bigl(\sum_i \bigl(\|W_i^T\|_{2,1} / \|W_i\|_2\bigr)^{2/3}\Bigr)^{3/2}

for layers :math:`\sigma_i \circ W_i` with :math:`\rho_i`-Lipschitz :math:`\sigma_i`. The layers of
a network are read by :mod:`vinets.theory.layers`, which states the rule for residual blocks.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from vinets.core.plain import as_plain
from vinets.theory.layers import RESIDUAL_RULE, Layer
from vinets.theory.norms import kernel_bound, linear_map, row_norms, spectral_norm, stacked_norm


@dataclass(frozen=True)
class LayerNorms:
    """What the definition needs of one layer."""

    name: str
    spectral: float  # norm of W
    two_one: float  # (2,1) norm of its transpose
    lipschitz: float = 1.0  # of the activation and what else follows W
    kernel_bound: float | None = None  # on the spectral norm, from the reshaped kernel
    upper: float | None = None  # bound on the spectral norm, but for a probability of 1e-6
    converged: bool = True
    role: str = "plain"  # place in a residual block: plain, fork, carry or join

    @property
    def ratio(self) -> float:
        """(2,1) norm over spectral norm; 0 for a layer of zeros, for R is 0 then."""
        return self.two_one / self.spectral if self.spectral > 0 else 0.0

    @property
    def term(self) -> float:
        """The layer's term in the sum."""
        return float(self.ratio ** (2 / 3))


@dataclass(frozen=True)
class Complexity:
    """Spectral complexity R and the layers that make it up.

    Examples
    --------
    >>> Complexity((LayerNorms("a", 2.0, 2.0), LayerNorms("b", 3.0, 3.0))).R
    16.970562748477143
    """

    layers: tuple[LayerNorms, ...]

    @property
    def product(self) -> float:
        """Product of Lipschitz constants and spectral norms."""
        return math.prod(layer.lipschitz * layer.spectral for layer in self.layers)

    @property
    def log10_product(self) -> float:
        """Decimal logarithm of the product, finite where that overflows."""
        # fsum, so that the order of the layers does not show in the last digits.
        factors = [layer.lipschitz * layer.spectral for layer in self.layers]
        return math.fsum(map(math.log10, factors)) if all(f > 0 for f in factors) else -math.inf

    @property
    def total(self) -> float:
        """The sum, before it is raised to the power 3/2."""
        return math.fsum(layer.term for layer in self.layers)

    @property
    def log10_R(self) -> float:
        """Decimal logarithm of R, finite where R itself overflows."""
        total = self.total
        return self.log10_product + 1.5 * math.log10(total) if total > 0 else -math.inf

    @property
    def R(self) -> float:
        """The spectral complexity, or infinity where it does not fit a float."""
        log = self.log10_R
        # Far inside of the range of floats, as the product alone may be larger or smaller than R.
        if abs(log) > 300:  # minus infinity where a layer is zero
            return math.inf if log > 0 else 0.0
        return self.product * float(self.total**1.5)

    @property
    def shares(self) -> tuple[float, ...]:
        """Each layer's share of the sum; the shares add up to 1."""
        total = self.total
        return tuple(layer.term / total if total > 0 else 0.0 for layer in self.layers)

    @property
    def converged(self) -> bool:
        """Whether every spectral norm reached its tolerance."""
        return all(layer.converged for layer in self.layers)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and names, for JSON."""
        shares = zip(self.layers, self.shares, strict=True)
        rows = [asdict(layer) | {"share": share} for layer, share in shares]
        found = {"R": self.R, "log10_R": self.log10_R, "residual_rule": RESIDUAL_RULE}
        plain: dict[str, Any] = as_plain(found | {"layers": rows})
        return plain

    def __str__(self) -> str:
        width = max([5, *(len(layer.name) for layer in self.layers)])
        head = f"{'layer':<{width}} {'role':<5} {'‖W‖₂':>10} {'kernel':>10} {'excess':>7}"
        lines = [f"{head} {'‖Wᵀ‖₂,₁':>11} {'ρ':>6} {'share':>7}"]
        for layer, share in zip(self.layers, self.shares, strict=True):
            bound, excess = "-", "-"
            if layer.kernel_bound is not None:
                bound = f"{layer.kernel_bound:.4g}"
                excess = f"{layer.kernel_bound / layer.spectral:.2f}x" if layer.spectral else "-"
            mark = "" if layer.converged else "  not converged"
            lines.append(
                f"{layer.name:<{width}} {layer.role:<5} {layer.spectral:>10.4g} {bound:>10} "
                f"{excess:>7} {layer.two_one:>11.4g} {layer.lipschitz:>6.3g} {share:>7.1%}{mark}"
            )
        return "\n".join([*lines, f"R = 10^{self.log10_R:.3f}"])


def layer_norms(layer: Layer, tolerance: float = 1e-4, seed: int = 0) -> LayerNorms:
    """Both norms of a layer, with the shortcut that a fork, a carry or a join holds beside it."""
    operator, shape, role = layer.operator, layer.input_shape, layer.role
    rows, cheap = row_norms(operator, shape), kernel_bound(operator)
    two_one = float(rows.sum())
    if layer.shortcut is not None:  # of a fork, one above the other
        maps = [linear_map(part, shape) for part in (operator, layer.shortcut)]
        found = stacked_norm(maps, shape, tolerance, seed, operator.weight.device)
        two_one += float(row_norms(layer.shortcut, shape).sum())
        cheap = math.hypot(cheap, kernel_bound(layer.shortcut))
    else:
        found = spectral_norm(operator, shape, tolerance, seed)
        two_one += layer.carried
    value, upper = found.value, min(found.upper, cheap)
    # The identity beside the operator; its norms are closed forms.
    if role == "carry":
        value, upper, cheap = (max(norm, 1.0) for norm in (value, upper, cheap))
    elif role in ("fork", "join") and layer.shortcut is None:
        value, upper, cheap = (math.hypot(norm, 1.0) for norm in (value, upper, cheap))
    if role == "join":
        two_one = float((rows.square() + 1).sqrt().sum())
    # Where both agree but for rounding, the bound must not lie below the value.
    upper = max(value, upper)
    return LayerNorms(
        layer.name, value, two_one, layer.lipschitz, cheap, upper, found.converged, role
    )
