r"""The factorisation for tiny tolerances: orthonormal rows that span those of :math:`M`.

With :math:`M = LQ`, :math:`QQ^\top = I`, a candidate is :math:`u = wQ + \rho q`. Its least-squares
coefficients over the accepted terms are :math:`c = wL^{-1}`, and :math:`\rho^2` is the residual,
taken from the residual *vector*, so nothing is squared first.

**leading**: joins :math:`O` iff :math:`\rho^2 > \psi`.

**unit**: with :math:`G = LL^\top` and :math:`G - \psi I = KK^\top`,

.. math:: \lambda_{\min}\begin{pmatrix} G & b \\ b^\top & \beta\end{pmatrix} > \psi
          \iff \rho^2 - \psi\,(1 + \lVert c\rVert^2 + \psi\lVert K^{-1}c\rVert^2) > 0,

which is the Schur complement of the Gram form rewritten without cancellation. :math:`K` grows with
:math:`O`: its new row is :math:`(K^\top c + \psi K^{-1}c,\ \kappa)` with :math:`\kappa^2` the gap
itself.

A residual below :math:`64\,\epsilon\,(\lVert u\rVert + \sum_j |c_j|\lVert M_j\rVert)` is rounding
noise and counts as zero; this is what makes :math:`\psi = 0` mean "exactly vanishing".
"""

from __future__ import annotations

import torch
from torch import Tensor

from vinets.algebra.growing import Candidates, GrowingFactor, first_true, gather_rows, scatter_mask

ROUNDING = 64.0  # machine epsilons; an error of so many, relative to what is added up, is none


class OrthogonalFactor(GrowingFactor):
    """Growing orthogonal factorisation; see the module's formulas."""

    tables = ("rows", "basis", "norms")
    triangles = ("lower", "shifted")

    def __init__(self, constant: Tensor, *, psi: float, unit: bool) -> None:
        super().__init__(constant, psi=psi, unit=unit)
        self.basis = self.rows.to(self.work_dtype, copy=True)  # (K, capacity, m) orthonormal
        self.shifted = self.lower.clone()  # (K, capacity, capacity): K above
        self.norms = torch.linalg.vector_norm(self.basis, dim=-1, keepdim=True)  # (K, capacity, 1)
        norm = self.norms[:, 0]
        self.basis[:, 0] /= norm
        self.lower[:, 0, :1] = norm
        self.shifted[:, 0, :1] = (norm.square() - self.shift).sqrt()

    def inner(self, left: Tensor, right: Tensor) -> Tensor:
        # sums in float32 would be coarser than the tolerances that this factor is for
        return super().inner(left.to(self.work_dtype), right.to(self.work_dtype))

    def screen(self, values: Tensor, valid: Tensor) -> Candidates:
        # rows may be stored in float32, but nothing is decided in it
        wide = values.to(self.work_dtype)
        residual, coordinates = _project_out(wide, self.basis[:, : self.size])
        square = wide.square().sum(-1)
        none = torch.zeros_like(valid)
        # the square stands in for gap and threshold, which _refresh computes
        block = Candidates(
            values, square, coordinates, square, square, valid.clone(), none, residual
        )
        self._refresh(block)
        return block

    def take_panel(self, block: Candidates, index: Tensor, chosen: Tensor) -> None:
        """Go through the panel one acceptance at a time, then bring the whole block up to date.

        Inside the panel every residual is orthogonalised again after each acceptance: with tiny
        tolerances that is what keeps the small ones meaningful.
        """
        assert block.residual is not None
        panel = Candidates(
            values=gather_rows(block.values, index),
            square=block.square.gather(1, index),
            coordinates=gather_rows(block.coordinates, index),
            gap=block.gap.gather(1, index),
            threshold=block.threshold.gather(1, index),
            undecided=chosen.clone(),
            accepted=torch.zeros_like(chosen),
            residual=gather_rows(block.residual, index),
        )
        start = list(self.counts)
        while True:
            first, found = first_true(panel.undecided, 1)
            if first.shape[1] == 0:
                break
            first, found = first[:, 0], found[:, 0]
            assert panel.residual is not None
            sets = torch.arange(len(first), device=first.device)
            whole = self.basis[:, : self.size]  # not the new rows alone: small errors add up
            vector = _project_out(panel.residual[sets, first][:, None], whole)[0][:, 0]
            norm = torch.linalg.vector_norm(vector, dim=-1)
            direction = torch.where(found[:, None], vector / norm[:, None], 0.0)
            before = list(self.counts)
            self._append_rows(panel, first.tolist(), found.tolist(), direction, norm)
            panel.undecided[sets, first] &= ~found
            self._advance(panel, before)
            self._refresh(panel)
        width = block.undecided.shape[1]
        block.undecided &= ~scatter_mask(index, chosen, width)
        block.accepted |= scatter_mask(index, panel.accepted, width)
        self._advance(block, start)
        self._refresh(block)

    def force(self, values: Tensor) -> None:
        one = torch.ones(1, 1, dtype=torch.bool, device=values.device)
        block = self.screen(values[None, None], one)
        assert block.residual is not None
        scale = float(block.square.sqrt())
        # wider than in _refresh: a direction made of rounding would spoil the basis for good
        noise = 16 * ROUNDING * torch.finfo(self.work_dtype).eps * scale
        norm = torch.linalg.vector_norm(block.residual[:, 0], dim=-1)
        if float(norm) <= noise:
            self._append_dependent(values)
        else:
            self._append_rows(block, [0], [True], block.residual[:, 0] / norm[:, None], norm)

    def _advance(self, block: Candidates, start: list[int]) -> None:
        """Project the basis vectors added since ``start`` out of the block."""
        assert block.residual is not None
        added = max(now - then for now, then in zip(self.counts, start, strict=True))
        if added == 0:
            return
        at = torch.as_tensor(start, device=self.basis.device)[:, None]
        at = at + torch.arange(added, device=self.basis.device)  # rows beyond a count are zero
        basis = gather_rows(self.basis, at.clamp(max=self.basis.shape[1] - 1))
        limit = torch.as_tensor(self.counts, device=self.basis.device)[:, None]
        # the clamp may have repeated the last row of a set that accepted less than others
        basis = basis * (at < limit)[:, :, None]
        block.residual, along = _project_out(block.residual, basis)
        self._extend(block, along, start)

    def _append_rows(
        self,
        panel: Candidates,
        positions: list[int],
        exists: list[bool],
        direction: Tensor,
        norm: Tensor,
    ) -> None:
        """Add one row per set to every array that grows."""
        coefficients, scaled = self._coefficients(panel)
        self._reserve(1)
        for k, (at, yes) in enumerate(zip(positions, exists, strict=True)):
            if not yes:
                continue
            o = self.counts[k]
            c, d = coefficients[k, at, :o], scaled[k, at, :o]
            self.rows[k, o], self.basis[k, o] = panel.values[k, at], direction[k]
            self.lower[k, o, :o], self.lower[k, o, o] = panel.coordinates[k, at, :o], norm[k]
            self.norms[k, o] = panel.square[k, at].sqrt()
            self.shifted[k, o, :o] = c @ self.shifted[k, :o, :o] + self.shift * d
            # only a term that is forced could have a gap below 0
            self.shifted[k, o, o] = panel.gap[k, at].clamp(min=0).sqrt()
            panel.accepted[k, at] = True
            self.counts[k] = o + 1

    def _coefficients(self, block: Candidates) -> tuple[Tensor, Tensor]:
        """Return the least-squares coefficients c = w L^{-1} and d = K^{-1} c, both (K, b, o)."""
        o = block.coordinates.shape[-1]
        solve = torch.linalg.solve_triangular
        c = solve(self.lower[:, :o, :o], block.coordinates, upper=False, left=False)
        if not self.unit:
            return c, torch.zeros_like(c)
        return c, solve(self.shifted[:, :o, :o].mT, c, upper=True, left=False)

    def noise(self, square: Tensor, c: Tensor, norms: Tensor) -> Tensor:
        """Square what rounding may leave of combinations ``c`` (..., o) that are zero."""
        scale = square.sqrt() + (c.abs() @ norms).squeeze(-1)
        return (ROUNDING * torch.finfo(self.work_dtype).eps * scale).square()

    def _refresh(self, block: Candidates) -> None:
        """Recompute gaps and thresholds from the residual vectors."""
        c, d = self._coefficients(block)
        assert block.residual is not None
        residual = block.residual.square().sum(-1)
        noise = self.noise(block.square, c, self.norms[:, : c.shape[-1]])
        if self.unit:
            needed = self.psi * (1 + c.square().sum(-1) + self.psi * d.square().sum(-1))
            block.gap = residual - needed
            # Both sides are lowered alike: the gap stays the square of the next diagonal entry
            # that K has, and a residual that is noise is refused all the same.
            block.threshold = (noise - needed).clamp(min=0)
        else:
            block.gap = residual
            block.threshold = noise.clamp(min=self.psi)
        block.undecided &= block.gap > block.threshold


def _project_out(values: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """Return what orthonormal rows leave of ``values``, and the coordinates along them.

    Done twice: the first projection leaves an error of the size of the rounding of ``values``,
    which for a small remainder may be all of it; after the second it is that of the remainder.
    """
    along = values @ basis.mT
    residual = values - along @ basis
    again = residual @ basis.mT
    return residual - again @ basis, along + again
