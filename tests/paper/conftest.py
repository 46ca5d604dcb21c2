"""Small data in the layout of CIFAR, and untrained weights: enough to run every experiment."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from vinets.models import create_model
from vinets.paper.reproduce import Folders


@pytest.fixture(scope="session")
def folders(tmp_path_factory) -> Folders:
    """Folders of data and weights for ResNet-18."""
    root = tmp_path_factory.mktemp("paper")
    binary = root / "data" / "cifar10" / "cifar-10-batches-bin"
    binary.mkdir(parents=True)
    rng = np.random.default_rng(0)
    base = rng.integers(40, 215, size=(10, 3072))
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        labels = np.arange(100) % 10
        images = np.clip(base[labels] + rng.normal(0, 40, (100, 3072)), 0, 255)
        rows = np.concatenate([labels[:, None], images], axis=1).astype(np.uint8)
        (binary / f"{name}.bin").write_bytes(rows.tobytes())
    torch.manual_seed(0)
    weights = root / "weights"
    weights.mkdir()
    save_file(create_model("resnet18", 10).state_dict(), weights / "resnet18_cifar10.safetensors")
    return Folders(root / "data", weights)
