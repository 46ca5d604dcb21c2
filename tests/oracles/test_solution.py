from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
import torch

from vinets.oracles import Solution, Status


def test_summary_counts_rows_steps_and_the_worst_gap():
    solution = Solution(
        coefficients=torch.zeros(4, 2),
        value=torch.zeros(4),
        gap=torch.tensor([0.0, 0.5, 0.25, 0.0]),
        steps=torch.tensor([0, 16, 8, 8]),
        status=torch.tensor([Status.CONVERGED, Status.STEP_LIMIT, Status.TARGET, Status.TARGET]),
    )
    summary = solution.summary()
    assert summary.per_status == {Status.CONVERGED: 1, Status.TARGET: 2, Status.STEP_LIMIT: 1}
    assert (summary.rows, summary.total_steps, summary.max_steps) == (4, 32, 16)
    assert summary.worst_gap == 0.5


def test_summary_of_nothing():
    none = torch.zeros(0)
    whole = torch.zeros(0, dtype=torch.int64)
    summary = Solution(torch.zeros(0, 2), none, none, whole, whole).summary()
    assert (summary.rows, summary.per_status, summary.worst_gap) == (0, {}, 0.0)


def test_results_cannot_be_changed():
    none, whole = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    solution = Solution(torch.zeros(0, 2), none, none, whole, whole)
    for result, name in ((solution, "value"), (solution.summary(), "rows")):
        with pytest.raises(FrozenInstanceError):
            setattr(result, name, 1)
