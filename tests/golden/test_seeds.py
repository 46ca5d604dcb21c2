"""A seed gives the weights that it gave in version 0.2, before any training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from vinets import build
from vinets.data import digits
from vinets.networks.open import open_network

GOLDEN = Path(__file__).parent / "0.2"
BOUND = 1e-6  # of the largest value in a module: a bias is a sum over the weights next to it

# Every option of 0.2 that a head depends on, so that other defaults change nothing here.
OPTIONS: dict[str, dict[str, Any]] = {
    "vanishing": {
        "algorithm": "abm",
        "psi": 0.1,
        "max_degree": 3,
        "normalization": "unit",
        "per_class": 32,
        "reuse": False,
        "components": 6,
        "order": "tanh-pca",
        "pca": "exact",
        "scale": "unit",
        "train_projection": False,
        "keep": 2,
        "monomials": 24,
        "score": "separation",
        "sparse": False,
        "linear_path": 2,
    },
    "products": {
        "per_class": 8,
        "reuse": True,
        "parameters": 1200,
        "factors": 3,
        "spatial_rank": 3,
        "start": "random",
        "offset": 0.5,
    },
}


def seeded_head(kind: str) -> dict[str, Tensor]:
    """Return the weights of an untrained head; nothing else here calls the API."""
    model = open_network(GOLDEN / "networks" / "uncut").network
    network, _ = build(
        model,
        digits(seed=0).train,
        "relu1",
        head=kind,
        read="pool",
        pool=2,
        seed=3,
        progress=None,
        **OPTIONS[kind],
    )
    state = dict(network.head.state_dict())
    state.pop("polynomials.leading", None)  # the release did not keep the leading terms
    return state


@pytest.mark.filterwarnings("ignore::vinets.ideals.base.ScaleWarning")  # silenced by the release
@pytest.mark.parametrize("kind", list(OPTIONS))
def test_a_seed_gives_the_weights_of_the_release(kind):
    weights = load_file(GOLDEN / "seeded.safetensors")
    expected = {k.removeprefix(f"{kind}."): t for k, t in weights.items() if k.startswith(kind)}
    found = seeded_head(kind)
    assert found.keys() == expected.keys()
    # draws are the same bits with either kind of vector instructions, and are rounded otherwise
    # without them; what is computed from the data may differ with the libraries as well
    exact = kind == "products" and torch.backends.cpu.get_cpu_capability().startswith("AVX")
    largest: dict[str, float] = {}
    for name, tensor in expected.items():
        module = name.rpartition(".")[0]
        largest[module] = max(largest.get(module, 0.0), float(tensor.abs().max()))
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        if exact or not tensor.is_floating_point():
            assert torch.equal(found[name], tensor), name
        else:
            bound = BOUND * largest[name.rpartition(".")[0]]
            assert (found[name] - tensor).abs().max() <= bound, name
