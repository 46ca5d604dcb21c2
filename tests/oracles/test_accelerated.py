"""Accelerated gradients: the steps and the restarts."""

from __future__ import annotations

import numpy as np
import torch

from vinets.oracles import AcceleratedGradient
from vinets.oracles.problem import project_to_ball


def test_restarts_happen_and_forget_the_momentum(make_instance):
    p, solver = make_instance(60, radius=50.0).problem, AcceleratedGradient()
    state = solver.init(p, torch.zeros_like(p.linear))
    restarted = torch.zeros(len(p), dtype=torch.bool)
    for _ in range(100):
        state = solver.step(p, state)
        fresh = state.count[:, 0] == 1
        assert torch.equal(state.ahead[fresh], state.point[fresh])
        restarted |= fresh
    assert restarted.all()


def test_steps_are_those_of_the_papers(make_instance):
    """FISTA with restarts, one problem at a time in numpy; the projection is tested elsewhere."""
    p = make_instance(62, rows=5, radius=0.6, random_prefix=True).problem
    solver = AcceleratedGradient()
    start = torch.zeros_like(p.linear)
    states = [solver.init(p, start)]
    for _ in range(12):
        states.append(solver.step(p, states[-1]))
    L = float(np.linalg.eigvalsh(p.gram[0].numpy())[-1])
    for n in range(len(p)):
        G, b = p.gram[0].numpy(), p.linear[n].numpy()
        c = y = np.zeros(p.width)
        t = 1.0
        for state in states[1:]:
            moved = torch.from_numpy(y - (G @ y + b) / L)[None]
            new = project_to_ball(moved, p.radius, p.mask[n : n + 1])[0].numpy()
            if (y - new) @ (new - c) > 0:
                c, y, t = new, new, 1.0
            else:
                later = (1 + (1 + 4 * t**2) ** 0.5) / 2
                c, y, t = new, new + (t - 1) / later * (new - c), later
            np.testing.assert_allclose(state.point[n], c, atol=1e-10)
            np.testing.assert_allclose(state.ahead[n], y, atol=1e-10)
