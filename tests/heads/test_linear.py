from __future__ import annotations

import torch

from vinets.heads import PooledHead


def test_pooled_latents_are_means_over_positions():
    head = PooledHead(5, 3).eval()
    latents = torch.randn(6, 5, 4)
    shuffled = latents[:, :, torch.tensor([2, 0, 3, 1])]
    torch.testing.assert_close(head(latents), head(shuffled))
