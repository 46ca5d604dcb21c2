from __future__ import annotations

import pytest
import torch
from torch import nn

from vinets.core.device import evaluating, resolve_device


def test_every_module_gets_its_own_flag_back_even_after_an_error():
    network = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    network[1].eval()
    flags = [m.training for m in network.modules()]
    with pytest.raises(RuntimeError, match="stop"), evaluating(network):
        assert not any(m.training for m in network.modules()) and not torch.is_grad_enabled()
        raise RuntimeError("stop")
    assert [m.training for m in network.modules()] == flags and torch.is_grad_enabled()


def test_devices_have_one_spelling():
    assert resolve_device("here", "cpu:0") == resolve_device("here", torch.device("cpu"))
    assert resolve_device("here", "auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(ValueError, match="'device' parameter of here must be 'auto', 'cpu' or"):
        resolve_device("here", "meta")
