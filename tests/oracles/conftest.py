"""Random problems with their optimum by an independent solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import cvxpy
import pytest
import torch
from torch import Tensor

from vinets.oracles import LeastSquaresBatch


@dataclass(frozen=True)
class Instance:
    """A batch with the matrices (K, m, o) and columns (N, m) it was made from."""

    problem: LeastSquaresBatch
    matrices: Tensor
    columns: Tensor

    @cached_property
    def optimum(self) -> Tensor:
        """Optimal values by cvxpy with CLARABEL, shape (N,)."""
        p = self.problem
        values = []
        for n in range(len(p)):
            width = int(p.prefix[n])
            u = self.columns[n].numpy()
            if width == 0:
                values.append(float(u @ u))
                continue
            M = self.matrices[p.owner[n], :, :width].numpy()
            c = cvxpy.Variable(width)
            aim = cvxpy.Minimize(cvxpy.sum_squares(M @ c + u))
            values.append(
                cvxpy.Problem(aim, [cvxpy.norm1(c) <= p.radius]).solve(solver=cvxpy.CLARABEL)
            )
        return torch.tensor(values, dtype=torch.float64)


def build(
    seed: int,
    *,
    rows: int = 6,
    width: int = 8,
    points: int = 20,
    classes: int = 1,
    rank: int | None = None,
    radius: float = 2.0,
    random_prefix: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Instance:
    g = torch.Generator().manual_seed(seed)
    M = torch.randn(classes, points, width, generator=g, dtype=torch.float64)
    if rank is not None:
        M = M[..., :rank] @ torch.randn(classes, rank, width, generator=g, dtype=torch.float64)
    M /= points**0.5
    U = torch.randn(rows, points, generator=g, dtype=torch.float64)
    U /= points**0.5
    owner = torch.randint(classes, (rows,), generator=g)
    prefix = torch.full((rows,), width)
    if random_prefix:
        prefix = torch.randint(width + 1, (rows,), generator=g)
        prefix[0] = 0
    problem = LeastSquaresBatch(
        gram=(M.mT @ M).to(dtype),
        linear=torch.einsum("nmo,nm->no", M[owner], U).to(dtype),
        constant=U.square().sum(1).to(dtype),
        prefix=prefix,
        owner=owner,
        radius=radius,
    )
    return Instance(problem, M, U)


CASES: dict[str, dict[str, object]] = {
    "inside": {"radius": 50.0},
    "large radius": {"radius": 999.0, "width": 5},
    "tight": {"radius": 0.4},
    "singular": {"radius": 20.0, "rank": 3},
    "singular, tight": {"radius": 0.3, "rank": 3},
    "more columns than points": {"radius": 1.0, "width": 12, "points": 6},
    "prefixes": {"radius": 0.6, "random_prefix": True, "rows": 9},
    "owners": {"radius": 0.7, "classes": 4, "rows": 9},
    "all at once": {"radius": 0.5, "classes": 3, "rank": 5, "random_prefix": True, "rows": 9},
}


@pytest.fixture(scope="session")
def make_instance() -> Callable[..., Instance]:
    return build


@pytest.fixture(scope="session", params=CASES)
def instance(request: pytest.FixtureRequest) -> Instance:
    """One problem of each kind, with its optimum computed once."""
    return build(list(CASES).index(request.param), **CASES[request.param])  # type: ignore[arg-type]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)
